package scenarios

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/observe"
)

func TestCatalogue(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Requirements() {
		if seen[r.ID] {
			t.Errorf("%s stands twice", r.ID)
		}
		seen[r.ID] = true
		if !strings.HasPrefix(r.ID, "HA-"+r.Area+"-") || r.Text == "" || r.Source == "" {
			t.Errorf("%+v is not complete", r)
		}
		switch r.Level {
		case "MUST", "SHOULD", "INFO":
		default:
			t.Errorf("%s: level %q", r.ID, r.Level)
		}
	}
	if len(seen) < 108 {
		t.Errorf("%d requirements; none of the 108 may go", len(seen))
	}
}

// TestInvariants shows that the rows of area INV are those that the judges of every run
// settle, and that every scenario counts as settling them.
func TestInvariants(t *testing.T) {
	var rows, settled []string
	for _, r := range Requirements() {
		if r.Invariant() {
			rows = append(rows, r.ID)
			if r.Level != "MUST" || len(SettledBy(r)) != len(All()) {
				t.Errorf("%s: level %s, settled by %d of %d scenarios", r.ID, r.Level, len(SettledBy(r)), len(All()))
			}
		}
	}
	for _, c := range judge.Invariants() {
		settled = append(settled, c.Requirement)
	}
	slices.Sort(settled)
	if settled = slices.Compact(settled); !slices.Equal(rows, settled) || len(rows) < 11 {
		t.Errorf("rows %q, settled by judges of every run %q", rows, settled)
	}
}

// Every requirement of these areas is settled, and the profile core already settles what a
// cluster MUST keep. Requirements on changes and recovery take longer, and may need the profile
// full.
func TestSettled(t *testing.T) {
	settled, core := map[string]bool{}, map[string]bool{}
	for _, s := range All() {
		for _, r := range s.Spec.Requirements {
			if _, ok := RequirementByID(r.ID); !ok {
				t.Errorf("%s settles %s, which the catalogue does not have", s.Metadata.Name, r.ID)
			}
			settled[r.ID] = settled[r.ID] || s.In("full")
			core[r.ID] = core[r.ID] || s.In("core")
		}
	}
	for _, r := range Requirements() {
		longer := slices.Contains([]string{"MB", "UP", "RC", "SEC"}, r.Area)
		if r.Area == "SOAK" {
			continue
		}
		if !r.Invariant() && (!settled[r.ID] || r.Level == "MUST" && !core[r.ID] && !longer) {
			t.Errorf("%s is not settled, or only by the profile full", r.ID)
		}
		if r.Why == "" || r.ByHand == "" || r.Breaks == "" {
			t.Errorf("%s is not explained", r.ID)
		}
	}
}

func TestScenarios(t *testing.T) {
	for _, s := range All() {
		if _, err := os.Stat(s.Metadata.Name + ".yaml"); err != nil {
			t.Errorf("scenario %s is in a file of another name", s.Metadata.Name)
		}
		for _, r := range s.Spec.Requirements {
			if s.In("smoke") && !settles("core", r.ID) || s.In("core") && !settles("full", r.ID) {
				t.Errorf("%s: profiles %v: a larger profile does not settle %s", s.Metadata.Name, s.Spec.Profiles, r.ID)
			}
		}
	}
	if first := All()[0].Metadata.Name; first != "steady" {
		t.Errorf("the first scenario is %s", first)
	}
}

// What a check must have seen at least is in the scenario, not in the judge alone.
func TestMinimumsAreStated(t *testing.T) {
	stated := map[string]int{}
	for _, s := range All() {
		for _, r := range s.Spec.Requirements {
			if !slices.Contains([]string{"quorum-loss", "isolated-member", "linearizable"}, r.Judge) || r.Fault == "" {
				continue
			}
			stated[r.Judge]++
			if n, err := strconv.Atoi(r.Params["attempts"]); err != nil || n < 10 {
				t.Errorf("%s: %s by %s states no minimum of attempts, 10 or more: %v", s.Metadata.Name, r.ID, r.Judge, r.Params)
			}
		}
	}
	if len(stated) != 3 {
		t.Errorf("the scenarios have only these checks: %v", stated)
	}
}

// A client stranded on a dead member shows in two requests that start after H + M, each of which
// takes the maximum time, and an earlier one may still be pending.
func TestStrandedClientsAreSeen(t *testing.T) {
	symbols := map[string]time.Duration{"H": 3 * time.Second, "M": time.Second}
	least := symbols["H"] + symbols["M"] + 3*observe.SessionLimit
	deaths := 0
	for _, s := range All() {
		if !slices.ContainsFunc(s.Spec.Requirements, func(r Settles) bool { return r.Judge == "session-affinity" }) {
			continue
		}
		for i, step := range s.Spec.Timeline {
			if step.Inject == nil {
				continue
			}
			deaths++
			wait, err := judge.ParseBound(s.Spec.Timeline[i+1].Wait, symbols)
			if err != nil {
				t.Fatalf("%s: after %s: %v", s.Metadata.Name, step.Inject.ID, err)
			}
			if wait.Limit <= least {
				t.Errorf("%s: %s lasts %s, and takes more than %s", s.Metadata.Name, step.Inject.ID, wait, least)
			}
		}
	}
	if deaths == 0 {
		t.Error("no scenario has a member die under session-affinity")
	}
}

// What a row says of an elected component, the profile full settles for each of them.
func TestEachElected(t *testing.T) {
	for _, id := range []string{"HA-LE-005", "HA-LE-010", "HA-LE-013", "HA-LE-014"} {
		for _, component := range []string{"kube-controller-manager", "kube-scheduler"} {
			if !slices.ContainsFunc(All(), func(s *Scenario) bool {
				return s.In("full") && slices.ContainsFunc(s.Spec.Requirements, func(r Settles) bool { return r.ID == id && r.Params["component"] == component })
			}) {
				t.Errorf("%s is not settled for %s", id, component)
			}
		}
	}
}

// A client that never recovers from half-open connections is a violation only if the connections are
// half-open for longer than the bound, and than the request takes that shows it.
func TestHalfOpenForLongEnough(t *testing.T) {
	const request = 3 * time.Second // ReadTimeout in observe.Config
	symbols := map[string]time.Duration{"H": 3 * time.Second, "M": 2 * time.Second, "G": 12 * time.Second, "L": 8 * time.Second, "P": time.Second}
	formula := func(s *Scenario, text string) time.Duration {
		b, err := judge.ParseBound(text, symbols)
		if err != nil {
			t.Fatalf("%s: %v", s.Metadata.Name, err)
		}
		return b.Limit
	}
	enough := map[string]bool{} // by requirement
	for _, s := range All() {
		for _, r := range s.Spec.Requirements {
			if r.Judge != "clients-recover" || !s.In("full") {
				continue
			}
			var lasts time.Duration // at least
			active := false
			for _, step := range s.Spec.Timeline {
				active = active || step.Inject != nil && step.Inject.ID == r.Fault
				if active && step.Heal != "" && slices.Contains(strings.Split(step.Heal, ", "), r.Fault) {
					active = false
				}
				if active && step.Wait != "" {
					lasts += formula(s, step.Wait)
				}
			}
			enough[r.ID] = enough[r.ID] || lasts > formula(s, r.Bound)+request
		}
	}
	for _, id := range []string{"HA-CL-006", "HA-CL-015"} {
		if !enough[id] {
			t.Errorf("in no scenario of the profile full does the fault of %s last long enough for clients-recover to fail", id)
		}
	}
}

// settles reports whether a profile settles a requirement.
func settles(profile, id string) bool {
	return slices.ContainsFunc(All(), func(s *Scenario) bool {
		return s.In(profile) && slices.ContainsFunc(s.Spec.Requirements, func(r Settles) bool { return r.ID == id })
	})
}

func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		// The first line is the expected error.
		first, _, _ := strings.Cut(string(b), "\n")
		want := strings.TrimPrefix(first, "# error: ")
		if _, err := Load(f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", f, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range All() {
		b, err := files.ReadFile(s.Metadata.Name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, tt := range nonsense {
		f.Add([]byte(tt.file))
	}
	for _, text := range []string{"apiVersion: holdfast.dev/v1alpha1\nkind: Scenario\nspec: &a [*a]", "{}\n---\n{}", "#", "? [a]\n: b"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("fuzz", data)
		switch {
		case err != nil && !strings.Contains(err.Error(), "fuzz"):
			t.Errorf("an error that names no file: %v", err)
		case err != nil:
			return
		case s.Metadata.Name == "", len(s.Spec.Timeline) == 0, len(s.Spec.Requirements) == 0, s.Spec.MinNodes > 7, s.Spec.Traffic.Timeout < 0:
			t.Error("a scenario without a name, a step or a requirement, or with numbers that are none, was accepted")
		}
		_ = s.Fits([]fault.Place{{Name: "node-1", Zone: "a"}, {Name: "node-2", Zone: "b"}, {Name: "node-3", Zone: "c"}})
	})
}
