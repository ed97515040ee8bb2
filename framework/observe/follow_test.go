package observe

import (
	"context"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/record/recordtest"
	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
	"github.com/holdfast-ha/holdfast/framework/workload/etcdtest"
)

// supervised is a cluster whose scheduler is elected with a lock in etcd.
type supervised struct {
	*apitest.Cluster
	etcd *etcdtest.Cluster
}

func (s supervised) Nodes() []framework.Node { return s.etcd.Nodes() }

func (s supervised) EtcdConfig(node string) (clientv3.Config, error) { return s.etcd.EtcdConfig(node) }

func (s supervised) Locks() map[framework.Component]string {
	return map[framework.Component]string{framework.Scheduler: "locks/kube-scheduler"}
}

// A node that has joined is observed through its own API server and its own member until it leaves,
// the locks of supervisors included.
func TestJoin(t *testing.T) {
	c := supervised{apitest.New(t, 2), etcdtest.New(t, 2)}
	setEndpoints(c.Cluster, "10.0.0.1")
	w, soFar, read := recordtest.Growing(t)
	o := &Observers{cfg: Config{Cluster: c, StatusInterval: 10 * time.Millisecond}.withDefaults(), w: w, cancel: func() {}}
	defer o.Stop()
	if err := o.Join(t.Context(), c.Nodes()[1]); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "an entry of each kind", func() bool {
		run := soFar()
		return len(run.Ops) > 0 && len(run.Etcd) > 0 && len(run.Probes) > 0 && len(run.Endpoints) > 0
	})
	o.Leave("node-2")
	left := w.Now()
	time.Sleep(50 * time.Millisecond)
	run := read()
	for _, e := range run.Ops {
		if op := e.V; op.Purpose != "lock" || op.Client != "lock/kube-scheduler" || op.Entrance != "node-2" || op.Outcome != record.OK || e.At > left {
			t.Errorf("read of a lock at %d, before the node left at %d: %+v", e.At, left, op)
		}
	}
	for _, e := range run.Etcd {
		if e.V.Node != "node-2" || !e.V.OK || e.At > left {
			t.Errorf("member at %d, before the node left at %d: %+v", e.At, left, e.V)
		}
	}
	for _, e := range run.Probes {
		if e.V.Entrance != "node-2" || e.At > left {
			t.Errorf("probe at %d, before the node left at %d: %+v", e.At, left, e.V)
		}
	}
	for _, e := range run.Endpoints {
		if e.V.Via != "node-2" || e.At > left {
			t.Errorf("endpoints at %d, before the node left at %d: %+v", e.At, left, e.V)
		}
	}
}

// The locks are no longer read through the member on a node that has left.
func TestLeaveLocks(t *testing.T) {
	c := supervised{apitest.New(t, 2), etcdtest.New(t, 2)}
	w, soFar, read := recordtest.Growing(t)
	ctx, cancel := context.WithCancel(t.Context())
	o := &Observers{cfg: Config{Cluster: c, StatusInterval: 10 * time.Millisecond}.withDefaults(), w: w, cancel: cancel}
	defer o.Stop()
	if err := o.start(ctx, []preparation{o.locks}); err != nil {
		t.Fatal(err)
	}
	through := func(run *record.Run, node string, after record.Nanos) bool {
		return slices.ContainsFunc(run.Ops, func(e record.Timed[record.Op]) bool { return e.V.Entrance == node && e.V.Call > after })
	}
	waitFor(t, "reads through both members", func() bool { run := soFar(); return through(run, "node-1", 0) && through(run, "node-2", 0) })
	o.Leave("node-1")
	left := w.Now()
	waitFor(t, "reads through the member that stays", func() bool { return through(soFar(), "node-2", left+record.Nanos(50*time.Millisecond)) })
	if through(read(), "node-1", left) {
		t.Error("the member of the node that left is still read")
	}
}
