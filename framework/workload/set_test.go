package workload

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
)

// Each element is created once, and listed through each API server at the end.
func TestSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.NewInMemory(t, 3)
		w, read := recording(t)
		traffic, err := Start(t.Context(), Config{Seed: 1, Cluster: c, Settings: Settings{Profiles: []string{ProfileSet}, Set: SetSettings{Interval: 5 * time.Millisecond}}}, w)
		if err != nil {
			t.Fatal(err)
		}
		waitFor(t, "elements", func() bool { return c.Revision() > 40 })
		traffic.Stop()
		run := read()
		elements, through := map[string]bool{}, map[string]bool{}
		for _, o := range run.Ops {
			op := o.V
			if op.Type != record.OpCreate || op.Outcome != record.OK || elements[op.Key] || !strings.HasPrefix(op.Collection, "set-") {
				t.Fatalf("%+v", op)
			}
			elements[op.Key], through[op.Entrance] = true, true
		}
		if len(through) != 3 || len(run.Lists) != 3 {
			t.Errorf("elements through %v, %d lists", through, len(run.Lists))
		}
		for _, o := range run.Lists {
			if l := o.V; l.Purpose != "final-read" || l.Outcome != record.OK || len(l.Items) != len(elements) {
				t.Errorf("%d elements, and a list of %d: %+v", len(elements), len(l.Items), l)
			}
		}
		r, err := newRegisters(c.Entrances()[0], w, "test", DefaultNamespace, "", time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer r.close()
		for key := range elements {
			if op := r.get(t.Context(), key); op.Outcome != record.OK || op.Found {
				t.Fatalf("left behind: %+v", op)
			}
		}
	})
}

// In each round one client of each API server updates the same version at the same time.
func TestContests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.NewInMemory(t, 3)
		w, read := recording(t)
		traffic, err := Start(t.Context(), Config{Seed: 1, Cluster: c, Settings: Settings{Profiles: []string{ProfileContests}, Contests: ContestSettings{Interval: 5 * time.Millisecond}}}, w)
		if err != nil {
			t.Fatal(err)
		}
		waitFor(t, "contests", func() bool { return c.Revision() > 20 })
		traffic.Stop()
		tried, won, apart := map[string]int{}, map[string]int{}, map[string]map[string]bool{}
		for _, o := range read().Ops {
			op := o.V
			if op.Type != record.OpUpdate {
				continue
			}
			if apart[op.Expect] == nil {
				apart[op.Expect] = map[string]bool{}
			}
			tried[op.Expect]++
			apart[op.Expect][op.Entrance] = true
			if op.Outcome == record.OK {
				won[op.Expect]++
			} else if op.Refusal != record.RefusedVersion {
				t.Errorf("refused for something else: %+v", op)
			}
		}
		if len(tried) < 10 {
			t.Errorf("%d contests", len(tried))
		}
		for version, n := range tried {
			if n != 3 || len(apart[version]) != 3 || won[version] != 1 {
				t.Errorf("version %s: tried %d times through %v, won by %d", version, n, apart[version], won[version])
			}
		}
	})
}
