package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters/procfs"
	"github.com/holdfast-ha/holdfast/framework"
)

const (
	etcdPod   = framework.Etcd
	scheduler = framework.Scheduler
)

func TestKill(t *testing.T) {
	t.Parallel()
	n := newNode(t, framework.ControllerManager)
	n.up()
	c := framework.ControllerManager
	before := n.runs(c)
	if before.Restarts != 0 || before.Held || before.StartTicks == 0 || time.Since(before.Started) > time.Minute {
		t.Errorf("at first it is %+v", before)
	}
	must(t, n.Kill(t.Context(), c, 0))
	after := n.runs(c)
	if after.PID == before.PID || after.Restarts != 1 || after.LastExit != "signal: killed" || after.Held {
		t.Errorf("killed, it is %+v; before %+v", after, before)
	}

	must(t, n.Kill(t.Context(), c, time.Hour))
	held := n.process(c)
	if held.PID != 0 || !held.Held {
		t.Errorf("held down, it is %+v", held)
	}
	refused(t, n.Kill(t.Context(), c, time.Hour))
	refused(t, n.Stop(t.Context(), c, time.Hour))
	refused(t, n.Freeze(t.Context(), c, time.Hour))
	refused(t, n.CrashLoop(t.Context(), c, 0, time.Hour))
	time.Sleep(100 * time.Millisecond)
	if p := n.process(c); p.PID != 0 || p.StartTicks != 0 {
		t.Errorf("held down, it was started: %+v", p)
	}
	must(t, n.Start(t.Context(), c))
	if p := n.runs(c); p.Held || p.Restarts != 2 {
		t.Errorf("started, it is %+v", p)
	}
	p := n.process(c)
	must(t, n.Start(t.Context(), c))
	time.Sleep(50 * time.Millisecond)
	if q := n.process(c); q.PID != p.PID {
		t.Errorf("one that runs was started: %+v, before %+v", q, p)
	}
	if err := n.Kill(t.Context(), etcdPod, 0); err == nil || !strings.Contains(err.Error(), "no component") {
		t.Errorf("killing what is not there: %v", err)
	}
}

func TestHoldExpires(t *testing.T) {
	t.Parallel()
	n := newNode(t, scheduler)
	n.up()
	n.runs(scheduler)
	must(t, n.Kill(t.Context(), scheduler, n.beyond(300*time.Millisecond)))
	if p := n.process(scheduler); p.PID != 0 || !p.Held {
		t.Errorf("held down, it is %+v", p)
	}
	if p := n.runs(scheduler); p.Held || p.Restarts != 1 {
		t.Errorf("the hold being over, it is %+v", p)
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	n := newNode(t, scheduler)
	n.up()
	n.runs(scheduler)
	must(t, n.Stop(t.Context(), scheduler, 0))
	if p := n.runs(scheduler); p.LastExit != "signal: terminated" || p.Restarts != 1 {
		t.Errorf("stopped, it is %+v", p)
	}
	must(t, n.Stop(t.Context(), scheduler, n.beyond(300*time.Millisecond)))
	if p := n.process(scheduler); p.PID != 0 || !p.Held || p.LastExit != "signal: terminated" {
		t.Errorf("held down, it is %+v", p)
	}
	if p := n.runs(scheduler); p.Held {
		t.Errorf("the hold being over, it is %+v", p)
	}
}

func TestFreeze(t *testing.T) {
	t.Parallel()
	n := newNode(t, etcdPod)
	n.up()
	before := n.runs(etcdPod)
	refused(t, n.Freeze(t.Context(), etcdPod, 0))
	must(t, n.Freeze(t.Context(), etcdPod, time.Hour))
	eventually(t, "it is frozen", func() bool { return n.process(etcdPod).State == "T" })
	refused(t, n.Freeze(t.Context(), etcdPod, time.Hour))
	must(t, n.Thaw(t.Context(), etcdPod))
	must(t, n.Thaw(t.Context(), etcdPod))
	if p := n.runs(etcdPod); p.PID != before.PID {
		t.Errorf("thawed, it is %+v; before %+v", p, before)
	}
	must(t, n.Freeze(t.Context(), etcdPod, n.beyond(300*time.Millisecond)))
	eventually(t, "it is frozen", func() bool { return n.process(etcdPod).State == "T" })
	if p := n.runs(etcdPod); p.PID != before.PID {
		t.Errorf("its time being over, it is %+v; before %+v", p, before)
	}
}

// stuck is a component whose back-off does not end at first.
type stuck struct {
	unstoppable
	tries int
}

func (s *stuck) hurry(context.Context) error {
	if s.tries++; s.tries == 1 {
		return errors.New("the disk is full")
	}
	return nil
}

// TestCrashLoopEnds: the end of a crash loop is tried again until the back-off is over, too.
func TestCrashLoopEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, err := newAgent(Config{Socket: filepath.Join(dir, "run", "agent.sock"), Dir: filepath.Join(dir, "state"),
		Components: []Component{{Name: scheduler, Command: "scheduler-" + filepath.Base(dir) + "-of-no-one"}}})
	must(t, err)
	defer a.close()
	w := a.watchers[scheduler]
	w.mu.Lock()
	w.keep = &stuck{}
	w.note(func(st *componentState) { st.CrashUntil = time.Now().Add(time.Hour) })
	w.mu.Unlock()
	if err := w.endCrashLoop(t.Context()); err == nil {
		t.Error("the back-off has not ended, and the crash loop has")
	}
	until := func() time.Time {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.saved().CrashUntil
	}
	if u := until(); u.IsZero() || u.After(time.Now()) {
		t.Errorf("it is in a crash loop until %v", u)
	}
	eventually(t, "the crash loop is over", func() bool { return until().IsZero() })
}

func TestCrashLoop(t *testing.T) {
	t.Parallel()
	n := newNode(t, scheduler)
	n.up()
	n.runs(scheduler)
	must(t, n.CrashLoop(t.Context(), scheduler, 50*time.Millisecond, time.Hour))
	refused(t, n.CrashLoop(t.Context(), scheduler, 0, time.Hour))
	eventually(t, "it was killed three times", func() bool { return n.process(scheduler).Restarts >= 3 })
	if p := n.process(scheduler); !p.CrashLooped || p.LastExit != "signal: killed" {
		t.Errorf("in a crash loop, it is %+v", p)
	}
	must(t, n.EndCrashLoop(t.Context(), scheduler))
	must(t, n.EndCrashLoop(t.Context(), scheduler))
	stays(t, n, scheduler)

	must(t, n.CrashLoop(t.Context(), scheduler, 50*time.Millisecond, 400*time.Millisecond))
	eventually(t, "the crash loop is over", func() bool { return !n.process(scheduler).CrashLooped })
	stays(t, n, scheduler)
}

// stays shows that nothing ends a component any more.
func stays(t *testing.T, n *testNode, c framework.Component) {
	t.Helper()
	eventually(t, "it runs on", func() bool {
		p := n.runs(c)
		time.Sleep(200 * time.Millisecond)
		return n.process(c).PID == p.PID
	})
}

// TestDeadMan kills the agent in the middle of each fault on processes. Its successor keeps it
// active and ends it in time, or immediately if its time is over.
func TestDeadMan(t *testing.T) {
	t.Parallel()
	held, frozen, looping := framework.APIServer, framework.Etcd, framework.Scheduler
	for _, late := range []bool{false, true} {
		n := newNode(t, held, frozen, looping)
		n.up()
		ttl := n.beyond(2 * time.Second)
		if late {
			ttl = 500 * time.Millisecond
		}
		before := map[framework.Component]framework.Process{}
		for _, c := range []framework.Component{held, frozen, looping} {
			before[c] = n.runs(c)
		}
		must(t, n.Freeze(t.Context(), frozen, ttl))
		must(t, n.Kill(t.Context(), held, ttl))
		must(t, n.CrashLoop(t.Context(), looping, 50*time.Millisecond, ttl))
		n.kill()
		if late {
			time.Sleep(ttl)
		}
		n.up()
		if p := n.process(frozen); !late && p.State != "T" || p.PID != before[frozen].PID || p.Restarts != 0 {
			t.Errorf("late %v: the successor finds %+v frozen", late, p)
		}
		if p := n.process(held); !late && (p.PID != 0 || !p.Held) || late && p.Held {
			t.Errorf("late %v: the successor finds %+v held down", late, p)
		}
		if p := n.process(looping); p.CrashLooped == late {
			t.Errorf("late %v: the successor finds %+v in a crash loop", late, p)
		}
		if !late {
			refused(t, n.Freeze(t.Context(), frozen, ttl))
			refused(t, n.Kill(t.Context(), held, ttl))
			refused(t, n.CrashLoop(t.Context(), looping, 0, ttl))
		}
		if p := n.runs(frozen); p.PID != before[frozen].PID {
			t.Errorf("late %v: thawed, it is %+v, was %+v", late, p, before[frozen])
		}
		if p := n.runs(held); p.Restarts != 1 {
			t.Errorf("late %v: no more held down, it is %+v", late, p)
		}
		eventually(t, "the crash loop is over", func() bool { return !n.process(looping).CrashLooped })
		stays(t, n, looping)
	}
}

// TestNodeRestarts shows that faults on processes do not outlive a restart of the
// node, and that it counts as a restart of each component: the kubelet backs off from the next.
func TestNodeRestarts(t *testing.T) {
	t.Parallel()
	n := newNode(t, scheduler, etcdPod)
	n.up()
	n.runs(etcdPod)
	n.runs(scheduler)
	must(t, n.CrashLoop(t.Context(), etcdPod, time.Hour, time.Hour))
	must(t, n.Kill(t.Context(), scheduler, time.Hour))
	n.kill()
	n.restarted()
	n.up()
	for _, c := range []framework.Component{scheduler, etcdPod} {
		if p := n.runs(c); p.Held || p.CrashLooped || p.Restarts == 0 || p.LastExit != "" {
			t.Errorf("after the restart of its node it is %+v", p)
		}
	}
}

// TestUnit kills the process of a systemd unit, and stops the unit again if it is started during the
// hold, by a unit that requires it. A stand-in for systemctl records its arguments.
func TestUnit(t *testing.T) {
	bin, told := t.TempDir(), filepath.Join(t.TempDir(), "told")
	script := "#!/bin/sh\necho \"$@\" >>" + told + "\n"
	must(t, os.WriteFile(filepath.Join(bin, "systemctl"), []byte(script), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	n := newNode(t)
	n.config.Components = []Component{{Name: framework.NodeAgent, Command: "kubelet", Unit: "kubelet.service"}}
	n.up()
	start := func() {
		cmd := sleeper(t, "kubelet")
		must(t, cmd.Start())
		go func() { _ = cmd.Wait() }()
		t.Cleanup(func() { _ = cmd.Process.Kill() })
	}
	start()
	n.runs(framework.NodeAgent)
	must(t, n.Kill(t.Context(), framework.NodeAgent, time.Hour))
	requests := func() []string {
		b, err := os.ReadFile(told)
		must(t, err)
		return strings.Split(strings.TrimSpace(string(b)), "\n")
	}
	start()
	eventually(t, "it is stopped again", func() bool { return len(requests()) == 2 })
	must(t, n.Start(t.Context(), framework.NodeAgent))
	start()
	n.runs(framework.NodeAgent)
	must(t, n.Kill(t.Context(), framework.NodeAgent, 0))
	const stop = "stop --job-mode=ignore-requirements kubelet.service"
	want := []string{stop, stop, "reset-failed kubelet.service", "start --no-block kubelet.service"}
	if got := requests(); !slices.Equal(got, want) {
		t.Errorf("systemctl was told %q, want %q", got, want)
	}
}

// TestUnknownUnit: if systemd can neither stop nor start a component, what else starts it is not killed.
func TestUnknownUnit(t *testing.T) {
	bin := t.TempDir()
	must(t, os.WriteFile(filepath.Join(bin, "systemctl"), []byte("#!/bin/sh\nexit 5\n"), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	n := newNode(t)
	name := fmt.Sprint("kubelet-", nodes.Add(1))
	supervised(t, name, "3")
	n.config.Components = []Component{{Name: framework.NodeAgent, Command: name, Unit: "kubelet.service"}}
	n.up()
	before := n.runs(framework.NodeAgent)
	if err := n.Kill(t.Context(), framework.NodeAgent, time.Hour); err == nil || !strings.Contains(err.Error(), "systemctl stop") {
		t.Errorf("it is held down: %v", err)
	}
	if left, err := n.Active(t.Context()); err != nil || len(left) == 0 {
		t.Errorf("before it runs again, active are %q, %v", left, err)
	}
	n.inactive()
	stays(t, n, framework.NodeAgent)
	if p := n.runs(framework.NodeAgent); p.PID == before.PID || p.Restarts != 1 {
		t.Errorf("it is %+v, and was %+v", p, before)
	}
}

// inPod makes a process look as if it ran in a pod that the API server created.
func inPod(t *testing.T, pid int, uid string) {
	t.Helper()
	groups, shown := filepath.Join(t.TempDir(), "cgroup"), filepath.Join("/proc", fmt.Sprint(pid), "cgroup")
	write(t, groups, "0::/kubepods/besteffort/pod"+uid+"/5f70bf18a086\n")
	if err := unix.Mount(groups, shown, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("mounting on %s: %v", shown, err)
	}
	t.Cleanup(func() { _ = unix.Unmount(shown, unix.MNT_DETACH) })
}

// TestSecondProgram: a pod of the API that runs the program of a component is not the component, unless
// its manifest has the UID.
func TestSecondProgram(t *testing.T) {
	t.Parallel()
	const uid = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
	dir, name := t.TempDir(), fmt.Sprint("scheduler-of-two-", nodes.Add(1))
	c := Component{Name: scheduler, Command: name, Parent: filepath.Base(procfs.Arguments("/proc", os.Getpid())[0]), Manifest: filepath.Join(dir, "kube-scheduler.yaml")}
	write(t, c.Manifest, fmt.Sprintf(testManifest, scheduler))
	cmd := sleeper(t, name)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	finds := func() bool {
		p, err := findProcess(c)
		must(t, err)
		if p != nil {
			p.close()
		}
		return p != nil
	}
	eventually(t, "it is found", finds)
	inPod(t, cmd.Process.Pid, uid)
	if finds() {
		t.Error("the process of another pod is found")
	}
	static := c.Manifest
	c.Manifest = ""
	if finds() {
		t.Error("the process of a pod is found as that of a component without one")
	}
	c.Manifest = static
	write(t, c.Manifest, "metadata: {uid: "+uid+"}\n")
	if !finds() {
		t.Error("the process of a static pod with a UID of its own is not found")
	}
}

// TestStray holds down a component whose starter cannot be stopped, as in the load balancer's
// container.
func TestStray(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.config.Components = []Component{{Name: framework.LoadBalancer, Command: "stray-envoy"}}
	n.up()
	start := func() *exec.Cmd {
		cmd := sleeper(t, "/usr/bin/stray-envoy")
		must(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return cmd
	}
	first := start()
	n.runs(framework.LoadBalancer)
	must(t, n.Kill(t.Context(), framework.LoadBalancer, time.Hour))
	_ = first.Wait()
	second := start()
	_ = second.Wait()
	if ws := second.ProcessState.Sys().(syscall.WaitStatus); ws.Signal() != syscall.SIGKILL {
		t.Errorf("what is started while it is held down ends by %v", ws)
	}
	must(t, n.Start(t.Context(), framework.LoadBalancer))
	third := start()
	n.runs(framework.LoadBalancer)
	stays(t, n, framework.LoadBalancer)
	must(t, third.Process.Kill())
	_ = third.Wait()
}

// TestConnect joins standard streams to the socket of an agent.
func TestConnect(t *testing.T) {
	t.Parallel()
	n := newNode(t, scheduler)
	n.up()
	in, inWriter, err := os.Pipe()
	must(t, err)
	outReader, out, err := os.Pipe()
	must(t, err)
	done := make(chan error, 1)
	go func() {
		done <- connect([]string{n.config.Socket}, in, out)
		_ = out.Close()
	}()
	_, err = inWriter.WriteString("GET /ping HTTP/1.0\r\n\r\n")
	must(t, err)
	buf := make([]byte, 64)
	k, err := outReader.Read(buf)
	if err != nil || !strings.HasPrefix(string(buf[:k]), "HTTP/1.0 200") {
		t.Errorf("answered %q, %v", buf[:k], err)
	}
	must(t, inWriter.Close())
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := connect([]string{n.config.Socket + ".none"}, in, out); err == nil {
		t.Error("connected to a socket that is not there")
	}
}

// TestFused does to one component what hits those of the same process, too.
func TestFused(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	supervised(t, "k3s server", "0.05")
	n.config.Components = []Component{{Name: etcdPod, Command: "k3s server", With: []framework.Component{framework.APIServer, scheduler}}}
	n.up()
	all := []framework.Component{etcdPod, framework.APIServer, scheduler}
	before := n.runs(etcdPod)
	for _, c := range all {
		if p := n.runs(c); p.PID != before.PID || p.Component != c {
			t.Errorf("%s is %+v, and etcd %+v", c, p, before)
		}
	}
	must(t, n.Kill(t.Context(), scheduler, time.Hour))
	for _, c := range all {
		if p := n.process(c); p.PID != 0 || !p.Held {
			t.Errorf("%s is %+v after the kill of the scheduler", c, p)
		}
	}
	refused(t, n.Kill(t.Context(), framework.APIServer, time.Hour))
	must(t, n.Start(t.Context(), framework.APIServer))
	for _, c := range all {
		if p := n.runs(c); p.Held || p.PID == before.PID {
			t.Errorf("%s is %+v after the start of the API server", c, p)
		}
	}
	must(t, n.Freeze(t.Context(), framework.APIServer, time.Hour))
	eventually(t, "the scheduler is frozen with the API server", func() bool { return n.process(scheduler).State == "T" })
	must(t, n.Thaw(t.Context(), scheduler))
	eventually(t, "etcd is thawed with the scheduler", func() bool { return n.process(etcdPod).State != "T" })
}

// TestKeep kills an agent that no systemd starts again.
func TestKeep(t *testing.T) {
	t.Parallel()
	n := newNode(t, scheduler)
	n.up()
	n.kill()
	exe, err := os.Executable()
	must(t, err)
	keep := &exec.Cmd{Path: exe, Args: []string{roleKeep, n.file}, Env: os.Environ(), Stdout: os.Stdout,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
	must(t, keep.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-keep.Process.Pid, syscall.SIGKILL)
		_ = keep.Wait()
	})
	last := 0
	for range 2 {
		eventually(t, "another agent answers", func() bool {
			pids, err := procfs.Find("/proc", func(args []string) bool { return slices.Equal(args, []string{roleAgent, n.file}) })
			if err != nil || len(pids) != 1 || pids[0] == last || n.Ping(t.Context()) != nil {
				return false
			}
			last = pids[0]
			return true
		})
		must(t, syscall.Kill(last, syscall.SIGKILL))
	}
}
