package suites

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/holdfast-ha/holdfast/suites/run"
)

// TestProblemsOf checks that a cluster which could not be deleted fails the suite, whatever became of
// its last spec.
func TestProblemsOf(t *testing.T) {
	p := &run.Plan{Parts: []run.Part{{Name: "cluster-1"}, {Name: "cluster-2", Problem: "the worker hangs"}, {Name: "cluster-3"}}}
	if got, want := problemsOf(p), []string{"cluster-2: the worker hangs"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	p.Parts[1].Problem = ""
	if got := problemsOf(p); len(got) > 0 {
		t.Errorf("%q", got)
	}
}

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
