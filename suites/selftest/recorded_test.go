package selftest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// timeless are the judges whose failures may have no certain time in a run: of settings, versions,
// credentials and counts, and of what is only seen at its end.
var timeless = []string{
	"certificates", "certificates-last", "changed-one-by-one", "etcd-authenticates", "etcd-hashes", "etcd-membership", "fault-domains",
	"objects-between-versions", "own-apiserver", "pods-bound", "restored-from-snapshot", "returns-ready", "snapshot-verifies",
	"spreads-again", "supervised", "time-settings", "tokens-accepted", "unknown-reads-nothing", "unsafe-member-refused", "version-skew",
}

// TestRecorded judges records of real clusters again, those of planted violations and of their
// healthy twins: a violation that was caught once is caught without a cluster.
//
// testdata/recorded/NAME has a short record of the plant NAME, or of the healthy twin
// healthy-SCENARIO, as `holdfast selftest --out` leaves it.
func TestRecorded(t *testing.T) {
	const dir = "testdata/recorded"
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, e := range entries {
		t.Run(e.Name(), func(t *testing.T) {
			run, err := record.Read(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			results := judge.Evaluate(run)
			if strings.HasPrefix(e.Name(), "healthy-") {
				for _, r := range results {
					if r.Verdict == judge.Fail {
						t.Errorf("%s: %s", r.Requirement, r.Sentence)
					}
				}
				return
			}
			plants := Plants()
			i := slices.IndexFunc(plants, func(p Plant) bool { return p.Name == e.Name() })
			if i < 0 {
				t.Fatal("there is no such plant")
			}
			for _, r := range results {
				if r.Verdict == judge.Fail && r.Violated == nil && !slices.Contains(timeless, r.Judge) {
					t.Errorf("%s: its report cannot show when %q was so", r.Judge, r.Sentence)
				}
			}
			for _, c := range plants[i].Catches {
				shown[c.subject()] = true
				if !slices.ContainsFunc(results, c.Found) {
					t.Errorf("%s is not %s, saying %q", c.subject(), c.verdict(), c.Says)
				}
			}
		})
	}
	for _, name := range judge.Names() {
		if !shown[name] {
			t.Errorf("no record shows that %s finds fault", name)
		}
	}
}
