package local

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	add := func(text string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	follow, err := startTail(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { follow.close() }()
	expect := func(want ...string) {
		t.Helper()
		var got []string
		if err := follow.read(func(b []byte) { got = append(got, string(b)) }); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("lines %.200q, want %.200q", got, want)
		}
	}
	expect() // no file yet
	add("one\ntwo\nth")
	expect("one", "two")
	expect()
	add("ree\n")
	expect("three")
	// Renamed, as the API server does: what still goes into the old file counts.
	add("four\n")
	old, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	expect("four")
	fmt.Fprintln(old, "five")
	add("six\n")
	expect("five", "six")
	long := strings.Repeat("x", 700<<10)
	add(long + "\nseven\n")
	expect(long, "seven")

	// One that begins in the middle of a line leaves that line out.
	add("eig")
	follow.close()
	if follow, err = startTail(path); err != nil {
		t.Fatal(err)
	}
	add("ht\nnine\n")
	var got []string
	if err := follow.read(func(b []byte) { got = append(got, string(b)) }); err != nil || len(got) != 2 || strings.HasPrefix(got[0], "{") || got[1] != "nine" {
		t.Fatalf("lines %q, error %v", got, err)
	}
}
