package judge

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// The digest covers each source file of the judges.
func TestDigest(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	other := []string{"doc.go", "docs.go", "rules.go"} // which make no verdicts
	for _, f := range files {
		_, err := sources.Open(f.Name())
		if judges := strings.HasSuffix(f.Name(), ".go") && !strings.HasSuffix(f.Name(), "_test.go") && !slices.Contains(other, f.Name()); judges && err != nil {
			t.Errorf("%s is not among the sources in rules.go", f.Name())
		}
	}
	for _, name := range []string{"internal/judges/takeover.go", "internal/facts/case.go", "verdict/bound.go"} {
		if text, err := sources.ReadFile(name); err != nil || len(text) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(Digest()) != 64 {
		t.Errorf("the digest is %q", Digest())
	}
}
