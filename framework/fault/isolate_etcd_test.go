package fault

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestIsolateEtcd(t *testing.T) {
	t.Parallel()
	c := startEtcd(t)
	leader := c.resolve(t, "etcd/leader")

	c.inert = true
	i, err := IsolateEtcd.Inject(soon(t), c, leader, Params{TTL: ttl})
	if err != nil || i.Proof().Proven {
		t.Fatalf("an inert cut is proven: %v, %v", i, err)
	}
	c.inert = false

	i, err = IsolateEtcd.Inject(t.Context(), c, leader, Params{TTL: ttl})
	if err != nil || !i.Proof().Proven {
		t.Fatalf("%v, %v", i, err)
	}
	if next := c.awaitOtherLeader(t, leader.Node); next == leader.Node {
		t.Errorf("the others still follow %s", next)
	}
	if !c.severed(c.nodes[(c.index(leader.Node)+1)%3].name, leader.Node, 2379) {
		t.Error("API servers on other nodes still reach the member")
	}
	if c.severed(leader.Node, "node-9", 2380) || c.severed("harness", leader.Node, 2379) {
		t.Error("more is cut than etcd's traffic between the nodes")
	}
	healed, err := i.Heal(t.Context())
	if err != nil || !healed.Proven || !strings.Contains(healed.What, "linearizable read") {
		t.Fatalf("%+v, %v", healed, err)
	}

	follower := c.resolve(t, "etcd/follower")
	at := c.index(follower.Node)
	for name, dead := range map[string]func(){
		"powered off": func() { c.nodes[at].power(false) },
		"no process":  func() { c.nodes[at].power(true); c.nodes[at].processes[framework.Etcd].PID = 0 },
	} {
		c.nodes[at].power(true)
		dead()
		asked := c.asked
		i, err = IsolateEtcd.Inject(t.Context(), c, follower, Params{TTL: ttl})
		if err != nil || i.Proof().Proven || c.asked != asked {
			t.Errorf("%s: %v, %v", name, i, err)
		}
	}
}

// awaitOtherLeader returns the new leader that the members agree on, or the old one if there is
// no new one.
func (c *etcdCluster) awaitOtherLeader(t *testing.T, before string) string {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if now := c.resolve(t, "etcd/leader").Node; now != before || time.Now().After(end) {
			return now
		}
	}
}

// configured is a cluster whose API servers reach etcd at certain addresses.
type configured struct {
	*etcdCluster
	servers []string
}

func (c configured) Settings() framework.Settings { return framework.Settings{EtcdServers: c.servers} }

// TestIsolateEtcdOfOthers: where an API server does not depend on the members of the nodes, the
// fault may not cut it off, and what rests on that is not applicable.
func TestIsolateEtcdOfOthers(t *testing.T) {
	c := startEtcd(t)
	own := "https://127.0.0.1:2379" // the address of every node of the test
	for what, servers := range map[string][]string{
		"all through a balancer": {"https://10.0.0.9:2379"},
		"one through a balancer": {own, "https://10.0.0.9:2379"},
	} {
		_, err := IsolateEtcd.Inject(t.Context(), configured{c, servers}, c.resolve(t, "etcd/leader"), Params{TTL: ttl})
		if !errors.As(err, new(*MissingAbility)) || !strings.Contains(err.Error(), "https://10.0.0.9:2379, which is not an address of a control-plane node") {
			t.Errorf("%s: %v", what, err)
		}
	}
	i, err := IsolateEtcd.Inject(t.Context(), configured{c, []string{own}}, c.resolve(t, "etcd/leader"), Params{TTL: ttl})
	if err != nil {
		t.Fatalf("members' own addresses: %v", err)
	}
	if _, err := i.Heal(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestIsolateEtcdCheck(t *testing.T) {
	c := &etcdCluster{fakeCluster: newFake(framework.Etcd)}
	for name, refused := range map[string]struct {
		target Target
		params Params
		want   string
	}{
		"API server": {component("node-1", framework.APIServer), Params{TTL: ttl}, "accepts etcd"},
		"node":       {wholeTarget("node-1"), Params{TTL: ttl}, "accepts etcd"},
		"elsewhere":  {component("node-7", framework.Etcd), Params{TTL: ttl}, "node-1, node-2, node-3"},
		"no TTL":     {component("node-1", framework.Etcd), Params{}, "time to live"},
		"parameter":  {component("node-1", framework.Etcd), Params{TTL: ttl, Values: map[string]string{"keep": ""}}, "the fault accepts flap"},
	} {
		if err := IsolateEtcd.Check(c, refused.target, refused.params); err == nil || !strings.Contains(err.Error(), refused.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var missing *MissingAbility
	if err := IsolateEtcd.Check(c.fakeCluster, component("node-1", framework.Etcd), Params{TTL: ttl}); !errors.As(err, &missing) || missing.Ability != "EtcdAccess" {
		t.Errorf("without access to etcd: %v", err)
	}
	c.nodes = c.nodes[:1]
	if err := IsolateEtcd.Check(c, component("node-1", framework.Etcd), Params{TTL: ttl}); err == nil || !strings.Contains(err.Error(), "no peers") {
		t.Errorf("one node: %v", err)
	}
}
