package engine

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/record/recordtest"
)

// plainCluster has the settings of a cluster, and nothing else.
type plainCluster struct{ framework.Cluster }

func (plainCluster) Settings() framework.Settings { return framework.Settings{} }

// revoking is an injection whose healing can show that it had no effect.
type revoking struct {
	fault.Injection
	revokes, healed bool
}

func (i *revoking) Target() fault.Target { return fault.Target{Node: "node-1"} }

func (i *revoking) Proof() fault.Proof {
	return fault.Proof{Proven: !i.revokes || !i.healed, What: "all dropped but 7 packets", Called: time.Now()}
}

func (i *revoking) Heal(context.Context) (fault.Proof, error) {
	i.healed = true
	return fault.Proof{Proven: true, What: "packets pass", Called: time.Now(), Effect: time.Now()}, nil
}

// What a fault shows of itself until it is healed counts as well: the record has no proof
// then, whatever was seen at first.
func TestProofWithdrawnByHealing(t *testing.T) {
	for _, revokes := range []bool{false, true} {
		w, read := recordtest.New(t)
		r := &run{cluster: plainCluster{}, w: w, start: time.Now()}
		inj := &revoking{revokes: revokes}
		i := &activeFault{step: &Inject{ID: "cut", Fault: "cut", Target: "node/1"}, fault: fault.Cut, inj: inj, proven: inj.Proof().Proven, ttl: time.Hour}
		if err := r.heal(t.Context(), i); err != nil {
			t.Fatal(err)
		}
		got := read()
		if len(got.Faults) != 1 {
			t.Fatalf("%v", got)
		}
		f := got.Faults[0].V
		if f.Phase != record.FaultHealed || f.Proven == revokes || revokes != strings.Contains(f.Proof, "7 packets") {
			t.Errorf("withdrawn %v: %+v", revokes, f)
		}
	}
}
