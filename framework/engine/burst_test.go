package engine

import (
	"testing"
	"testing/synctest"

	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload"
)

// Once a fault is proven, and before it is healed, the clients of all API servers contend for one
// register.
func TestBursts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run, err := carryOut(t.Context(), t, newFake(t), Options{}, kill("a", "node-1"), Step{Wait: "2s"}, Step{Heal: "a"}, Step{Wait: "1s"})
		if err != nil || !run.Complete {
			t.Fatal(err, run.Problem)
		}
		var effect, called record.Nanos // of the fault, and of its healing
		for _, f := range run.Faults {
			if f.V.Phase == record.FaultInjected {
				effect = f.V.Effect
			} else {
				called = f.V.Called
			}
		}
		if during := contended(run, effect, called); during != 3 {
			t.Errorf("%d versions were contended for between the proof and the healing, want 3", during)
		}
		if all := contended(run, 0, run.EndAt); all < 4 {
			t.Errorf("%d versions were contended for in all, want more of them around the healing", all)
		}
		if before := contended(run, 0, effect); before != 0 {
			t.Errorf("%d versions were contended for before the fault", before)
		}
	})
}

// contended counts the versions that bursts through all API servers tried to replace, called
// between two moments.
func contended(run *record.Run, from, to record.Nanos) (n int) {
	through := map[string]map[string]bool{}
	for _, o := range run.Ops {
		op := o.V
		if op.Purpose != "burst" || op.Type != record.OpUpdate || op.Call < from || op.Call >= to {
			continue
		}
		if through[op.Expect] == nil {
			through[op.Expect] = map[string]bool{}
		}
		through[op.Expect][op.Entrance] = true
		if len(through[op.Expect]) == 3 {
			n++
		}
	}
	return n
}

// An experiment whose traffic does not contend for registers has no bursts, nor has one whose fault
// did not take effect.
func TestNoBursts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFake(t)
		e := Experiment{Name: "test", Timeline: []Step{kill("a", "node-1"), {Wait: "2s"}, {Heal: "a"}}, Traffic: Traffic{Settings: workload.Settings{Profiles: []string{workload.ProfileSet}}},
			Checks: []record.Check{{Requirement: "HA-TOP-001", Judge: "etcd-membership"}}}
		dir := t.TempDir()
		problem := Run(t.Context(), c, e, Options{Dir: dir, Run: "test"})
		run, err := record.Read(dir)
		if problem != nil || err != nil || len(run.Ops) == 0 {
			t.Fatal(problem, err, "no traffic in the record")
		}
		if n := contended(run, 0, run.EndAt); n != 0 {
			t.Errorf("%d bursts of a set", n)
		}

		inert := newFake(t)
		inert.nodes[0].inert = true
		if run, err = carryOut(t.Context(), t, inert, Options{}, kill("a", "node-1"), Step{Wait: "1h"}); err != nil {
			t.Fatal(err)
		}
		if n := contended(run, 0, run.EndAt); n != 0 {
			t.Errorf("%d bursts without a fault", n)
		}
	})
}
