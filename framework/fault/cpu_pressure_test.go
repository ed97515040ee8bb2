package fault

import (
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

// pressed are the cases of a fault that puts nodes under load.
func pressed(f Fault, params map[string]string) map[string]proofs {
	loaded := func(nodes ...int) func(*fakeCluster) bool {
		return func(c *fakeCluster) bool {
			for _, n := range nodes {
				if len(c.nodes[n].loads) > 0 {
					return true
				}
			}
			return false
		}
	}
	return map[string]proofs{
		"node": {fault: f, target: wholeTarget("node-1"), params: params, broken: loaded(0),
			already: func(c *fakeCluster) { c.nodes[0].power(false) }},
		"component": {fault: f, target: component("node-1", framework.APIServer), params: params, broken: loaded(0),
			already: func(c *fakeCluster) { c.nodes[0].power(false) }},
		"zone": {fault: f, target: zone("b", "node-2", "node-3"), params: params, broken: loaded(1, 2), calls: 2,
			already: func(c *fakeCluster) { c.nodes[1].power(false); c.nodes[2].power(false) }},
	}
}

func zone(name string, nodes ...string) Target { return Target{Asked: "zone/" + name, Nodes: nodes} }

func TestCPUPressure(t *testing.T) {
	for _, params := range []map[string]string{nil, {"workers": "1"}} {
		for name, p := range pressed(CPUPressure, params) {
			t.Run(name+params["workers"], p.run)
		}
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
		{Target{Asked: "harness", Host: "harness"}, "HostPresser"},
	} {
		if err := CPUPressure.Check(c, refused.target, Params{TTL: ttl}); err == nil || !strings.Contains(err.Error(), refused.want) {
			t.Errorf("%s: %v", refused.target, err)
		}
	}
}
