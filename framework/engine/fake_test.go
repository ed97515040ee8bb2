package engine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
	"github.com/holdfast-ha/holdfast/framework/workload/etcdtest"
)

// fakeCluster is stand-ins for API servers, with a scheduler on each node that exists in name only
// and can be killed and started. It gives no access to its etcd members.
type fakeCluster struct {
	*apitest.Cluster
	nodes []*fakeNode
}

// newFake returns one without sockets, for bubbles of testing/synctest.
func newFake(t *testing.T) *fakeCluster { return fake(apitest.NewInMemory(t, 3)) }

func fake(api *apitest.Cluster) *fakeCluster {
	c := &fakeCluster{Cluster: api}
	for _, n := range api.Nodes() {
		c.nodes = append(c.nodes, &fakeNode{Node: n, pid: 100})
	}
	return c
}

// stackedCluster is a fakeCluster with real etcd members, outside of a bubble.
type stackedCluster struct {
	*fakeCluster
	etcd *etcdtest.Cluster
}

func newStacked(t *testing.T) *stackedCluster {
	return &stackedCluster{fake(apitest.New(t, 3)), etcdtest.New(t, 3)}
}

func (c *stackedCluster) EtcdConfig(node string) (clientv3.Config, error) {
	return c.etcd.EtcdConfig(node)
}

func (c *fakeCluster) Settings() framework.Settings {
	return framework.Settings{ElectionTimeout: time.Second, Margin: 2 * time.Second, LeaseDuration: 15 * time.Second,
		RetryPeriod: 2 * time.Second, EndpointTTL: 15 * time.Second, EndpointInterval: 10 * time.Second}
}

func (c *fakeCluster) Nodes() []framework.Node {
	var all []framework.Node
	for _, n := range c.nodes {
		all = append(all, n)
	}
	return all
}

// down returns the nodes whose scheduler is down.
func (c *fakeCluster) down() (names []string) {
	for _, n := range c.nodes {
		if p, _ := n.Process(context.Background(), framework.Scheduler); p.PID == 0 {
			names = append(names, n.Name())
		}
	}
	return names
}

type fakeNode struct {
	framework.Node
	mu     sync.Mutex
	pid    int
	killed int
	hold   time.Duration // of the last kill
	// inert means that kills are accepted and do nothing, stubborn means the same for starts,
	// refuse is the error of kills.
	inert, stubborn bool
	refuse          error
	starts          func() // called by Start
}

func (n *fakeNode) Components() []framework.Component {
	return []framework.Component{framework.Etcd, framework.APIServer, framework.Scheduler}
}

func (n *fakeNode) Kill(_ context.Context, _ framework.Component, hold time.Duration) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refuse != nil {
		return n.refuse
	}
	n.killed, n.hold = n.killed+1, hold
	if !n.inert {
		n.pid = 0
	}
	return nil
}

func (n *fakeNode) Start(ctx context.Context, _ framework.Component) error {
	if n.starts != nil {
		n.starts()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stubborn {
		return errors.New("it does not start")
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if n.pid == 0 {
		n.pid = 200 + n.killed
	}
	return nil
}

func (n *fakeNode) Process(context.Context, framework.Component) (framework.Process, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := framework.Process{Component: framework.Scheduler, PID: n.pid}
	if n.pid != 0 {
		p.State, p.StartTicks = "S", uint64(n.pid)
	}
	return p, nil
}
