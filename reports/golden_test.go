package reports

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestGoldenFiles(t *testing.T) {
	dir := t.TempDir()
	if err := Write(dir, fixtureRun(), fixtureResults(), fixtureRecords(), fixtureTitles()); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 6 {
		t.Errorf("Write left %d files, want 6: %v", len(entries), entries)
	}
	var out bytes.Buffer
	r := New(fixtureRun(), fixtureResults(), fixtureTitles())
	if err := Print(&out, "Report: /results/report.html", r.All(), false); err != nil {
		t.Fatal(err)
	}
	compareGolden(t, "print.txt", out.Bytes())
	for _, e := range entries {
		got, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"script": string(script()), "style": string(style())} {
			got = bytes.Replace(got, []byte(text), []byte(name), 1)
		}
		compareGolden(t, e.Name(), got)
	}
}

func compareGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (write it with go test ./reports/ -update)", err)
	}
	if bytes.Equal(got, want) {
		return
	}
	a, b := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range a {
		if i >= len(b) || !bytes.Equal(a[i], b[i]) {
			t.Errorf("%s differs from %s on line %d (write it anew with -update if this is right):\n got %s", name, path, i+1, a[i])
			if i < len(b) {
				t.Errorf("want %s", b[i])
			}
			return
		}
	}
	t.Errorf("%s is shorter than %s", name, path)
}
