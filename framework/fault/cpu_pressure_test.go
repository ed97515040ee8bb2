package fault

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdfast-ha/holdfast/framework"
)

// pressed are the cases of a fault that puts nodes under load.
func pressed(f *Fault, params map[string]string) map[string]proofs {
	loaded := func(nodes ...int) func(*fakeCluster) bool {
		return func(c *fakeCluster) bool {
			for _, n := range nodes {
				if len(c.nodes[n].loads)+len(c.nodes[n].limits) > 0 {
					return true
				}
			}
			return false
		}
	}
	calls := 1
	if params["by"] == byCgroup {
		calls = 2 // the limit and the probe
	}
	return map[string]proofs{
		"node": {fault: f, target: wholeTarget("node-1"), params: params, broken: loaded(0), calls: calls,
			already: func(c *fakeCluster) { c.nodes[0].power(false) }},
		"component": {fault: f, target: component("node-1", framework.APIServer), params: params, broken: loaded(0), calls: calls,
			already: func(c *fakeCluster) { c.nodes[0].power(false) }},
		"zone": {fault: f, target: zone("b", "node-2", "node-3"), params: params, broken: loaded(1, 2), calls: 2 * calls,
			already: func(c *fakeCluster) { c.nodes[1].power(false); c.nodes[2].power(false) }},
	}
}

func zone(name string, nodes ...string) Target { return Target{Asked: "zone/" + name, Nodes: nodes} }

func TestCPUPressure(t *testing.T) {
	for _, params := range []map[string]string{{"by": "load"}, {"workers": "1"}, {"by": "cgroup"}} {
		for name, p := range pressed(CPUPressure, params) {
			t.Run(name+params["workers"]+params["by"], p.run)
		}
	}
}

// TestLimitProof has limits that exist but have no effect, or not on all.
func TestLimitProof(t *testing.T) {
	for name, broken := range map[string]struct {
		how  func(*fakeCluster)
		want string
	}{
		"a kernel that lets everything through": {func(c *fakeCluster) { c.lax = true }, "whose effect does not show yet"},
		"a process that is not in the group":    {func(c *fakeCluster) { c.astrayProcess = true }, "processes [17]"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, f := range []*Fault{CPUPressure, MemoryPressure} {
					c := newFake(framework.APIServer)
					broken.how(c)
					i, err := f.Inject(t.Context(), c, wholeTarget("node-1"), Params{TTL: ttl, Values: map[string]string{"by": "cgroup"}})
					if err != nil || i.Proof().Proven || !strings.Contains(i.Proof().What, broken.want) {
						t.Errorf("%s: %v, %v", f.Name, i, err)
					}
					if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven || len(c.nodes[0].loads)+len(c.nodes[0].limits) > 0 {
						t.Errorf("%s: %+v, %v", f.Name, healed, err)
					}
				}
			})
		})
	}
}

// TestPressureWay chooses between a control group and a load process, and says so.
func TestPressureWay(t *testing.T) {
	for _, tt := range []struct {
		params  string
		noLimit bool
		target  Target
		want    string // the way, or words of the error
	}{
		{params: "", want: "cgroup"},
		{params: "", noLimit: true, want: "load"},
		{params: "quota=30", want: "cgroup"},
		{params: "quota=30", noLimit: true, want: "Limiter, which node node-1 does not have: nobody may"},
		{params: "workers=1", want: "load"},
		{params: "quota=30 workers=1", want: "cgroup"},
		{params: "quota=30 workers=1", noLimit: true, want: "load"},
		{params: "by=load", want: "load"},
		{params: "by=cgroup", want: "cgroup"},
		{params: "by=cgroup", noLimit: true, want: "Limiter, which node node-1 does not have: nobody may"},
		{params: "by=cgroup workers=1", want: "parameter workers: it is for by=load"},
		{params: "by=load quota=20", want: "parameter quota: it is for by=cgroup"},
		{params: "by=magic", want: "one of auto, cgroup, load"},
		{params: "quota=0", want: "from 1 to"},
		{params: "", target: component("node-1", framework.NodeAgent), want: "load"},
		{params: "by=cgroup", target: component("node-1", framework.NodeAgent), want: "target the whole node"},
	} {
		t.Run(fmt.Sprint(tt.params, tt.noLimit, tt.target.Component), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFake(framework.APIServer)
				if tt.noLimit {
					c.noLimits = errors.New("nobody may")
				}
				target := tt.target
				if target.Node == "" {
					target = wholeTarget("node-1")
				}
				values := map[string]string{}
				for _, pair := range strings.Fields(tt.params) {
					name, value, _ := strings.Cut(pair, "=")
					values[name] = value
				}
				p := Params{TTL: ttl, Values: values}
				if err := CPUPressure.Check(c, target, p); err != nil {
					if !strings.Contains(err.Error(), tt.want) {
						t.Error(err)
					}
					if c.asked != 0 {
						t.Error("something was touched")
					}
					return
				}
				i, err := CPUPressure.Inject(t.Context(), c, target, p)
				if err != nil || !i.Proof().Proven {
					t.Fatalf("%v, %v", i, err)
				}
				if by := Used(i, values)["by"]; by != tt.want || !strings.Contains(i.Proof().What, by) {
					t.Errorf("by %q, want %q: %s", by, tt.want, i.Proof().What)
				}
			})
		})
	}
}

func TestCPUPressureCheck(t *testing.T) {
	c := newFake(framework.APIServer)
	for _, workers := range []string{"0", "-1", "many", "1025"} {
		err := CPUPressure.Check(c, wholeTarget("node-1"), Params{TTL: ttl, Values: map[string]string{"workers": workers}})
		if err == nil || !strings.Contains(err.Error(), "from 1 to 1024") {
			t.Errorf("%s: %v", workers, err)
		}
	}
	for _, refused := range []struct {
		target Target
		want   string
	}{
		{component("node-1", framework.Etcd), "does not run etcd"},
		{Target{Asked: "harness", Host: "harness"}, "the fault accepts node"},
		{Target{Asked: "workers", Host: "workers"}, "HostPresser"},
	} {
		if err := CPUPressure.Check(c, refused.target, Params{TTL: ttl}); err == nil || !strings.Contains(err.Error(), refused.want) {
			t.Errorf("%s: %v", refused.target, err)
		}
	}
}
