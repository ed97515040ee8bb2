package selftest

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters/local/localtest"
)

// some are judges of every kind: of the state of the cluster, of a fault, of the histories of
// registers, lists and watches. Of those of a fault, write-gap needs the shortest runs.
var some = []string{"single-holder", "endpoints-match", "write-gap",
	"linearizable", "monotonic-reads", "list-semantics", "watch-reliable", "watch-unique"}

// TestPlanted breaks clusters on purpose and expects the judges to report it, one cluster after
// another. With HOLDFAST_TEST_PLANTS=all it runs everything that `holdfast selftest` runs, except
// what needs a process outside the sandbox; some of it differently.
func TestPlanted(t *testing.T) {
	judges, all := some, os.Getenv("HOLDFAST_TEST_PLANTS") == "all"
	if all {
		judges = nil
	}
	work, err := Plan(judges)
	if err != nil {
		t.Fatal(err)
	}
	// The catalogue's scenarios take longer than those made for a single judge.
	left := func(scenario string) bool { return !all && strings.HasPrefix(scenario, catalogue) }
	for i := range work {
		work[i].Units = slices.DeleteFunc(work[i].Units, func(u Unit) bool { return left(u.Scenario) })
	}
	work = slices.DeleteFunc(work, func(b Batch) bool { return len(b.Units) == 0 })
	localtest.NeedClusters(t, Clusters(work)...)
	var outcomes []Outcome
	dir := t.TempDir()
	for i, b := range work {
		err := Run(t.Context(), b, Env{Dir: filepath.Join(dir, strconv.Itoa(i)), Harness: "test", Progress: func(line string) { t.Log(line) }},
			func(o Outcome) { outcomes = append(outcomes, o) })
		if err != nil {
			t.Fatal(err)
		}
	}
	rows, err := Rows(judges, outcomes)
	if err != nil {
		t.Fatal(err)
	}
	rows = slices.DeleteFunc(rows, func(r Row) bool {
		return slices.ContainsFunc(Plants(), func(p Plant) bool { return p.Name == r.Plant && left(p.Scenario) })
	})
	caught := 0
	for _, r := range rows {
		if r.State == Caught {
			caught++
		}
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
	if caught < len(rows)/2 {
		t.Errorf("%d of %d plants were caught: too few for the rest to be blamed on a busy machine", caught, len(rows))
	}
}
