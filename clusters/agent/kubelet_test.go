package agent

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/procfs"
)

// kubelet is a stand-in for a kubelet with its container runtime. It creates a sandbox for each
// manifest in a directory and has its shim start the pod's process, and restart it when the
// shim reports its exit. When the manifest is gone or has changed it ends the sandbox, and
// creates another one only after that.
type kubelet struct {
	dir    string
	suffix string                 // of the names of processes
	pods   map[string]*podSandbox // by file
	// backsOff has it restart nothing for a while. The first process of a pod starts.
	backsOff atomic.Bool
	// deaf has it take no notice of manifests for a while.
	deaf atomic.Bool
	// starts are how many processes were started.
	starts atomic.Int64
}

// podSandbox is one pod's, and lives as long as its shim.
type podSandbox struct {
	shim     *exec.Cmd
	told     io.WriteCloser // the shim is to start the process, and to end when it is closed
	manifest string
	idle     atomic.Bool // the shim has told that nothing runs
	started  bool        // a process, at least once
	gone     chan struct{}
}

func runKubelet(t *testing.T, dir, suffix string) *kubelet {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	k := &kubelet{dir: dir, suffix: suffix, pods: map[string]*podSandbox{}}
	done.Go(func() {
		for ctx.Err() == nil {
			k.sync(t)
			time.Sleep(10 * time.Millisecond)
		}
		for _, p := range k.pods {
			_ = p.shim.Process.Kill()
			<-p.gone
		}
	})
	t.Cleanup(func() { cancel(); done.Wait() })
	return k
}

// start has a process started where none runs.
func (k *kubelet) start(p *podSandbox) {
	if p.idle.Load() && !(p.started && k.backsOff.Load()) {
		p.started = true
		p.idle.Store(false)
		_, _ = p.told.Write([]byte("start\n"))
	}
}

func (k *kubelet) sync(t *testing.T) {
	if k.deaf.Load() {
		for _, p := range k.pods {
			k.start(p)
		}
		return
	}
	files, _ := filepath.Glob(filepath.Join(k.dir, "[^.]*.yaml"))
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		p := k.pods[file]
		switch {
		case p == nil:
			if p, err = k.sandbox(strings.TrimSuffix(filepath.Base(file), ".yaml"), string(b)); err != nil {
				t.Errorf("making a sandbox: %v", err)
				return
			}
			k.pods[file] = p
		case p.manifest != string(b):
			_ = p.told.Close()
			continue
		}
		k.start(p)
	}
	for file, p := range k.pods {
		if !slices.Contains(files, file) {
			_ = p.told.Close()
		}
		select {
		case <-p.gone:
			delete(k.pods, file)
		default:
		}
	}
}

// Of the stand-in for a shim: its name, and its output.
const (
	shimRole    = "stand-in-shim"
	shimStarted = "started"
	shimEnded   = "ended"
)

func (k *kubelet) sandbox(pod, manifest string) (*podSandbox, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &podSandbox{manifest: manifest, gone: make(chan struct{}),
		shim: &exec.Cmd{Path: exe, Args: []string{shimRole + k.suffix, pod + k.suffix}, Env: os.Environ(), Stderr: os.Stderr}}
	tells, err := p.shim.StdoutPipe()
	if err == nil {
		p.told, err = p.shim.StdinPipe()
	}
	if err == nil {
		err = p.shim.Start()
	}
	if err != nil {
		return nil, err
	}
	p.idle.Store(true)
	go func() {
		for told := bufio.NewScanner(tells); told.Scan(); {
			switch told.Text() {
			case shimStarted:
				k.starts.Add(1)
			case shimEnded:
				p.idle.Store(true)
			}
		}
		_ = p.shim.Wait()
		close(p.gone)
	}()
	return p, nil
}

// shimMain turns a copy of the test into a sandbox's shim, which does not return. Its
// process ends with it.
func shimMain() {
	if !strings.HasPrefix(filepath.Base(os.Args[0]), shimRole) {
		return
	}
	runtime.LockOSThread() // of which the process is a child, to the kernel
	path, err := exec.LookPath("sleep")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var last chan struct{}
	var cmd *exec.Cmd
	for told := bufio.NewScanner(os.Stdin); told.Scan(); {
		cmd = &exec.Cmd{Path: path, Args: []string{os.Args[1], "1000"}, SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}}
		if err := cmd.Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(shimStarted)
		ended := make(chan struct{})
		last = ended
		go func(cmd *exec.Cmd) {
			_ = cmd.Wait()
			fmt.Println(shimEnded)
			close(ended)
		}(cmd)
	}
	if last != nil {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-last
	}
	os.Exit(0)
}

// shims returns those of the node's pods.
func (n *testNode) shims() (all []shim) {
	n.t.Helper()
	pids, err := procfs.Find("/proc", func(args []string) bool { return args[0] == shimRole+n.kubelet.suffix })
	must(n.t, err)
	for _, pid := range pids {
		if s, ok := shimOf(pid, shimRole+n.kubelet.suffix); ok {
			all = append(all, s)
		}
	}
	return all
}

// shim returns the one of a node with one pod, as soon as there is just one.
func (n *testNode) shim() shim {
	n.t.Helper()
	var all []shim
	eventually(n.t, "there is one shim", func() bool { all = n.shims(); return len(all) == 1 })
	return all[0]
}

// TestHoldShim holds a pod down: its process ends, its shim is stopped, its manifest
// stays, and nothing is started until the shim continues.
func TestHoldShim(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]func(*testNode) error{
		"kill": func(n *testNode) error { return n.Kill(t.Context(), scheduler, time.Hour) },
		"stop": func(n *testNode) error { return n.Stop(t.Context(), scheduler, time.Hour) },
	} {
		n := newNode(t, scheduler)
		n.up()
		n.runs(scheduler)
		s := n.shim()
		if s.stopped() {
			t.Errorf("%s: the shim of a pod that runs is stopped", how)
		}
		m := manifest(n.config.Components[0].Manifest)
		before, err := os.ReadFile(m.path())
		must(t, err)
		must(t, end(n))
		if !s.stopped() || s.over() {
			t.Errorf("%s: the shim is not stopped", how)
		}
		if b, err := os.ReadFile(m.path()); err != nil || string(b) != string(before) {
			t.Errorf("%s: held down, the manifest is %q, %v", how, b, err)
		}
		starts := n.kubelet.starts.Load()
		time.Sleep(200 * time.Millisecond)
		if p := n.process(scheduler); p.PID != 0 || !p.Held || n.kubelet.starts.Load() != starts {
			t.Errorf("%s: held down, it is %+v, and was started %d times", how, p, n.kubelet.starts.Load()-starts)
		}
		must(t, n.Start(t.Context(), scheduler))
		if p := n.runs(scheduler); p.Held || p.Restarts != 1 {
			t.Errorf("%s: the hold being over, it is %+v", how, p)
		}
		if now := n.shim(); now != s || s.stopped() {
			t.Errorf("%s: the hold being over, its shim is %+v, was %+v; stopped: %v, over: %v", how, now, s, s.stopped(), s.over())
		}
		entries, err := os.ReadDir(filepath.Dir(m.path()))
		if err != nil || len(entries) != 1 {
			t.Errorf("%s: left beside the manifest: %v, %v", how, entries, err)
		}
	}
}

// TestHoldEnds quickly notices the exit of a process that is not reaped.
func TestHoldEnds(t *testing.T) {
	t.Parallel()
	n := newNode(t, scheduler)
	n.up()
	fastest := patience
	for range 3 {
		n.runs(scheduler)
		began := time.Now()
		must(t, n.Kill(t.Context(), scheduler, time.Hour))
		fastest = min(fastest, time.Since(began))
		var s componentState
		n.state(func(st *state) { s = *st.Components[scheduler] })
		if s.PID != 0 || s.LastExit != "signal: killed" || !slices.Equal(s.Stopped, []shim{n.shim()}) {
			t.Errorf("held down, what is known is %+v", s)
		}
		must(t, n.Start(t.Context(), scheduler))
	}
	if fastest >= reapLimit {
		t.Errorf("it takes %s to tell that it has ended", fastest)
	}
	n.runs(scheduler)
	n.state(func(st *state) {
		if s := st.Components[scheduler]; len(s.Stopped) > 0 || s.Restarts != 3 {
			t.Errorf("after the holds, what is known is %+v", s)
		}
	})
}

// state shows the state as the agent has written it down.
func (n *testNode) state(look func(*state)) {
	n.t.Helper()
	s, err := openStore(n.config.Dir)
	must(n.t, err)
	s.read(look)
}

// TestHoldBackOff holds a component down that does not run at the moment. What is to
// start it waits.
func TestHoldBackOff(t *testing.T) {
	t.Parallel()
	n := newNode(t, scheduler)
	n.up()
	n.runs(scheduler)
	s := n.shim()
	n.kubelet.backsOff.Store(true)
	must(t, n.Kill(t.Context(), scheduler, 0))
	eventually(t, "it is down", func() bool { return n.process(scheduler).PID == 0 })
	starts := n.kubelet.starts.Load()
	must(t, n.Kill(t.Context(), scheduler, time.Hour))
	if !s.stopped() {
		t.Error("the shim is not stopped")
	}
	n.kubelet.backsOff.Store(false)
	time.Sleep(200 * time.Millisecond)
	if p := n.process(scheduler); p.PID != 0 || !p.Held || n.kubelet.starts.Load() != starts {
		t.Errorf("held down, it is %+v, and was started %d times", p, n.kubelet.starts.Load()-starts)
	}
	must(t, n.Start(t.Context(), scheduler))
	if p := n.runs(scheduler); p.Held || p.Restarts != 1 {
		t.Errorf("the hold being over, it is %+v", p)
	}
}

// TestHoldBackOffEnds: a component that the kubelet backs off from after a hold is started when it
// has been down for longer than the kubelet's first back-off. One that was started since, and
// exited again, is left to the kubelet.
func TestHoldBackOffEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for startPatience")
	}
	t.Parallel()
	down := func(again bool) (*testNode, time.Time) {
		n := newNode(t, scheduler)
		n.up()
		n.runs(scheduler)
		must(t, n.Kill(t.Context(), scheduler, time.Hour))
		n.kubelet.backsOff.Store(!again)
		began := time.Now()
		must(t, n.Start(t.Context(), scheduler))
		if again {
			n.runs(scheduler)
			n.kubelet.backsOff.Store(true)
			must(t, n.Kill(t.Context(), scheduler, 0))
		}
		return n, began
	}
	runs := func(n *testNode) bool { return n.process(scheduler).PID != 0 }
	// Not subtests: each would wait for its turn among the parallel tests.
	started, startedAt := down(false)
	left, leftAt := down(true)
	time.Sleep(time.Until(startedAt.Add(startPatience - time.Second)))
	if runs(started) && time.Since(startedAt) < startPatience {
		t.Fatal("it runs before its time")
	}
	for ; !runs(started); time.Sleep(50 * time.Millisecond) {
		if time.Since(startedAt) > startPatience+35*time.Second { // a busy machine may take longer
			t.Fatalf("it does not run %s after its hold", time.Since(startedAt).Round(time.Second))
		}
	}
	time.Sleep(time.Until(leftAt.Add(startPatience + 5*time.Second)))
	if runs(left) {
		t.Error("one that exited again is started before the kubelet does it")
	}
}

// TestHoldSandbox ends the sandbox of a pod that is held down. Another one is made, and
// nothing stays in it.
func TestHoldSandbox(t *testing.T) {
	t.Parallel()
	n := newNode(t, etcdPod)
	n.up()
	n.runs(etcdPod)
	must(t, n.Kill(t.Context(), etcdPod, time.Hour))
	first := n.shim()
	must(t, first.signal(syscall.SIGKILL))
	eventually(t, "the shim of another sandbox is stopped", func() bool {
		all := n.shims()
		return len(all) == 1 && all[0] != first && all[0].stopped()
	})
	second := n.shim()
	time.Sleep(200 * time.Millisecond)
	if p := n.process(etcdPod); p.PID != 0 || !p.Held || p.Restarts != 0 || !second.stopped() {
		t.Errorf("held down, it is %+v", p)
	}
	must(t, n.Start(t.Context(), etcdPod))
	if p := n.runs(etcdPod); p.Held || p.Restarts != 1 || second.stopped() {
		t.Errorf("the hold being over, it is %+v", p)
	}
}

// TestShimDeadMan kills the agent while a shim is stopped.
func TestShimDeadMan(t *testing.T) {
	t.Parallel()
	held := func(least time.Duration) (*testNode, shim) {
		n := newNode(t, scheduler)
		n.up()
		n.runs(scheduler)
		must(t, n.Kill(t.Context(), scheduler, n.beyond(least)))
		s := n.shim()
		n.kill()
		if !s.stopped() {
			t.Error("the shim goes on with the agent's end")
		}
		return n, s
	}
	letGo := func(n *testNode, s shim, what string) {
		t.Helper()
		if p := n.runs(scheduler); p.Held || s.stopped() {
			t.Errorf("%s: it is %+v", what, p)
		}
	}

	// The hold is put into force again: that agent may not have come as far.
	n, s := held(4 * time.Second)
	n.kubelet.backsOff.Store(true)
	must(t, s.letGo())
	n.up()
	eventually(t, "the hold is active again", s.stopped)
	if p := n.process(scheduler); p.PID != 0 || !p.Held {
		t.Errorf("the successor finds %+v", p)
	}
	n.kubelet.backsOff.Store(false)
	letGo(n, s, "in time")

	n, s = held(time.Second)
	time.Sleep(n.beyond(time.Second))
	n.up()
	letGo(n, s, "late")

	// A state that is lost has no note of the shim.
	n, s = held(time.Hour)
	must(t, os.Remove(filepath.Join(n.config.Dir, "state.json")))
	n.up()
	letGo(n, s, "without a state")
}

// TestLetGo lets the shims of a node continue without an agent, by what the kernel calls
// them. It is not one of those that run at the same time: they stop theirs.
func TestLetGo(t *testing.T) {
	path, err := exec.LookPath("sleep")
	must(t, err)
	link := filepath.Join(t.TempDir(), shimName)
	must(t, os.Symlink(path, link))
	cmd := exec.Command(link, "1000")
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	var s shim
	eventually(t, "it runs", func() (ok bool) { s, ok = shimOf(cmd.Process.Pid, shimName); return ok })
	must(t, s.stop(t.Context()))
	if !s.stopped() {
		t.Fatal("it is not stopped")
	}
	if out, err := exec.Command("sh", "-c", letGoScript+"\ntrue").CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%s: %v", out, err)
	}
	if s.over() || s.stopped() {
		t.Error("it does not go on")
	}
	later := shim{PID: s.PID, StartTicks: s.StartTicks + 1}
	if err := later.stop(t.Context()); err != nil || s.stopped() {
		t.Errorf("another process of its number is stopped: %v", err)
	}
}

// TestHoldUnnoted holds nothing down that a successor would not know of.
func TestHoldUnnoted(t *testing.T) {
	t.Parallel()
	n := newNode(t, scheduler)
	n.up()
	before := n.runs(scheduler)
	must(t, os.Rename(n.config.Dir, n.config.Dir+".away"))
	write(t, n.config.Dir, "no directory")
	refused(t, n.Kill(t.Context(), scheduler, time.Hour))
	if p := n.process(scheduler); p.PID != before.PID || p.Held || n.shim().stopped() {
		t.Errorf("what cannot be noted is done all the same: %+v", p)
	}
}
