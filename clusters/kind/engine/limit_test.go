package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLimit(t *testing.T) {
	for _, test := range []struct {
		name, now, after, said string
	}{
		{"too low", "128\n", "1024", "set some.limit to 1024 (was 128), which kind's nodes need"},
		{"high enough", "2048\n", "2048\n", ""},
		{"no number", "max\n", "max\n", ""},
	} {
		l := Limit{Sysctl: "some.limit", Wanted: 1024, file: filepath.Join(t.TempDir(), "limit")}
		if err := os.WriteFile(l.file, []byte(test.now), 0o644); err != nil {
			t.Fatal(err)
		}
		said := ""
		l.raise(func(format string, args ...any) { said += fmt.Sprintf(format, args...) })
		after, err := os.ReadFile(l.file)
		if err != nil || string(after) != test.after || !strings.HasPrefix(said, test.said) || (said == "") != (test.said == "") {
			t.Errorf("%s: %q, %q, %v", test.name, after, said, err)
		}
	}
	l := Limit{Sysctl: "some.limit", Wanted: 1024, file: "/nonexistent/limit"}
	l.raise(func(string, ...any) { t.Error("told about a limit that there is not") })
}
