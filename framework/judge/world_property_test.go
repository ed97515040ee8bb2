package judge

import (
	"fmt"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// listAndWatchJudges are those of lists and watches.
func listAndWatchJudges() []definition {
	return []definition{
		listSemantics(), listSnapshot(),
		watchOrdered(), watchUnique(), watchReliable(), watchResumable(), watchBookmark(), watchFilter(), watchCompacted(),
		watchFlags(), watchContent(), watchAtomic(), watchPrevious(),
	}
}

// verdictsOn runs the judges of lists and watches.
func verdictsOn(run *record.Run) map[string]finding {
	shared := newCollections(run)
	all := map[string]finding{}
	for _, d := range listAndWatchJudges() {
		all[d.Name] = d.judge(&matter{run: run, shared: func() *collections { return shared }})
	}
	return all
}

// No judge accuses a legal history, whatever its clients could not know.
func TestLegalWorlds(t *testing.T) {
	seeds := uint64(1000)
	if testing.Short() {
		seeds = 100
	}
	for _, api := range []string{apiKubernetes, apiEtcd} {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			passes := map[string]int{}
			for seed := range seeds {
				w := simulate(api, seed, 600)
				for name, f := range verdictsOn(w.run) {
					if f.verdict == Fail {
						t.Fatalf("seed %d: %s: %s\n%s", seed, name, f.sentence, fmt.Sprint(f.evidence))
					}
					if f.verdict == Pass {
						passes[name]++
					}
				}
			}
			for _, d := range listAndWatchJudges() {
				onlyEtcd := d.Name == "watch-atomic" || d.Name == "watch-previous"
				if passes[d.Name] < int(seeds)/2 && (api == apiEtcd || !onlyEtcd) {
					t.Errorf("%s had something to judge in %d of %d worlds only", d.Name, passes[d.Name], seeds)
				}
			}
			t.Log(passes)
		})
	}
}
