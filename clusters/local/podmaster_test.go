package local

import (
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/keeper"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// TestSupervised elects a component by supervisors: it runs on one node, moves when the
// podmaster there has gone, and stands by elsewhere.
func TestSupervised(t *testing.T) {
	c := newCluster(t, func(s *clusters.Cluster) {
		s.Spec.Workers = 0
		s.Spec.Election = map[framework.Component]clusters.Election{framework.Scheduler: clusters.ElectionSupervisor}
		s.Spec.ExtraArgs = clusters.ExtraArgs{framework.Scheduler: {"leader-elect-lease-duration": "6s",
			"leader-elect-renew-deadline": "4s", "leader-elect-retry-period": "1s"}}
	})
	first := soleScheduler(t, c)
	holder, err := fault.Resolve(t.Context(), c, "scheduler/active")
	if err != nil || holder.Node != first.Name() {
		t.Fatalf("the scheduler runs on %s, and its lock is held by %s, %v", first.Name(), holder.Node, err)
	}
	status := keeper.Look(t.Context(), c, c)
	if l := status.Leases[1]; l.Component != framework.Scheduler || l.Holder != first.Name() {
		t.Errorf("status: %+v", l)
	}

	// Its admission is not renewed any more.
	began := time.Now()
	if err := first.Kill(t.Context(), framework.Podmaster, time.Minute); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "the scheduler stops where nobody holds its lock", func() bool {
		p := process(t, first, framework.Scheduler)
		return p.PID == 0 && p.Standby
	})
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it ran for %s without a renewal", took)
	}
	eventually(t, 60*time.Second, "it runs on another node", func() bool {
		for _, n := range c.nodes {
			if n != first && process(t, n, framework.Scheduler).PID != 0 {
				return true
			}
		}
		return false
	})
	if err := first.Start(t.Context(), framework.Podmaster); err != nil {
		t.Fatal(err)
	}
	second := soleScheduler(t, c)

	// On SIGTERM it stops the scheduler and releases the lock immediately.
	began = time.Now()
	if err := second.Stop(t.Context(), framework.Podmaster, time.Minute); err != nil {
		t.Fatal(err)
	}
	if p := process(t, second, framework.Scheduler); p.PID != 0 {
		t.Errorf("its podmaster has ended, and it runs: %+v", p)
	}
	eventually(t, 60*time.Second, "it runs again", func() bool { return soleIfAny(t, c) != nil })
	t.Logf("given back and taken over after %s", time.Since(began).Round(time.Millisecond))
}

func soleScheduler(t *testing.T, c *Cluster) *node {
	t.Helper()
	n := soleIfAny(t, c)
	if n == nil {
		t.Fatal("no scheduler runs")
	}
	return n
}

// soleIfAny returns the node that runs the scheduler, and fails where two do.
func soleIfAny(t *testing.T, c *Cluster) (runs *node) {
	t.Helper()
	for _, n := range c.nodes {
		p := process(t, n, framework.Scheduler)
		if p.PID != 0 {
			if runs != nil {
				t.Errorf("it runs on %s and on %s", runs.Name(), n.Name())
			}
			runs = n
		}
	}
	return runs
}
