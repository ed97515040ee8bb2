package fault

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// Targets that resolve without etcd.
func TestResolve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFake(framework.APIServer, framework.ControllerManager, framework.Scheduler)
		time.Sleep(time.Minute)
		c.hold("kube-controller-manager", "node-2", time.Now(), time.Now())
		c.hold("kube-scheduler", "node-1", time.Now(), time.Now())
		c.nodes[0].runs = []framework.Component{framework.APIServer, framework.Scheduler}
		for target, want := range map[string]Target{
			"apiserver/2":            {Node: "node-2", Component: framework.APIServer},
			"apiserver/node-3":       {Node: "node-3", Component: framework.APIServer},
			"apiserver/any":          {Node: "node-1", Component: framework.APIServer},
			"node/3":                 {Node: "node-3"},
			"node/any":               {Node: "node-1"},
			"kcm/active":             {Node: "node-2", Component: framework.ControllerManager},
			"kcm/standby":            {Node: "node-3", Component: framework.ControllerManager},
			"kcm/any":                {Node: "node-2", Component: framework.ControllerManager},
			"scheduler/active":       {Node: "node-1", Component: framework.Scheduler},
			"scheduler/standby":      {Node: "node-2", Component: framework.Scheduler},
			"scheduler/kcm/active":   {Node: "node-2", Component: framework.Scheduler},
			"node/kcm/active":        {Node: "node-2"},
			"agent/2":                {Node: "node-2", Component: framework.NodeAgent},
			"zone/b":                 {Nodes: []string{"node-2", "node-3"}},
			"nodes":                  {Nodes: []string{"node-1", "node-2", "node-3"}},
			"kwok":                   {Host: "workers", Component: framework.Kwok},
			"harness":                {Host: "harness"},
			"apiserver/kcm/active":   {Node: "node-2", Component: framework.APIServer},
			"kube-scheduler/standby": {Node: "node-2", Component: framework.Scheduler},
		} {
			want.Asked = target
			if got, err := Resolve(t.Context(), c, target); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %+v, %v", target, got, err)
			}
		}
		for target, want := range map[string]string{
			"apiserver/4":          "node 4 does not exist",
			"apiserver/node-9":     "node-1, node-2, node-3",
			"kcm/1":                "node node-1 does not run kube-controller-manager, which runs on node-2, node-3",
			"kcm/scheduler/active": "does not run kube-controller-manager",
			"etcd/1":               "none of its nodes runs an etcd member",
			"node/leader":          "EtcdAccess",
			"balancer":             "has no load balancer",
			"zone/c":               `no node of cluster fake is in zone "c": node-1 in "a"`,
			"apiserver/latest.":    `control-plane node "latest." does not exist`,
			"etcd/best/of/all":     "targets are",
		} {
			if got, err := Resolve(t.Context(), c, target); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %+v, %v", target, got, err)
			}
		}
		c.nodes[0].power(false)
		c.nodes[1].processes[framework.APIServer].PID = 0
		for target, want := range map[string]string{"apiserver/any": "node-3", "node/any": "node-2"} {
			if got, err := Resolve(t.Context(), c, target); err != nil || got.Node != want {
				t.Errorf("%s: %+v, %v", target, got, err)
			}
		}
		c.nodes[2].processes[framework.APIServer].PID = 0
		if _, err := Resolve(t.Context(), c, "apiserver/any"); err == nil || !strings.Contains(err.Error(), "no instance is in that role") {
			t.Errorf("none runs: %v", err)
		}
	})
}

// balanced has a load balancer that reports how it sees its backends.
type balanced struct {
	*fakeCluster
	up []string
}

func (b *balanced) Backends(context.Context) ([]framework.Backend, error) {
	var all []framework.Backend
	for _, n := range b.nodes {
		all = append(all, framework.Backend{Name: n.name, Up: slices.Contains(b.up, n.name)})
	}
	return all, nil
}

func TestResolveServing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &balanced{newFake(framework.APIServer), []string{"node-2"}}
		for _, target := range []string{"apiserver/serving", "node/serving"} {
			if got, err := Resolve(t.Context(), c, target); err != nil || got.Node != "node-2" {
				t.Errorf("%s: %+v, %v", target, got, err)
			}
		}
		for _, up := range [][]string{nil, {"node-1", "node-3"}} {
			c.up = up
			if got, err := Resolve(t.Context(), c, "node/serving"); !errors.Is(err, errNoInstance) || !strings.Contains(err.Error(), "not to a single one") {
				t.Errorf("%v: %+v, %v", up, got, err)
			}
		}
		if _, err := Resolve(t.Context(), c.fakeCluster, "node/serving"); err == nil || !strings.Contains(err.Error(), "BackendReporter") {
			t.Errorf("no reporter: %v", err)
		}
	})
}

// The members of an external etcd are not targets.
func TestResolveExternalEtcd(t *testing.T) {
	c := &etcdCluster{fakeCluster: newFake(framework.APIServer, framework.Scheduler)}
	for _, target := range []string{"etcd/leader", "etcd/any", "node/leader", "node/follower"} {
		if got, err := Resolve(t.Context(), c, target); !errors.As(err, new(*MissingAbility)) || !strings.Contains(err.Error(), "none of its nodes runs an etcd member") {
			t.Errorf("%s: %+v, %v", target, got, err)
		}
	}
}

// Members of an external etcd are targets if their hosts are nodes. Numbers then count the nodes with
// the target, and each API server is one of a follower.
func TestResolveEtcdHosts(t *testing.T) {
	c := startEtcd(t)
	for _, n := range c.nodes {
		n.runs = []framework.Component{framework.Etcd}
	}
	servers := newFake(framework.APIServer)
	for i, n := range servers.nodes {
		n.c, n.name = c.fakeCluster, fmt.Sprintf("cp-%d", i+1)
	}
	// EtcdConfig finds members by their positions.
	c.nodes = append(c.nodes, servers.nodes[:2]...)
	leader, err := Resolve(t.Context(), c, "etcd/leader")
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]string{
		"etcd/3": "node-3", "node/leader": leader.Node, "apiserver/1": "cp-1", "apiserver/2": "cp-2", "apiserver/follower": "cp-1", "node/4": "cp-1",
	} {
		if got, err := Resolve(t.Context(), c, target); err != nil || got.Node != want {
			t.Errorf("%s: %+v, %v; want %s", target, got, err, want)
		}
	}
	for _, target := range []string{"etcd/follower", "node/follower"} {
		if got, err := Resolve(t.Context(), c, target); err != nil || got.Node == leader.Node || !strings.HasPrefix(got.Node, "node-") {
			t.Errorf("%s: %+v, %v; the leader is on %s", target, got, err, leader.Node)
		}
	}
	var missing *MissingAbility
	if _, err := Resolve(t.Context(), c, "apiserver/3"); !errors.As(err, &missing) || !strings.Contains(err.Error(), "kube-apiserver runs on cp-1, cp-2 only") {
		t.Errorf("a third API server: %v", err)
	}
	if _, err := Resolve(t.Context(), c, "apiserver/leader"); err == nil || !strings.Contains(err.Error(), "does not run kube-apiserver") {
		t.Errorf("an API server beside the leader: %v", err)
	}
}

// A lease names its holder long after that has died.
func TestResolveActiveStale(t *testing.T) {
	const lease = "kube-scheduler"
	for name, test := range map[string]struct {
		spoil func(c *fakeCluster)
		want  string // why the holder of the lease is not believed
	}{
		"no lease":         {func(c *fakeCluster) { delete(c.leases, lease) }, "status 404"},
		"no holder":        {func(c *fakeCluster) { *c.leases[lease].Spec.HolderIdentity = "" }, "has no holder"},
		"foreign holder":   {func(c *fakeCluster) { *c.leases[lease].Spec.HolderIdentity = "elsewhere_1" }, "on any of the nodes"},
		"ran out":          {func(*fakeCluster) { time.Sleep(time.Minute) }, "expired"},
		"holder is gone":   {func(c *fakeCluster) { c.nodes[1].processes[framework.Scheduler].PID = 0 }, "does not run"},
		"holder is off":    {func(c *fakeCluster) { c.nodes[1].power(false) }, "powered off"},
		"holder restarted": {func(c *fakeCluster) { c.nodes[1].power(false); c.nodes[1].power(true) }, "earlier process"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFake(framework.APIServer, framework.Scheduler)
				time.Sleep(time.Minute)
				c.hold(lease, "node-2", time.Now(), time.Now())
				time.Sleep(time.Second)
				test.spoil(c)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				if got, err := Resolve(ctx, c, "scheduler/active"); err == nil || !strings.Contains(err.Error(), test.want) {
					t.Fatalf("%+v, %v", got, err)
				}
				// Resolve waits for the next one.
				c.later(10*time.Second, func() { go c.hold(lease, "node-3", time.Now(), time.Now()) })
				if got, err := Resolve(t.Context(), c, "scheduler/active"); err != nil || got.Node != "node-3" {
					t.Errorf("after the takeover: %+v, %v", got, err)
				}
			})
		})
	}
	// Clocks that disagree must not hide a holder that renews.
	synctest.Test(t, func(t *testing.T) {
		c := newFake(framework.APIServer, framework.Scheduler)
		time.Sleep(time.Minute)
		renew := func() { c.hold(lease, "node-2", time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)) }
		renew()
		c.later(2*time.Second, func() { go renew() })
		if got, err := Resolve(t.Context(), c, "scheduler/active"); err != nil || got.Node != "node-2" {
			t.Errorf("skewed clock: %+v, %v", got, err)
		}
		c.hold(lease, "node-3.eu.example", time.Now(), time.Now())
		if got, err := Resolve(t.Context(), c, "scheduler/active"); err != nil || got.Node != "node-3" {
			t.Errorf("the full name of its machine: %+v, %v", got, err)
		}
	})
}

func TestResolveEtcd(t *testing.T) {
	t.Parallel()
	c := startEtcd(t)
	leader := c.resolve(t, "etcd/leader").Node
	at := c.index(leader)
	if id := c.members[at].Server.MemberID(); uint64(c.members[at].Server.Leader()) != uint64(id) {
		t.Fatalf("%s does not lead", leader)
	}
	first, second := c.nodes[(at+1)%3], c.nodes[(at+2)%3]
	if first.name > second.name {
		first, second = second, first
	}
	for target, want := range map[string]string{
		"etcd/follower": first.name, "apiserver/leader": leader, "apiserver/follower": first.name,
		"node/leader": leader, "node/follower": first.name, "node/etcd/leader": leader, "etcd/2": "node-2", "etcd/any": "node-1",
	} {
		if got := c.resolve(t, target); got.Node != want {
			t.Errorf("%s: %+v, want %s", target, got, want)
		}
	}
	// One silent member is not an obstacle, and costs no time.
	first.power(false)
	began := time.Now()
	if got := c.resolve(t, "etcd/follower"); got.Node != second.name {
		t.Errorf("%+v", got)
	}
	if took := time.Since(began); took > tryLimit/2 {
		t.Errorf("a silent member cost %s", took)
	}
	// Without a majority that answers there is no leader to name.
	second.power(false)
	if got, err := Resolve(soon(t), c, "etcd/leader"); err == nil || !strings.Contains(err.Error(), "no majority") {
		t.Errorf("%+v, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Resolve(ctx, c, "etcd/leader"); err == nil {
		t.Error("a context that is done: no error")
	}
	if _, err := Resolve(t.Context(), c.fakeCluster, "etcd/leader"); !errors.As(err, new(*MissingAbility)) {
		t.Errorf("without access to etcd: %v", err)
	}
}
