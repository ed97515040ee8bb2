package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
)

// newExecNode makes a node whose agent starts the components itself: programs that do nothing.
func newExecNode(t *testing.T, names ...framework.Component) *testNode {
	t.Helper()
	n := newNode(t)
	n.config.Exits = filepath.Join(filepath.Dir(n.file), "exits")
	path := sleeper(t, "").Path
	for _, name := range names {
		n.config.Components = append(n.config.Components, Component{Name: name, Exec: &Exec{Path: path,
			Args: []string{fmt.Sprintf("%s-%d", name, nodes.Add(1)), "1000"}, Log: filepath.Join(filepath.Dir(n.file), string(name)+".log")}})
	}
	t.Cleanup(func() {
		for _, c := range n.config.Components {
			_ = n.Kill(t.Context(), c.Name, time.Hour)
		}
	})
	return n
}

// TestExec does to a component that the agent starts what faults do.
func TestExec(t *testing.T) {
	t.Parallel()
	n := newExecNode(t, scheduler)
	n.up()
	before := n.runs(scheduler)
	if before.Restarts != 0 || before.Held || before.Standby {
		t.Errorf("at first it is %+v", before)
	}
	must(t, n.Kill(t.Context(), scheduler, 0))
	if p := n.runs(scheduler); p.PID == before.PID || p.Restarts != 1 || p.LastExit != "signal: killed" {
		t.Errorf("killed, it is %+v; before %+v", p, before)
	}
	must(t, n.Stop(t.Context(), scheduler, time.Hour))
	if p := n.process(scheduler); p.PID != 0 || !p.Held || p.LastExit != "signal: terminated" {
		t.Errorf("stopped, it is %+v", p)
	}
	refused(t, n.Kill(t.Context(), scheduler, 2*time.Hour))
	refused(t, n.Freeze(t.Context(), scheduler, time.Hour))
	time.Sleep(100 * time.Millisecond)
	if p := n.process(scheduler); p.PID != 0 {
		t.Errorf("held down, it was started: %+v", p)
	}
	must(t, n.Start(t.Context(), scheduler))
	if p := n.runs(scheduler); p.Held || p.Restarts != 2 {
		t.Errorf("started, it is %+v", p)
	}
	must(t, n.Freeze(t.Context(), scheduler, n.beyond(300*time.Millisecond)))
	eventually(t, "it is frozen", func() bool { return n.process(scheduler).State == "T" })
	n.runs(scheduler)
	must(t, n.CrashLoop(t.Context(), scheduler, 10*time.Millisecond, time.Hour))
	eventually(t, "it was killed twice", func() bool { return n.process(scheduler).Restarts >= 4 })
	must(t, n.EndCrashLoop(t.Context(), scheduler))
	stays(t, n, scheduler)

	must(t, n.Kill(t.Context(), scheduler, 200*time.Millisecond))
	if p := n.runs(scheduler); p.Held {
		t.Errorf("the hold being over, it is %+v", p)
	}
	renewed := *n.config.Components[0].Exec
	renewed.Args = []string{"other", "1000"}
	must(t, n.Renew(t.Context(), scheduler, &renewed))
	must(t, n.Reload(t.Context(), scheduler)) // of which sleep dies
	eventually(t, "it runs in another way", func() bool {
		p := n.process(scheduler)
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		return strings.HasPrefix(string(b), "other\x00") && p.LastExit == "signal: hangup"
	})
}

// TestExecBacksOff shows how long a component waits that ends again and again, and one that
// cannot be started.
func TestExecBacksOff(t *testing.T) {
	t.Parallel()
	var delays []time.Duration
	delay := time.Duration(0)
	for _, ran := range []time.Duration{time.Hour, 10 * time.Second, 10 * time.Second, 0, 0, 0, 0, 0, 0, time.Hour} {
		delay = backOff(delay, ran)
		delays = append(delays, delay)
	}
	s := time.Second
	if want := []time.Duration{0, time.Millisecond, s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s, 0}; !slices.Equal(delays, want) {
		t.Errorf("the delays are %v, want %v", delays, want)
	}
	n := newExecNode(t, scheduler)
	n.config.Components[0].Exec.Path = "/nowhere"
	n.up()
	eventually(t, "its last exit tells why", func() bool { return strings.Contains(n.process(scheduler).LastExit, "/nowhere") })
}

// TestExecIsAdopted kills the agent: its successor immediately knows what runs, ends faults in
// time, and learns how a process exited that was not its child.
func TestExecIsAdopted(t *testing.T) {
	t.Parallel()
	running, frozen, looping, lost := framework.APIServer, framework.Etcd, framework.Scheduler, framework.ControllerManager
	n := newExecNode(t, running, frozen, looping, lost)
	n.up()
	before := map[framework.Component]framework.Process{}
	for _, c := range n.config.Components {
		before[c.Name] = n.runs(c.Name)
	}
	must(t, n.Freeze(t.Context(), frozen, n.beyond(2*time.Second)))
	must(t, n.CrashLoop(t.Context(), looping, time.Hour, n.beyond(2*time.Second)))
	n.runs(looping)
	n.kill()
	// That agent had not written down yet that it had started one.
	forget(t, n, lost)
	n.up()
	if p := n.process(running); p.PID != before[running].PID || p.Restarts != 0 {
		t.Errorf("the successor finds %+v, was %+v", p, before[running])
	}
	if p := n.process(lost); p.PID != before[lost].PID {
		t.Errorf("the successor finds %+v, was %+v", p, before[lost])
	}
	if p := n.process(frozen); p.State != "T" || p.PID != before[frozen].PID {
		t.Errorf("the successor finds %+v frozen", p)
	}
	refused(t, n.CrashLoop(t.Context(), looping, 0, time.Hour))
	n.runs(frozen)
	eventually(t, "the crash loop is over", func() bool { return !n.process(looping).CrashLooped })

	write(t, n.config.Exits, fmt.Sprintf("1 exit status 1\n%d exit status 7\n", before[running].PID))
	must(t, n.Kill(t.Context(), running, time.Hour))
	if p := n.process(running); p.LastExit != "exit status 7" {
		t.Errorf("its end is %+v", p)
	}
	n.kill()
	n.up()
	if p := n.process(running); p.PID != 0 || !p.Held {
		t.Errorf("the successor finds %+v held down", p)
	}
}

// forget takes a component's process from what the agent has written down.
func forget(t *testing.T, n *testNode, c framework.Component) {
	t.Helper()
	s, err := openStore(n.config.Dir)
	must(t, err)
	must(t, s.update(func(st *state) { st.Components[c].PID, st.Components[c].StartTicks = 0, 0 }))
}

// TestAdmission shows that a supervised component runs while it is admitted, even if the agent
// dies in that time, and has exited by the end of it.
func TestAdmission(t *testing.T) {
	t.Parallel()
	n := newExecNode(t, scheduler, framework.ControllerManager)
	n.config.Components[0].Exec.Supervised = true
	n.up()
	refused(t, n.Admit(t.Context(), framework.ControllerManager, 0))
	time.Sleep(50 * time.Millisecond)
	if p := n.process(scheduler); p.PID != 0 || !p.Standby {
		t.Fatalf("it was never admitted: %+v", p)
	}
	refused(t, n.Kill(t.Context(), scheduler, time.Hour))
	must(t, n.Admit(t.Context(), scheduler, system.Monotonic()+time.Hour))
	first := n.runs(scheduler)
	must(t, n.Admit(t.Context(), scheduler, system.Monotonic()+n.beyond(300*time.Millisecond)))
	if p := n.process(scheduler); p.Standby || p.PID != first.PID {
		t.Errorf("admitted again: %+v", p)
	}
	eventually(t, "it ends by itself", func() bool { return n.process(scheduler).PID == 0 })
	if p := n.process(scheduler); !p.Standby || p.LastExit != "signal: killed" {
		t.Errorf("%+v", p)
	}
	must(t, n.Admit(t.Context(), scheduler, system.Monotonic()+time.Hour))
	n.runs(scheduler)
	must(t, n.Admit(t.Context(), scheduler, 0))
	if p := n.process(scheduler); p.PID != 0 {
		t.Errorf("it runs after its dismissal: %+v", p)
	}

	must(t, n.Admit(t.Context(), scheduler, system.Monotonic()+2*time.Second))
	n.runs(scheduler)
	n.kill()
	n.up()
	eventually(t, "the successor ends it", func() bool { return n.process(scheduler).PID == 0 })
}

// TestExecRejoins shows with what an etcd member is started that is to join a cluster and is
// restarted before it has: as one that joins until it has a log, and then as ever; its data goes
// once.
func TestExecRejoins(t *testing.T) {
	t.Parallel()
	n := newExecNode(t, etcdPod)
	data := filepath.Join(t.TempDir(), "etcd")
	n.config.EtcdData = data
	put := func(name string) {
		t.Helper()
		mkdir(t, filepath.Dir(filepath.Join(data, name)))
		write(t, filepath.Join(data, name), "")
	}
	// The arguments are the shell's own, which takes no notice of them.
	e := n.config.Components[0].Exec
	e.Path = "/bin/sh"
	e.Args = []string{e.Args[0], "-c", "sleep 1000 & wait", "etcd", "--data-dir=" + data, "--initial-cluster=node-1=a", "--initial-cluster-state=new"}
	ever, joins := slices.Clone(e.Args), append(slices.Clone(e.Args[:5]), "--initial-cluster=node-1=a,node-4=d", "--initial-cluster-state=existing")
	runsWith := func(what string, want []string) {
		t.Helper()
		p := n.runs(etcdPod)
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if got := strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00"); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: it runs with %q, %v; want %q", what, got, err, want)
		}
	}
	restart := func() {
		t.Helper()
		before := n.runs(etcdPod)
		must(t, n.Kill(t.Context(), etcdPod, time.Hour))
		must(t, n.Start(t.Context(), etcdPod))
		eventually(t, "it is started again", func() bool { p := n.process(etcdPod); return p.PID != 0 && p.PID != before.PID })
	}
	put("member/wal/0.wal")
	n.up()
	runsWith("at first", ever)
	must(t, n.RejoinEtcd(t.Context(), []framework.EtcdPeer{{Name: "node-1", URLs: []string{"a"}}, {Name: "node-4", URLs: []string{"d"}}}))
	runsWith("told to join", joins)
	if exists(filepath.Join(data, "member")) {
		t.Error("the old data is still there")
	}
	put("member/snap/db")
	restart()
	runsWith("killed before it had a log", joins)
	if !exists(filepath.Join(data, "member", "snap", "db")) {
		t.Error("its data was wiped twice")
	}
	put("member/wal/0.wal")
	restart()
	runsWith("killed once it had a log", ever)
	restart()
	runsWith("killed again", ever)
}

// TestClocksOfOthers shows that the clock of a component that the agent does not start stays.
func TestClocksOfOthers(t *testing.T) {
	t.Parallel()
	n := newNode(t, scheduler)
	n.up()
	n.runs(scheduler)
	_, err := n.ShiftClock(t.Context(), []framework.Component{scheduler}, framework.ClockShift{Offset: time.Hour}, time.Minute)
	if err == nil || !strings.Contains(err.Error(), "did not start this component") {
		t.Errorf("moving it: %v", err)
	}
}
