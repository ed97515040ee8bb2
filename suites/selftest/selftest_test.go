package selftest

import (
	"path/filepath"
	"strconv"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/clusters/release"
)

// TestPlanted breaks clusters on purpose and expects the judges to say so. It
// runs all that `holdfast selftest` runs, one cluster after another, apart from
// what takes a process outside of the sandbox.
func TestPlanted(t *testing.T) {
	if testing.Short() {
		t.Skip("makes clusters")
	}
	work, err := Plan(nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range Clusters(work) {
		for _, b := range local.Binaries(spec) {
			if _, err := release.Lookup(b.Product, b.Version, release.Options{}); err != nil {
				t.Skipf("run `holdfast fetch %s %s` first: %v", b.Product, b.Version, err)
			}
		}
	}
	var outcomes []Outcome
	dir := t.TempDir()
	for i, b := range work {
		err := Run(t.Context(), b, Env{Dir: filepath.Join(dir, strconv.Itoa(i)), Harness: "test", Progress: func(line string) { t.Log(line) }},
			func(o Outcome) { outcomes = append(outcomes, o) })
		if err != nil {
			t.Fatal(err)
		}
	}
	rows, err := Rows(nil, outcomes)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		t.Run(r.Judge+"/"+r.Plant, func(t *testing.T) {
			switch {
			case r.Plant == "stopped-harness":
				t.Skip("the test cannot stop itself: see holdfast selftest")
			case r.State == Unclear:
				t.Skip(r.Why)
			case r.State != Caught:
				t.Errorf("%s: %s", r.State, r.Why)
			default:
				t.Log(r.Sentence)
			}
		})
	}
}
