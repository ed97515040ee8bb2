package local

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/local/clock"
	"github.com/holdfast-ha/holdfast/clusters/procfs"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// certificateFiles are the contents of all certificates that a node serves with.
func certificateFiles(t *testing.T, n *node) string {
	t.Helper()
	var all strings.Builder
	for _, c := range n.Components() {
		for _, name := range servingCertificates(c) {
			b, err := os.ReadFile(filepath.Join(n.machine.dir, pkiDir, name))
			if err != nil {
				t.Fatal(err)
			}
			all.Write(b)
		}
	}
	return all.String()
}

func testCertificates(t *testing.T, c *Cluster) {
	n := c.nodes[1]
	own := certificateFiles(t, n)
	for _, f := range []*fault.Fault{fault.CertExpired, fault.CertWrongNames, fault.CertWrongCA} {
		healEach(t, c, []faultCase{{f, "apiserver/2", ""}, {f, "etcd/2", ""}})
	}
	t.Run("overlapping", func(t *testing.T) {
		first := inject(t, c, fault.CertExpired, "etcd/2", longTTL, "")
		second := inject(t, c, fault.CertWrongNames, "apiserver/2", longTTL, "")
		target, err := fault.Resolve(t.Context(), c, "etcd/2")
		if err != nil {
			t.Fatal(err)
		}
		again, err := fault.CertWrongCA.Inject(t.Context(), c, target, fault.Params{TTL: longTTL})
		if err != nil || again.Proof().Proven {
			t.Errorf("bad certificates in place of bad certificates: %+v, %v", again, err)
		}
		heal(t, first, second)
	})
	t.Run("for a time, across a power cut", func(t *testing.T) {
		inject(t, c, fault.CertExpired, "etcd/2", 4*time.Second, "")
		if err := n.PowerOff(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		eventually(t, 30*time.Second, "its own certificates are back", func() bool { return certificateFiles(t, n) == own })
		eventually(t, 60*time.Second, "its API server is ready again", func() bool { return ready(t, c, n.Name()) })
	})
	if certificateFiles(t, n) != own {
		t.Error("the certificates are not what they were")
	}
	readyAgain(t, c)
}

func testClocks(t *testing.T, c *Cluster) {
	if err := clock.Supported(); err != nil {
		t.Skipf("clocks cannot be shifted here: %v", err)
	}
	n := c.nodes[2]
	for _, f := range []faultCase{
		{fault.ClockJump, "node/3", "offset=60s"},
		{fault.ClockJump, "etcd/3", "offset=-60s"},
		{fault.ClockJump, "etcd/3", "offset=-87600h"},
		{fault.ClockJump, "kcm/active", "offset=1s"},
		{fault.ClockDrift, "node/3", ""},
		{fault.ClockDrift, "apiserver/3", "rate=-20%"},
	} {
		t.Run(f.String(), func(t *testing.T) {
			before := identities(t, n)
			heal(t, f.inject(t, c, longTTL))
			sameProcesses(t, n, before)
		})
	}

	t.Run("overlapping, with a restart of the component and one of the agent", func(t *testing.T) {
		jump := inject(t, c, fault.ClockJump, "node/3", longTTL, "offset=-90s")
		drift := inject(t, c, fault.ClockDrift, "scheduler/3", longTTL, "rate=-10%")
		killAgent(t, n)
		if err := n.Kill(t.Context(), framework.Scheduler, 0); err != nil {
			t.Fatal(err)
		}
		eventually(t, 60*time.Second, "the new scheduler has the shifted clock", func() bool {
			r, err := n.ReadClock(t.Context(), framework.Scheduler)
			return err == nil && r.Offset < -80*time.Second && r.Drift < -0.09 && len(r.Shifts) == 2
		})
		heal(t, jump, drift)
	})

	t.Run("for a time, with nobody to heal it", func(t *testing.T) {
		inject(t, c, fault.ClockJump, "node/3", 3*time.Second, "offset=60s")
		killAgent(t, n)
		for _, name := range n.Components() {
			eventually(t, 30*time.Second, string(name)+" has the kernel's own code", func() bool {
				r, err := n.ReadClock(t.Context(), name)
				return err == nil && r.Untouched && len(r.Shifts) == 0
			})
		}
	})

	t.Run("a power cut ends it", func(t *testing.T) {
		in := inject(t, c, fault.ClockJump, "etcd/3", longTTL, "offset=60s")
		if err := n.PowerOff(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		if err := n.UnshiftClock(t.Context(), "gone"); err != nil {
			t.Errorf("healing a machine without power: %v", err)
		}
		if err := n.PowerOn(t.Context()); err != nil {
			t.Fatal(err)
		}
		heal(t, in)
	})

	t.Run("refused", func(t *testing.T) {
		if _, err := n.ShiftClock(t.Context(), []framework.Component{"kubelet"}, framework.ClockShift{Offset: time.Minute}, time.Minute); err == nil {
			t.Error("an unknown component was accepted")
		}
		if _, err := n.ShiftClock(t.Context(), n.Components(), framework.ClockShift{Offset: time.Minute}, 0); err == nil {
			t.Error("a shift without a time to live was accepted")
		}
	})
	readyAgain(t, c)
}

// readyAgain wants all of the cluster to be ready, which takes trust and time.
func readyAgain(t *testing.T, c *Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := c.Ready(ctx); err != nil {
		t.Error(err)
	}
}

// identities returns the processes of a node.
func identities(t testing.TB, n *node) map[framework.Component]framework.Process {
	t.Helper()
	all := map[framework.Component]framework.Process{}
	for _, c := range n.Components() {
		all[c] = process(t, n, c)
	}
	return all
}

// sameProcesses wants a node to have the processes that it had, and shows how the log
// of one ends that is another now.
func sameProcesses(t testing.TB, n *node, before map[framework.Component]framework.Process) {
	t.Helper()
	for c, now := range identities(t, n) {
		if was := before[c]; now.PID != was.PID || now.StartTicks != was.StartTicks {
			b, err := os.ReadFile(filepath.Join(n.machine.logs, string(c)+".log"))
			t.Errorf("%s on %s was process %d, begun at %d, and is %d, begun at %d; its log (%v):\n%s",
				c, n.Name(), was.PID, was.StartTicks, now.PID, now.StartTicks, err, b[max(0, len(b)-3<<10):])
		}
	}
}

// killAgent kills a node's agent and returns when its successor answers.
func killAgent(t *testing.T, n *node) {
	t.Helper()
	agent, err := procfs.ChildWhere(n.machine.pid(), func(pids []int) bool {
		b, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pids[0]), "cmdline"))
		return strings.HasPrefix(string(b), roleAgent)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(agent, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, 15*time.Second, "a new agent answers", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		all, err := n.machine.agent.Processes(ctx)
		return err == nil && len(all) == len(n.Components()) && all[0].PID != 0
	})
}
