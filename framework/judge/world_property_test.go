package judge

import (
	"fmt"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/judges"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// listAndWatchJudges are those of lists and watches.
func listAndWatchJudges() []judges.Definition {
	return []judges.Definition{
		named("list-semantics"), named("list-snapshot"),
		named("watch-ordered"), named("watch-unique"), named("watch-reliable"), named("watch-resumable"), named("watch-bookmark"), named("watch-filter"), named("watch-compacted"),
		named("watch-flags"), named("watch-content"), named("watch-atomic"), named("watch-previous"),
	}
}

// verdictsOn runs the judges of lists and watches.
func verdictsOn(run *record.Run) map[string]judges.Finding {
	shared := facts.NewCollections(run)
	all := map[string]judges.Finding{}
	for _, d := range listAndWatchJudges() {
		all[d.Name] = d.Judge(&facts.Case{Run: run, Shared: func() *facts.Collections { return shared }})
	}
	return all
}

// No judge accuses a legal history, whatever its clients could not know.
func TestLegalWorlds(t *testing.T) {
	seeds := uint64(1000)
	if testing.Short() {
		seeds = 100
	}
	for _, api := range []string{facts.APIKubernetes, facts.APIEtcd} {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			passes := map[string]int{}
			for seed := range seeds {
				w := simulate(api, seed, 600)
				for name, f := range verdictsOn(w.run) {
					if f.Verdict == Fail {
						t.Fatalf("seed %d: %s: %s\n%s", seed, name, f.Sentence, fmt.Sprint(f.Evidence))
					}
					if f.Verdict == Pass {
						passes[name]++
					}
				}
			}
			for _, d := range listAndWatchJudges() {
				onlyEtcd := d.Name == "watch-atomic" || d.Name == "watch-previous"
				if passes[d.Name] < int(seeds)/2 && (api == facts.APIEtcd || !onlyEtcd) {
					t.Errorf("%s had something to judge in %d of %d worlds only", d.Name, passes[d.Name], seeds)
				}
			}
			t.Log(passes)
		})
	}
}
