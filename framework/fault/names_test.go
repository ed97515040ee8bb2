package fault

import (
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestNamesCheck(t *testing.T) {
	c := newFake()
	for name, bad := range map[string]struct {
		fault *Fault
		value string
		want  string
	}{
		"address": {DNSWrong, "there", "NXDOMAIN"},
		"delay":   {DNSSlow, "-1s", "10ms to 30s"},
		"names":   {DNSDead, "api.fake,nobody", "api.fake, node-1"},
	} {
		err := bad.fault.Check(c, wholeTarget("node-1"), Params{TTL: ttl, Values: map[string]string{name: bad.value}})
		if err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s=%s: %v", name, bad.value, err)
		}
	}
	for _, target := range []Target{{Asked: "workers", Host: "workers"}, {Asked: "harness", Host: "harness"}, {Asked: "zone/b", Nodes: []string{"node-2", "node-3"}}} {
		if err := DNSDead.Check(c, target, Params{TTL: ttl}); err != nil {
			t.Errorf("%s: %v", target.Asked, err)
		}
	}
	if err := DNSDead.Check(c, wholeTarget("node-1"), Params{TTL: ttl, Values: map[string]string{"names": "api.fake, node-1"}}); err != nil {
		t.Errorf("names with a space between them: %v", err)
	}
	if err := DNSDead.Check(c, wholeTarget("node-1"), Params{TTL: ttl, Values: map[string]string{"names": "node-1"}}); err == nil {
		t.Error("a host's own name: accepted")
	}
	if err := DNSDead.Check(c, component("node-1", framework.Etcd), Params{TTL: ttl}); err == nil {
		t.Error("a component: accepted")
	}
}

// Faults of DNS that overlap are healed in any order.
func TestNamesHealedInOrder(t *testing.T) {
	inBubble(t, "slow, then wrong", func(t *testing.T, c *fakeCluster) {
		slow := proofs{fault: DNSSlow, target: wholeTarget("node-1")}.inject(t, c)
		wrong := proofs{fault: DNSWrong, target: wholeTarget("node-1"), params: map[string]string{"address": "NXDOMAIN"}}.inject(t, c)
		if healed, err := slow.Heal(t.Context()); err != nil || !healed.Proven || !strings.Contains(healed.What, "other faults of DNS are active") {
			t.Errorf("%+v, %v", healed, err)
		}
		if healed, err := wrong.Heal(t.Context()); err != nil || !healed.Proven || strings.Contains(healed.What, "other faults") {
			t.Errorf("%+v, %v", healed, err)
		}
	})
}
