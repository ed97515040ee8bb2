package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/procfs"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// testProcesses injects faults on processes and machines.
func testProcesses(t *testing.T, c *Cluster) {
	t.Run("injected and healed", func(t *testing.T) { testHealed(t, c) })
	t.Run("components go on without their agent", func(t *testing.T) { testWithoutAgent(t, c) })
	t.Run("frozen, then paused", func(t *testing.T) { testFrozenAndPaused(t, c) })
	t.Run("overlapping", func(t *testing.T) { testOverlapping(t, c) })
	t.Run("dead man", func(t *testing.T) { testDeadMan(t, c) })
	t.Run("power", func(t *testing.T) { testPower(t, c) })
}

func testHealed(t *testing.T, c *Cluster) {
	for _, f := range []*fault.Fault{fault.Kill, fault.Stop, fault.Freeze} {
		t.Run(f.Name+" balancer", func(t *testing.T) {
			i := inject(t, c, f, "balancer", longTTL, "")
			if ready(t, c, "balancer") {
				t.Error("the balancer answers")
			}
			heal(t, i)
		})
	}
	healEach(t, c, []faultCase{
		{fault.Restart, "balancer", ""},
		{fault.CrashLoop, "balancer", "after=10ms"},
		{fault.Kill, "kwok", ""},
		{fault.Kill, "kwok", "restart=true"},
		{fault.Stop, "kwok", ""},
		{fault.Freeze, "kwok", ""},
		{fault.Kill, "agent/2", ""},
		{fault.Kill, "agent/2", "restart=true"},
		{fault.Stop, "agent/2", ""},
		{fault.Freeze, "agent/2", ""},
		{fault.Restart, "agent/2", ""},
		{fault.Restart, "agent/2", "signal=KILL"},
		{fault.CrashLoop, "agent/2", "after=0s"},
		{fault.Restart, "scheduler/2", ""},
		{fault.Restart, "etcd/follower", "signal=KILL"},
		{fault.CrashLoop, "kcm/standby", "after=200ms"},
		{fault.CPUPressure, "node/2", "workers=1"},
		{fault.CPUPressure, "balancer", "workers=1"},
		{fault.MemoryPressure, "etcd/leader", "size=64Mi"},
		{fault.MemoryPressure, "kwok", "size=64Mi"},
		{fault.MemoryPressure, "zone/b", "size=64Mi"},
	})
}

// testWithoutAgent holds an agent down, and freezes it: its components do not
// notice, and nothing starts one that dies.
func testWithoutAgent(t *testing.T, c *Cluster) {
	n := c.nodes[1]
	before := map[framework.Component]framework.Process{}
	for _, component := range n.Components() {
		before[component] = process(t, n, component)
	}
	i := inject(t, c, fault.Kill, "agent/2", longTTL, "")
	if p := process(t, n, framework.NodeAgent); p.PID != 0 || !p.Held || p.LastExit != "signal: killed" {
		t.Errorf("the agent is not held down: %+v", p)
	}
	if _, err := n.Process(t.Context(), framework.Scheduler); err == nil {
		t.Error("an agent that is held down answers")
	}
	if !ready(t, c, n.Name()) {
		t.Error("the API server does not answer while its agent is held down")
	}
	proc, err := n.machine.proc()
	if err != nil {
		t.Fatal(err)
	}
	scheduler := before[framework.Scheduler]
	victim := machineProcess{procfs.Process{Proc: proc, PID: scheduler.PID, Stat: procfs.Stat{StartTicks: scheduler.StartTicks}}}
	if err := victim.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := victim.gone(t.Context()); err != nil {
		t.Fatal(err)
	}
	heal(t, i)
	eventually(t, 30*time.Second, "the next agent starts what died", func() bool { return process(t, n, framework.Scheduler).PID != 0 })
	if p := process(t, n, framework.Scheduler); p.Restarts != scheduler.Restarts+1 || p.LastExit != "signal: killed" {
		t.Errorf("the scheduler is now %+v, was %+v", p, scheduler)
	}
	for _, component := range []framework.Component{framework.Etcd, framework.APIServer, framework.ControllerManager} {
		if p := process(t, n, component); p.PID != before[component].PID || p.StartTicks != before[component].StartTicks {
			t.Errorf("%s was restarted: %+v, before %+v", component, p, before[component])
		}
	}

	i = inject(t, c, fault.Freeze, "agent/2", longTTL, "")
	if p := process(t, n, framework.NodeAgent); p.State != "T" {
		t.Errorf("the agent is not frozen: %+v", p)
	}
	if !ready(t, c, n.Name()) {
		t.Error("the API server does not answer while its agent is frozen")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := n.Kill(ctx, framework.Scheduler, 0); err == nil || !strings.Contains(err.Error(), "agent does not answer") {
		t.Errorf("a frozen agent was told to kill: %v", err)
	}
	alive := process(t, n, framework.NodeAgent)
	heal(t, i)
	if p := process(t, n, framework.NodeAgent); p.PID != alive.PID || p.StartTicks != alive.StartTicks {
		t.Errorf("the agent was restarted: %+v, before %+v", p, alive)
	}
	// It has now read that it should kill the scheduler, which came too late.
	if p := process(t, n, framework.Scheduler); p.PID == 0 || p.Restarts != scheduler.Restarts+1 {
		t.Errorf("the agent did what it was told while it was frozen: %+v", p)
	}
}

// testFrozenAndPaused pauses a machine whose agent is frozen: the agent stays frozen until the pause is
// over, although its own time has passed.
func testFrozenAndPaused(t *testing.T, c *Cluster) {
	n := c.nodes[1]
	err := n.Freeze(t.Context(), framework.NodeAgent, 300*time.Millisecond)
	if err == nil {
		err = n.Pause(t.Context(), time.Minute)
	}
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	if p := process(t, n, framework.NodeAgent); p.State != "T" {
		t.Errorf("the agent runs in a paused machine: %+v", p)
	}
	if err := n.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "the agent runs", func() bool { return process(t, n, framework.NodeAgent).State != "T" })
}

// testOverlapping heals faults that overlap one by one, in an order of their own.
func testOverlapping(t *testing.T, c *Cluster) {
	var injections []fault.Injection
	for _, f := range []faultCase{
		{fault.CPUPressure, "zone/b", "workers=1"},
		{fault.MemoryPressure, "node/2", "size=64Mi"},
		{fault.MemoryPressure, "node/2", "size=80Mi"},
		{fault.Kill, "scheduler/2", ""},
		{fault.CrashLoop, "kcm/2", "after=0s"},
		{fault.Freeze, "agent/3", ""},
		{fault.Restart, "agent/2", "signal=KILL"},
		{fault.Freeze, "kwok", ""},
	} {
		injections = append(injections, f.inject(t, c, longTTL))
	}
	// The agent's successor has kept what was active.
	eventually(t, 10*time.Second, "the agent answers", func() bool {
		_, err := c.nodes[1].Process(t.Context(), framework.Scheduler)
		return err == nil
	})
	if p := process(t, c.nodes[1], framework.Scheduler); p.PID != 0 || !p.Held {
		t.Errorf("a hold was forgotten: %+v", p)
	}
	if p := process(t, c.nodes[1], framework.ControllerManager); !p.CrashLooped {
		t.Errorf("a crash loop was forgotten: %+v", p)
	}
	for _, i := range []int{3, 0, 5, 1, 6, 4, 7, 2} {
		heal(t, injections[i])
	}
	unscathed(t, c)
}

// testDeadMan lets every fault run into the end of its time to live. Those that
// take a while to show live longer.
func testDeadMan(t *testing.T, c *Cluster) {
	const short, long = 3 * time.Second, 10 * time.Second
	for _, f := range []faultCase{
		{fault.CPUPressure, "zone/b", "workers=1"},
		{fault.MemoryPressure, "node/1", "size=64Mi"},
		{fault.CrashLoop, "scheduler/3", "after=0s"},
	} {
		f.inject(t, c, long)
	}
	for _, f := range []faultCase{
		{fault.Kill, "balancer", ""},
		{fault.Freeze, "kwok", ""},
		{fault.Kill, "agent/1", ""},
		{fault.Freeze, "agent/2", ""},
		{fault.CrashLoop, "agent/3", "after=0s"},
	} {
		f.inject(t, c, short)
	}
	eventually(t, 90*time.Second, "everything is as before", func() bool { return scathed(t, c) == "" })
}

func testPower(t *testing.T, c *Cluster) {
	heal(t, inject(t, c, fault.PowerOff, "zone/b", longTTL, ""))
	heal(t, inject(t, c, fault.Pause, "zone/b", longTTL, ""))
	t.Run("a pause ends with its time, and with the power", func(t *testing.T) {
		inject(t, c, fault.Pause, "node/3", 2*time.Second, "")
		eventually(t, 30*time.Second, "node 3 goes on", func() bool {
			paused, err := c.nodes[2].Paused(t.Context())
			return err == nil && !paused
		})
		i := inject(t, c, fault.Pause, "node/3", longTTL, "")
		heal(t, inject(t, c, fault.PowerOff, "node/3", longTTL, ""))
		heal(t, i)
	})
	heal(t, inject(t, c, fault.Reboot, "node/3", longTTL, "off=100ms"))
	heal(t, inject(t, c, fault.Reboot, "zone/b", longTTL, "off=100ms"))

	t.Run("a load ends with its machine", func(t *testing.T) {
		i := inject(t, c, fault.CPUPressure, "node/1", longTTL, "workers=1")
		heal(t, inject(t, c, fault.Reboot, "node/1", longTTL, "off=100ms"))
		heal(t, i)
	})
	m := c.nodes[2].machine
	t.Run("asking for power waits for nobody", func(t *testing.T) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if !m.powered() || m.pid() == 0 {
			t.Error("it has power")
		}
		process(t, c.nodes[2], framework.Scheduler)
	})
	t.Run("power that fails to come back is retried", func(t *testing.T) {
		logs := m.logs
		m.mu.Lock()
		m.logs = "/nonexistent"
		m.mu.Unlock()
		if err := m.powerOff(100 * time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if err := m.powerOn(t.Context()); err == nil || !strings.Contains(err.Error(), "/nonexistent") {
			t.Errorf("it was started without its log: %v", err)
		}
		// The first thing that a start does is to remove this.
		if err := os.WriteFile(m.config.Exits, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		eventually(t, 10*time.Second, "an attempt to bring power back", func() bool {
			_, err := os.Stat(m.config.Exits)
			return errors.Is(err, os.ErrNotExist)
		})
		m.mu.Lock()
		if m.powered() {
			t.Error("it has power")
		}
		m.logs = logs
		m.mu.Unlock()
		eventually(t, 60*time.Second, "power", func() bool { return scathed(t, c) == "" })
	})
}

func unscathed(t *testing.T, c *Cluster) {
	t.Helper()
	var why string
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if why = scathed(t, c); why == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(why)
		}
	}
}

// scathed says in words what is not as it should be.
func scathed(t *testing.T, c *Cluster) string {
	for _, m := range c.machines() {
		proc, err := m.proc()
		if err != nil {
			return err.Error()
		}
		if loads, err := procfs.Find(proc, func(args []string) bool { return args[0] == roleLoad }); err != nil || len(loads) > 0 {
			return fmt.Sprintf("load processes %v on %s, %v", loads, m.name, err)
		}
		all, err := m.agent.Processes(t.Context())
		if err != nil {
			return err.Error()
		}
		agent, err := m.watcher.process()
		if err != nil {
			return err.Error()
		}
		for _, p := range append(all, agent) {
			if p.PID == 0 || p.State == "T" || p.Held || p.CrashLooped {
				return fmt.Sprintf("on %s: %+v", m.name, p)
			}
		}
	}
	for _, e := range c.Entrances() {
		if !ready(t, c, e.Name) {
			return e.Name + " is not ready"
		}
	}
	return ""
}
