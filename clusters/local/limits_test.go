package local

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/local/cgroup"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// groupOf returns the control group for processor time in which a component is.
func groupOf(t *testing.T, n *node, c framework.Component) string {
	t.Helper()
	owners, err := n.machine.owners()
	if err != nil {
		t.Fatal(err)
	}
	for pid, owner := range owners {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
		if err != nil || owner != c {
			continue
		}
		return cpuGroup(string(b))
	}
	return "none: it does not run"
}

// cpuGroup finds the group for processor time in a /proc/PID/cgroup, of either
// version.
func cpuGroup(text string) string {
	unified := ""
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if slices.Contains(strings.Split(f[1], ","), "cpu") {
			return f[2]
		}
		if f[1] == "" {
			unified = f[2]
		}
	}
	return unified
}

// testLimits limits processes with control groups.
func testLimits(t *testing.T, c *Cluster) {
	places, why := cgroup.Find()
	if !slices.ContainsFunc(places, func(p cgroup.Place) bool { return p.Has(cgroup.CPU) }) {
		t.Skipf("no control groups for processor time here: %v", why[cgroup.CPU])
	}
	n := c.nodes[1]
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	home := cpuGroup(string(b))
	limited := func(c framework.Component) bool { return groupOf(t, n, c) != home }

	t.Run("restarts stay under it, and several end in any order", func(t *testing.T) {
		// Two groups of one node share its time evenly, so that the scheduler's
		// can always have what it may.
		node := inject(t, c, fault.CPUPressure, "node/2", longTTL, "by=cgroup quota=50")
		wide := inject(t, c, fault.CPUPressure, "scheduler/2", longTTL, "by=cgroup quota=20")
		narrow := inject(t, c, fault.CPUPressure, "scheduler/2", longTTL, "by=cgroup quota=10")
		for _, f := range []struct{ target, signal string }{{"scheduler/2", "signal=KILL"}, {"agent/2", "signal=KILL"}, {"kcm/2", "signal=KILL"}} {
			heal(t, inject(t, c, fault.Restart, f.target, longTTL, f.signal))
		}
		if g := groupOf(t, n, framework.Scheduler); !strings.HasSuffix(g, "/"+string(framework.Scheduler)) {
			t.Errorf("the scheduler that was restarted is in group %s", g)
		}
		if g := groupOf(t, n, framework.ControllerManager); !strings.HasSuffix(g, "/"+otherProcesses) {
			t.Errorf("the controller manager that was restarted is in group %s", g)
		}
		quota := func() float64 {
			u, err := n.machine.limits.trees[0].Usage(n.machine.limits.trees[0].Dir() + "/" + string(framework.Scheduler))
			if err != nil {
				t.Fatal(err)
			}
			return u.CPU
		}
		if q := quota(); q != 10 {
			t.Errorf("of several quotas, that of %g%% counts", q)
		}
		heal(t, narrow)
		if q := quota(); q != 20 {
			t.Errorf("with the strictest gone, the quota is %g%%", q)
		}
		heal(t, node)
		if !limited(framework.Scheduler) || limited(framework.ControllerManager) {
			t.Errorf("with the node's gone: %s, %s", groupOf(t, n, framework.Scheduler), groupOf(t, n, framework.ControllerManager))
		}
		heal(t, wide)
		if limited(framework.Scheduler) || len(n.machine.limits.trees) > 0 {
			t.Errorf("with all gone: %s, %v", groupOf(t, n, framework.Scheduler), n.machine.limits.trees)
		}
	})
	t.Run("dead man", func(t *testing.T) {
		inject(t, c, fault.CPUPressure, "apiserver/2", 3*time.Second, "by=cgroup")
		eventually(t, 20*time.Second, "the limit is gone", func() bool { return !limited(framework.APIServer) })
		unscathed(t, c)
	})
	t.Run("it ends with the machine's power", func(t *testing.T) {
		i := inject(t, c, fault.CPUPressure, "node/2", longTTL, "by=cgroup quota=50")
		heal(t, inject(t, c, fault.Reboot, "node/2", longTTL, "off=100ms"))
		heal(t, i)
		if limited(framework.APIServer) {
			t.Error("the API server is still limited")
		}
	})
	t.Run("memory", func(t *testing.T) {
		if err := n.LimitSupport(framework.Limit{Memory: 1 << 30, Hard: true}); err != nil {
			t.Skip(err)
		}
		// More than it needs, so that only the probe is killed.
		heal(t, inject(t, c, fault.MemoryPressure, "scheduler/2", longTTL, "by=cgroup oom=true limit=256Mi"))
	})
}
