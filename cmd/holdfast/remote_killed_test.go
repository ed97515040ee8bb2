package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// endInside kills processes on a node by name, as the kernel has it.
func (f *foreign) endInside(node string, names ...string) {
	f.t.Helper()
	script := fmt.Sprintf(`for p in /proc/[0-9]*; do
	case "$(tr '\0' ' ' <$p/cmdline)" in %s) kill -9 ${p#/proc/};; esac
done 2>/dev/null
true
`, strings.Join(names, "|"))
	f.do(exitPass, f.onNode(node, f.write("end.sh", script))...)
}

// controlPath is where the arguments of ssh have the directory of its shared connections.
var controlPath = regexp.MustCompile(`ControlPath=(\S*/hf-ssh-[^/]*)/`)

// endSSH kills the ssh processes that this test started, with those that hold shared connections.
func (f *foreign) endSSH() (killed int) {
	f.t.Helper()
	all, _ := filepath.Glob("/proc/[0-9]*/comm")
	ours, lines := f.dir, map[int]string{}
	for _, file := range all {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		args, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if name, _ := os.ReadFile(file); err != nil || string(name) != "ssh\n" {
			continue
		}
		lines[pid] = strings.ReplaceAll(string(args), "\x00", " ")
		if found := controlPath.FindStringSubmatch(lines[pid]); found != nil && strings.Contains(lines[pid], f.dir) {
			ours = found[1]
		}
	}
	for pid, line := range lines {
		if (strings.Contains(line, f.dir) || strings.Contains(line, ours)) && syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed++
		}
	}
	return killed
}

// killAll kills every process of a run, by its results directory.
func (f *foreign) killAll(dir string) {
	f.t.Helper()
	killed := 0
	dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range dirs {
		args, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(args), dir) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed++
		}
	}
	if killed < 2 {
		f.t.Errorf("%d processes of the run were killed, want the command and its worker", killed)
	}
}

// endBeside kills the processes of a mode on a node, ssh, or the node itself.
func (f *foreign) endBeside(mode, node string) {
	f.t.Helper()
	switch mode {
	case killNode:
		f.do(exitPass, f.inEngine("export HOLDFAST_NODE="+node+"\n"+bedPowerOff+"\n"+bedPowerOn)...)
	case killSSH:
		if f.endSSH() == 0 {
			f.t.Error("no ssh runs")
		}
	case killAgent:
		f.endInside(node, "'holdfast-node-agent '*")
	case killKeeper:
		f.endInside(node, "*holdfast-node-keep*", "*holdfast-node-agent*")
	case killGuard:
		f.endInside(node, "*/etc/holdfast/guard.sh*", "*holdfast-node-keep*", "*holdfast-node-agent*")
	}
}

// TestClusterKilled kills the harness at a random point during faults, and with it ssh, the
// agent, or the agent's keeper. The nodes undo the fault as soon as the leash of their agents
// allows, whatever its own time to live, and nothing is left on them and in the cluster. Faults
// that could not be undone are refused.
//
// A trial depends on the seed and on its number alone: with killSeed and killTrials set,
// -run ClusterKilled/^7: repeats one.
func TestClusterKilled(t *testing.T) {
	t.Parallel()
	seed, kills := seedOf(t), killsOf(t, 2)
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte(smallQuota), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newForeign(t, "--file", file)
	f.likeOthers()
	f.consent("process,network,data")
	f.trials(seed, kills, killModes)
}

// trials makes trials, one after the other.
func (f *foreign) trials(seed uint64, kills int, modes []string) {
	t := f.t.(*testing.T)
	t.Logf("seed %d", seed)
	before := f.states()
	for _, x := range killTrialsOf(seed, kills, modes) {
		passed := t.Run(x.String(), func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("failed: trial %s (seed %d); to repeat it: %s=%d %s=%d and -run '/^%d:'", x, seed, killSeed, seed, killTrials, x.n+1, x.n)
				}
			}()
			f.in(t).interrupt(x, before)
		})
		if !passed && !f.recovers(before) {
			t.Fatalf("trial %s (seed %d) left the cluster broken, so that no other follows", x, seed)
		}
	}
}

// in returns f for a subtest.
func (f *foreign) in(t *testing.T) *foreign {
	part := *f
	part.t = t
	return &part
}

// recovers releases the nodes after a trial that failed, and reports whether all is as before soon.
func (f *foreign) recovers(before map[string]string) bool {
	f.t.Helper()
	said, _ := f.try(f.inside("inventory", "release", f.inventory)...)
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(2 * time.Second) {
		left := ""
		for name, state := range before {
			left += differing(state, f.stateOf(name))
		}
		if ready, _ := f.ready(); left == "" && ready {
			return true
		}
		if time.Now().After(deadline) {
			f.t.Logf("%s\nthere was (-) and there is (+):\n%s", said, left)
			return false
		}
	}
}

// interrupt starts a run with one fault, kills it while the fault is active, and waits until the
// nodes and the cluster are back in their earlier state.
func (f *foreign) interrupt(x killTrial, before map[string]string) {
	t := f.t.(*testing.T)
	t.Helper()
	if x.fault.prepare != nil {
		if f.engine != "" {
			t.Skip("the node's disk cannot be prepared for it")
		}
		t.Cleanup(x.fault.prepare(f))
		before = f.states()
	}
	everything := append(f.nodes(), theCluster)
	victim := f.nodes()[1]
	scenario := f.write("trial.yaml", x.fault.scenario())
	out := filepath.Join(f.dir, fmt.Sprintf("trial-%d", x.n))
	args := f.inside("run", "--inventory", f.inventory, "--out", out, "-f", scenario)
	if x.fault.refused != "" {
		f.refuses(x.fault, out, args)
		f.awaitBefore(before, time.Now(), 2*time.Minute, everything...)
		return
	}
	over := f.startRun(args, record.Dir(out, "trial"))
	f.keptSnapshot(out)
	if x.fault.second { // it gets as far as the agents
		f.secondRun(scenario, out)
	}
	watched := f.nodes()
	if x.mode == killNode {
		watched = slices.DeleteFunc(watched, func(node string) bool { return node == victim })
	}
	undone := f.awaitUndone(x.after+x.limit()+time.Minute, watched...)
	time.Sleep(x.after)
	if x.mode != killNode {
		f.endBeside(x.mode, victim)
	}
	f.killAll(out)
	killed, at := time.Now(), uptime(t)
	<-over
	if x.mode == killNode {
		f.endBeside(x.mode, victim)
		others := undone
		undone = func() time.Duration { return max(others(), f.awaitUndone(x.limit()+time.Minute, victim)()) }
	}

	if x.mode == killGuard {
		f.do(exitPass, f.inside("inventory", "release", f.inventory)...)
	}
	limit := x.limit()
	if os.Getenv(killTrials) == "" {
		limit += besideOthers
	}
	switch took := undone() - at; {
	case took <= 0:
		t.Error("no fault was active any more when the harness was killed")
	case took > limit:
		t.Errorf("the fault was active for %s after the harness was killed, want %s at most", took.Round(100*time.Millisecond), limit)
	default:
		t.Logf("the fault was active for %s after the harness was killed, of %s allowed", took.Round(100*time.Millisecond), limit)
	}
	for {
		ready, problems := f.ready()
		state := f.stateOf(victim)
		if ready && !strings.Contains(state, "stopped: ") {
			break
		}
		if time.Since(killed) > 3*time.Minute {
			t.Fatalf("not healed %s after the harness was killed: %q\n%s", time.Since(killed).Round(time.Second), problems, differing(before[victim], state))
		}
		time.Sleep(500 * time.Millisecond)
	}
	t.Logf("ready and nothing stopped %s after the harness was killed", time.Since(killed).Round(100*time.Millisecond))
	if x.mode == killKeeper { // only the guard is left on the node
		f.awaitBefore(before, killed, 3*time.Minute, victim)
	}
	if x.guards { // they clear the nodes; only a release deletes the run's namespaces
		f.awaitBefore(before, killed, 5*time.Minute, f.nodes()...)
	}
	f.do(exitPass, f.inside("inventory", "release", f.inventory)...)
	f.awaitBefore(before, killed, 5*time.Minute, everything...)
}

// startRun starts a run, and returns once a fault is active by the record in a directory. The channel
// that it returns is closed when the run is over.
func (f *foreign) startRun(args []string, dir string) (over chan struct{}) {
	t := f.t
	t.Helper()
	cmd := f.command(args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	over = make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(over)
	}()
	t.Cleanup(func() {
		select {
		case <-over:
		default: // the trial failed before it killed the run
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
	})
	for began := time.Now(); time.Since(began) < activeLimit; time.Sleep(200 * time.Millisecond) {
		seen, err := record.Read(dir)
		switch {
		case err != nil || len(seen.Faults) == 0:
		case seen.Faults[0].V.Missing != "": // such as packets through user space, by the kernel
			<-over
			t.Skipf("it cannot be injected here: %s", seen.Faults[0].V.Error)
		case !seen.Faults[0].V.Proven:
			t.Fatalf("the fault has no proof: %s %s", seen.Faults[0].V.Proof, seen.Faults[0].V.Error)
		default:
			t.Logf("active %s after the run began", time.Since(began).Round(100*time.Millisecond))
			return over
		}
		select {
		case <-over:
			t.Fatalf("the run is over:\n%s", said.String())
		default:
		}
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	<-over
	t.Fatalf("nothing was broken within %s:\n%s", activeLimit, said.String())
	return nil
}

// refuses runs a scenario whose fault the cluster cannot have, and checks that it is not injected.
func (f *foreign) refuses(one interruptedFault, out string, args []string) {
	f.t.Helper()
	text, code := f.try(args...)
	if code != exitPass && code != exitInconclusive {
		f.t.Errorf("exit code %d", code)
	}
	seen, err := record.Read(record.Dir(out, "trial"))
	if err != nil {
		f.t.Fatalf("%v\n%s", err, text)
	}
	if len(seen.Faults) != 1 || seen.Faults[0].V.Missing != one.refused || seen.Faults[0].V.Phase != record.FaultFailed {
		f.t.Errorf("%s is recorded as %+v, want it refused for want of the ability %s\n%s", one, seen.Faults, one.refused, text)
	} else {
		f.t.Log(seen.Faults[0].V.Error)
	}
}

// secondRun tries to run beside a run with an active fault, and checks that it leaves the fault
// alone.
func (f *foreign) secondRun(scenario, first string) {
	f.t.Helper()
	text, code := "", exitInconclusive
	// In the middle of a fault the API may fail before holdfast queries the agents.
	for i := 0; i < 5 && code != exitPass && !strings.Contains(text, "another run"); i++ {
		text, code = f.try(f.inside("run", "--inventory", f.inventory, "--out", fmt.Sprintf("%s-second-%d", first, i), "-f", scenario)...)
		time.Sleep(time.Second)
	}
	if code == exitPass || !strings.Contains(text, "another run of holdfast used the agent on ") {
		f.t.Errorf("a second run beside the first: exit code %d\n%s", code, text)
	}
	seen, err := record.Read(record.Dir(first, "trial"))
	if err != nil || len(seen.Faults) != 1 || seen.Faults[0].V.Phase != record.FaultInjected {
		f.t.Errorf("the first run has %+v, %v", seen.Faults, err)
	}
	if text, _ := f.do(exitPass, f.onNode(f.nodes()[1], f.write("promised.sh", "cat /var/lib/holdfast/state.json"))...); !strings.Contains(text, "Until") && !strings.Contains(text, "thawAt") && !strings.Contains(text, "until") {
		f.t.Errorf("nothing is active any more on %s:\n%s", f.nodes()[1], text)
	}
}

// keptSnapshot checks that a run kept an etcd snapshot that only its owner can read.
func (f *foreign) keptSnapshot(out string) {
	f.t.Helper()
	all, _ := filepath.Glob(filepath.Join(out, "etcd-snapshots", "*.db"))
	if len(all) != 1 {
		f.t.Fatalf("the run has kept the snapshots %q, want one", all)
	}
	info, err := os.Stat(all[0])
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() == 0 {
		f.t.Errorf("%s: %v, %v", all[0], info.Mode(), err)
	}
}
