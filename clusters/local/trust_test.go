package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local/clock"
	"github.com/holdfast-ha/holdfast/clusters/procfs"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// provenInjection injects a fault into a target and wants its effect proven.
func provenInjection(t *testing.T, c *Cluster, f *fault.Fault, target string, ttl time.Duration, values map[string]string) fault.Injection {
	t.Helper()
	resolved, err := fault.Resolve(t.Context(), c, target)
	if err != nil {
		t.Fatal(err)
	}
	in, err := f.Inject(t.Context(), c, resolved, fault.Params{TTL: ttl, Values: values})
	if err != nil {
		t.Fatal(err)
	}
	proof := in.Proof()
	if !proof.Proven {
		t.Fatalf("%s of %s: no proof: %s", f.Name, target, proof.What)
	}
	t.Logf("%s of %s after %s: %s", f.Name, target, proof.Effect.Sub(proof.Called).Round(time.Millisecond), proof.What)
	return in
}

// provenHealing heals a fault and wants that proven.
func provenHealing(t *testing.T, in fault.Injection) {
	t.Helper()
	proof, err := in.Heal(t.Context())
	if err != nil || !proof.Proven {
		t.Fatalf("no proof of healing: %s, %v", proof.What, err)
	}
	t.Logf("healed after %s: %s", proof.Effect.Sub(proof.Called).Round(time.Millisecond), proof.What)
}

// TestTrustAndTime does to one cluster what faults do to certificates and clocks.
func TestTrustAndTime(t *testing.T) {
	c := newCluster(t, func(s *clusters.Cluster) { s.Spec.Workers = 0 })
	t.Run("certificates", func(t *testing.T) { testCertificates(t, c) })
	t.Run("clocks", func(t *testing.T) {
		if err := clock.Supported(); err != nil {
			t.Skipf("clocks cannot be shifted here: %v", err)
		}
		testClocks(t, c)
	})
	if err := c.Ready(t.Context()); err != nil {
		t.Errorf("after all of it: %v", err)
	}
}

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
	for _, f := range []*fault.Fault{fault.CertExpired, fault.CertWrongNames, fault.AuthorityRotated} {
		for _, target := range []string{"apiserver/2", "etcd/2"} {
			t.Run(f.Name+" of "+target, func(t *testing.T) {
				provenHealing(t, provenInjection(t, c, f, target, time.Hour, nil))
			})
		}
	}
	t.Run("overlapping", func(t *testing.T) {
		first := provenInjection(t, c, fault.CertExpired, "etcd/2", time.Hour, nil)
		second := provenInjection(t, c, fault.CertWrongNames, "apiserver/2", time.Hour, nil)
		target, err := fault.Resolve(t.Context(), c, "etcd/2")
		if err != nil {
			t.Fatal(err)
		}
		again, err := fault.AuthorityRotated.Inject(t.Context(), c, target, fault.Params{TTL: time.Hour})
		if err != nil || again.Proof().Proven {
			t.Errorf("bad certificates in place of bad certificates: %+v, %v", again, err)
		}
		provenHealing(t, first)
		provenHealing(t, second)
	})
	t.Run("for a time, across a power cut", func(t *testing.T) {
		provenInjection(t, c, fault.CertExpired, "etcd/2", 4*time.Second, nil)
		if err := n.PowerOff(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		eventually(t, 30*time.Second, "its own certificates are back", func() bool { return certificateFiles(t, n) == own })
		eventually(t, 60*time.Second, "its API server is ready again", func() bool { return ready(t, c, n.Name()) })
	})
	if certificateFiles(t, n) != own {
		t.Error("the certificates are not what they were")
	}
}

func testClocks(t *testing.T, c *Cluster) {
	n := c.nodes[2]
	for _, x := range []struct {
		fault  *fault.Fault
		target string
		values map[string]string
	}{
		{fault.ClockJump, "node/3", map[string]string{"offset": "60s"}},
		{fault.ClockJump, "etcd/3", map[string]string{"offset": "-60s"}},
		{fault.ClockJump, "etcd/3", map[string]string{"offset": "-87600h"}},
		{fault.ClockJump, "kcm/active", map[string]string{"offset": "1s"}},
		{fault.ClockDrift, "node/3", nil},
		{fault.ClockDrift, "apiserver/3", map[string]string{"rate": "-20%"}},
	} {
		t.Run(fmt.Sprintf("%s of %s %v", x.fault.Name, x.target, x.values), func(t *testing.T) {
			before := identities(t, n)
			provenHealing(t, provenInjection(t, c, x.fault, x.target, time.Hour, x.values))
			sameProcesses(t, n, before)
		})
	}

	t.Run("overlapping, with a restart of the component and one of the agent", func(t *testing.T) {
		jump := provenInjection(t, c, fault.ClockJump, "node/3", time.Hour, map[string]string{"offset": "-90s"})
		drift := provenInjection(t, c, fault.ClockDrift, "scheduler/3", time.Hour, map[string]string{"rate": "-10%"})
		killAgent(t, n)
		if err := n.Kill(t.Context(), framework.Scheduler, 0); err != nil {
			t.Fatal(err)
		}
		eventually(t, 60*time.Second, "the new scheduler has the shifted clock", func() bool {
			r, err := n.ReadClock(t.Context(), framework.Scheduler)
			return err == nil && r.Offset < -80*time.Second && r.Drift < -0.09 && len(r.Shifts) == 2
		})
		provenHealing(t, jump)
		provenHealing(t, drift)
	})

	t.Run("for a time, with nobody to heal it", func(t *testing.T) {
		provenInjection(t, c, fault.ClockJump, "node/3", 3*time.Second, map[string]string{"offset": "60s"})
		killAgent(t, n)
		for _, name := range n.Components() {
			eventually(t, 30*time.Second, string(name)+" has the kernel's own code", func() bool {
				r, err := n.ReadClock(t.Context(), name)
				return err == nil && r.Untouched && len(r.Shifts) == 0
			})
		}
	})

	t.Run("a power cut ends it", func(t *testing.T) {
		in := provenInjection(t, c, fault.ClockJump, "etcd/3", time.Hour, map[string]string{"offset": "60s"})
		if err := n.PowerOff(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		if err := n.UnshiftClock(t.Context(), "gone"); err != nil {
			t.Errorf("healing a machine without power: %v", err)
		}
		if err := n.PowerOn(t.Context()); err != nil {
			t.Fatal(err)
		}
		provenHealing(t, in)
	})

	t.Run("refused", func(t *testing.T) {
		if _, err := n.ShiftClock(t.Context(), []framework.Component{"kubelet"}, framework.ClockShift{Offset: time.Minute}, time.Minute); err == nil {
			t.Error("an unknown component was accepted")
		}
		if _, err := n.ShiftClock(t.Context(), n.Components(), framework.ClockShift{Offset: time.Minute}, 0); err == nil {
			t.Error("a shift without a time to live was accepted")
		}
	})
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
