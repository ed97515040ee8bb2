package podmaster

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/polltest"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
	"github.com/holdfast-ha/holdfast/framework/workload/etcdtest"
)

const scheduler = framework.Scheduler

// times are as short as etcd lets a lease be.
var times = Times{Lease: 2 * time.Second, Renew: time.Second, Retry: 50 * time.Millisecond}

// fakeAgent notes until when it may run the component.
type fakeAgent struct {
	mu      sync.Mutex
	until   time.Duration
	refuses error
	ends    int
}

func (a *fakeAgent) Admit(_ context.Context, _ framework.Component, until time.Duration) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refuses != nil {
		return a.refuses
	}
	if a.until = until; until == 0 {
		a.ends++
	}
	return nil
}

func (a *fakeAgent) runs() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return system.Monotonic() < a.until
}

func (a *fakeAgent) refuse(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refuses = err
}

// competitor is a podmaster of its own on a node of its own.
type competitor struct {
	*master
	*fakeAgent
	stop func()
}

func compete(t *testing.T, c *etcdtest.Cluster, node string, careless bool) competitor {
	t.Helper()
	etcd, err := client.NewEtcd(c, "node-1")
	if err != nil {
		t.Fatal(err)
	}
	a := &fakeAgent{}
	m := &master{Component: Component{scheduler, times, careless}, node: node, etcd: etcd, agent: a,
		log: func(format string, args ...any) { t.Logf(node+": "+format, args...) }}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { m.run(ctx); close(done) }()
	stop := sync.OnceFunc(func() { cancel(); <-done; _ = etcd.Close() })
	t.Cleanup(stop)
	return competitor{m, a, stop}
}

var eventually = polltest.Until

// lock returns the holder's node and the lease, empty and 0 for none.
func lock(t *testing.T, c *etcdtest.Cluster) (string, clientv3.LeaseID, *clientv3.Client) {
	t.Helper()
	etcd, err := client.NewEtcd(c, "node-1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = etcd.Close() })
	held, err := etcd.Get(t.Context(), Key(scheduler))
	if err != nil {
		t.Fatal(err)
	}
	if len(held.Kvs) == 0 {
		return "", 0, etcd
	}
	return string(held.Kvs[0].Value), clientv3.LeaseID(held.Kvs[0].Lease), etcd
}

// One of two runs, and the other one takes over once the first gives the lock back.
func TestOneRuns(t *testing.T) {
	c := etcdtest.New(t, 1)
	a := compete(t, c, "node-a", false)
	eventually(t, "a runs", a.runs)
	b := compete(t, c, "node-b", false)
	for range 100 {
		if time.Sleep(5 * time.Millisecond); b.runs() || !a.runs() {
			t.Fatalf("a runs: %t, b runs: %t", a.runs(), b.runs())
		}
	}
	if holder, _, _ := lock(t, c); holder != "node-a" {
		t.Errorf("the lock is held by %q", holder)
	}
	a.stop()
	if a.runs() {
		t.Error("a runs after its end")
	}
	eventually(t, "b runs", b.runs)
}

// If another client revokes the lease, the reign ends immediately.
func TestLeaseRevoked(t *testing.T) {
	c := etcdtest.New(t, 1)
	a := compete(t, c, "node-a", false)
	eventually(t, "a runs", a.runs)
	_, lease, etcd := lock(t, c)
	if _, err := etcd.Revoke(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a was stopped", func() bool { a.mu.Lock(); defer a.mu.Unlock(); return a.ends == 1 })
	eventually(t, "a runs again", a.runs)
}

// A lock that was deleted or taken over is noticed, although the lease lives.
func TestLockTakenOver(t *testing.T) {
	c := etcdtest.New(t, 1)
	a := compete(t, c, "node-a", false)
	eventually(t, "a runs", a.runs)
	_, _, etcd := lock(t, c)
	if _, err := etcd.Put(t.Context(), Key(scheduler), "node-b"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a stands by", func() bool { return !a.runs() })
	time.Sleep(4 * times.Retry)
	if a.runs() {
		t.Error("a runs while b holds the lock")
	}
}

// A holder that cannot reach etcd has stopped before the lock can run out, whether or
// not its podmaster does anything about it.
func TestStopsInTime(t *testing.T) {
	c := etcdtest.New(t, 1)
	a := compete(t, c, "node-a", false)
	eventually(t, "a runs", a.runs)
	c.Stop(0)
	stopped := system.Monotonic()
	a.refuse(errors.New("frozen")) // nothing that it says from now on counts
	eventually(t, "its admission ran out", func() bool { return !a.runs() })
	if lasts := a.until - stopped; lasts > times.Renew {
		t.Errorf("it runs for %s without a renewal, longer than %s", lasts, times.Renew)
	}
}

// An agent that does not answer keeps the lock: what it runs may still be there.
func TestAgentSilent(t *testing.T) {
	c := etcdtest.New(t, 1)
	a := compete(t, c, "node-a", false)
	eventually(t, "a runs", a.runs)
	_, before, _ := lock(t, c)
	a.refuse(errors.New("no answer"))
	time.Sleep(times.Lease + 500*time.Millisecond)
	if holder, lease, _ := lock(t, c); holder != "node-a" || lease != before {
		t.Errorf("the lock is held by %q under lease %x, not %x", holder, lease, before)
	}
}

// A careless one continues without its lock: a violation to be planted.
func TestCareless(t *testing.T) {
	c := etcdtest.New(t, 1)
	a := compete(t, c, "node-a", true)
	eventually(t, "a runs", a.runs)
	_, lease, etcd := lock(t, c)
	if _, err := etcd.Revoke(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	b := compete(t, c, "node-b", false)
	eventually(t, "b runs, or a has the lock again", func() bool { h, _, _ := lock(t, c); return b.runs() || h == "node-a" })
	if !a.runs() {
		t.Error("the careless one stopped")
	}
}
