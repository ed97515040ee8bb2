package suites

import (
	"os"
	"path/filepath"
	"testing"
)

// TestNewDir checks that a repeated suite does not overwrite earlier results.
func TestNewDir(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, want := range []string{"out", "out.2", "out.3"} {
		dir, err := newDir("out")
		if err != nil || filepath.Base(dir) != want || !filepath.IsAbs(dir) {
			t.Errorf("%q, %v, want %s", dir, err, want)
		}
	}
	if dir, err := newDir(""); err != nil || filepath.Base(filepath.Dir(dir)) != "results" {
		t.Errorf("%q, %v", dir, err)
	}
	if err := os.WriteFile("file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if dir, err := newDir("file"); err == nil {
		t.Errorf("a file makes %q", dir)
	}
}
