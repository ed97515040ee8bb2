package engine

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// fusedCluster is fakeCluster with nodes that run everything in one process.
type fusedCluster struct{ *fakeCluster }

type fusedNode struct{ *fakeNode }

func (fusedNode) Group(framework.Component) []framework.Component {
	return []framework.Component{framework.Etcd, framework.APIServer, framework.Scheduler}
}

func (c fusedCluster) Nodes() (all []framework.Node) {
	for _, n := range c.nodes {
		all = append(all, fusedNode{n})
	}
	return all
}

// TestFused injects two faults into one process: it is hit once, and the record has what was
// hit with each.
func TestFused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fusedCluster{newFake(t)}
		api := Step{Inject: &Inject{ID: "b", Fault: "kill", Target: "apiserver/node-1"}}
		run, err := carryOut(t.Context(), t, c, Options{}, kill("a", "node-1"), api, Step{Heal: "a, b"}, Step{Inject: &Inject{ID: "c", Fault: "kill", Target: "apiserver/node-2"}}, Step{Heal: "c"})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"a injected proven", "b injected proven", "a healed proven", "b healed proven", "c injected proven", "c healed proven"}
		if got := faults(run); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			t.Errorf("faults: %q", got)
		}
		if c.nodes[0].killed != 1 || c.nodes[1].killed != 1 {
			t.Errorf("killed %d and %d times, want once each", c.nodes[0].killed, c.nodes[1].killed)
		}
		for _, f := range run.Faults {
			if f.V.Phase == "injected" && !slices.Equal(f.V.Group, []string{"etcd", "kube-apiserver", "kube-scheduler"}) {
				t.Errorf("%s hit %v", f.V.ID, f.V.Group)
			}
			if f.V.ID == "b" && (f.V.Component != "kube-apiserver" || f.V.Phase == "injected" && !strings.Contains(f.V.Proof, "runs in the same process as kube-scheduler on node-1, which a has hit")) {
				t.Errorf("%+v", f.V)
			}
		}
		if down := c.down(); len(down) > 0 {
			t.Errorf("left down: %v", down)
		}
	})
}

// TestLeaseOfFused leaves a lease where it is if its holder is one process with others.
func TestLeaseOfFused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fusedCluster{newFake(t)}
		r := &run{cluster: c}
		if err := r.moveLease(t.Context(), fault.Target{Node: "node-1", Component: framework.Scheduler}, "scheduler", "node-1", true); err != errGrouped {
			t.Errorf("moving a lease: %v", err)
		}
		if c.nodes[1].killed+c.nodes[2].killed > 0 {
			t.Error("processes with other components were killed")
		}
	})
}
