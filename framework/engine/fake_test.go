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

// fakeCluster is stand-ins for API servers and real etcd members, with a scheduler on each node
// that exists in name only and can be killed and started.
type fakeCluster struct {
	*apitest.Cluster
	etcd  *etcdtest.Cluster
	nodes []*fakeNode
}

func newFake(t *testing.T) *fakeCluster {
	c := &fakeCluster{Cluster: apitest.New(t, 3), etcd: etcdtest.New(t, 3)}
	for _, n := range c.Cluster.Nodes() {
		c.nodes = append(c.nodes, &fakeNode{Node: n, pid: 100})
	}
	return c
}

func (c *fakeCluster) EtcdConfig(node string) (clientv3.Config, error) {
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
