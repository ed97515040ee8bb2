package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// killTrials is the environment variable with the number of faults in which TestClusterKilled
// kills processes, and of the times that TestClusterCertify kills a certification.
const killTrials = "HOLDFAST_TEST_KILLS"

// killsOf returns the number in killTrials, or usual without one.
func killsOf(t *testing.T, usual int) int {
	text := os.Getenv(killTrials)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s=%s: want a number", killTrials, text)
	}
	return n
}

// nodeScript prints what a fault or an agent may change on a node: files, nftables, mounts,
// devices, and processes that are stopped or belong to holdfast. It omits what changes
// automatically.
const nodeScript = `find /usr/local/bin /etc/holdfast /run/holdfast /var/lib/holdfast /etc/systemd/system /etc/kubernetes /run/*.holdfast 2>/dev/null | sort
nft list ruleset
cat /proc/self/mounts
ls /sys/class/net
for p in /proc/[0-9]*; do
	read -r name <$p/comm || continue
	read -r stat <$p/stat && set -- ${stat##*) } && [ "$1" = T ] && echo "stopped: $name"
	case "$(tr '\0' ' ' <$p/cmdline)" in
	*holdfast-node-*|*/etc/holdfast/*) echo "of holdfast: $name";;
	*holdfast-etcd*|*kube-apiserver*|*kube-controller-manager*|*kube-scheduler*) echo "runs: $name";;
	esac
done 2>/dev/null | sort
true
`

// interruptedFaults has one fault of each kind that agents carry out.
var interruptedFaults = []struct{ fault, target, params string }{
	{"kill", "apiserver/2", ""},
	{"freeze", "etcd/2", ""},
	{"isolate", "node/2", "keep: harness"},
	{"crash-loop", "scheduler/2", "after: 500ms"},
	{"latency", "node/2", "delay: 50ms"},
	{"stop", "kcm/2", ""},
	{"loss", "node/2", "share: 30%"},
	{"disk-wipe", "etcd/2", ""},
}

// The processes that are killed in the middle of a fault, besides the harness.
var killModes = []string{
	"nothing else",
	"ssh",
	"the agent", // its keeper restarts it
	"the agent and what keeps it",
	"the agent, what keeps it and its guard", // nothing heals before the release
}

func (f *foreign) nodeState(node string) string {
	f.t.Helper()
	out, _ := f.do(exitPass, "shell", node, "--", "sh", f.write("node.sh", nodeScript))
	return out
}

// endInside kills processes on a node by name, as the kernel has it.
func (f *foreign) endInside(node string, names ...string) {
	f.t.Helper()
	script := fmt.Sprintf(`for p in /proc/[0-9]*; do
	case "$(tr '\0' ' ' <$p/cmdline)" in %s) kill -9 ${p#/proc/};; esac
done 2>/dev/null
true
`, strings.Join(names, "|"))
	f.do(exitPass, "shell", node, "--", "sh", f.write("end.sh", script))
}

// endSSH kills the ssh processes that this test started.
func (f *foreign) endSSH() (killed int) {
	f.t.Helper()
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range all {
		env, err := os.ReadFile(file)
		name, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "comm"))
		if err != nil || !bytes.Contains(env, []byte(f.run)) || string(name) != "ssh\n" {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed++
		}
	}
	return killed
}

// TestClusterKilled kills the harness at a random point during faults, and with it ssh, the
// agent, or the agent's keeper. The nodes heal long before the fault's time is over, and nothing
// is left on them.
func TestClusterKilled(t *testing.T) {
	t.Parallel()
	f := newForeign(t)
	trials := killsOf(t, 2)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	nodes := []string{"node-1", "node-2", "node-3"}
	before := map[string]string{}
	for _, n := range nodes {
		before[n] = f.nodeState(n)
	}
	f.consent("process,network,data")
	first := random.IntN(len(interruptedFaults))
	for i := range trials {
		one, mode := interruptedFaults[(first+i)%len(interruptedFaults)], killModes[i%len(killModes)]
		name := fmt.Sprintf("%d: %s of %s, killed with the harness: %s", i, one.fault, one.target, mode)
		if !t.Run(name, func(t *testing.T) { f.in(t).interrupt(i, one.fault, one.target, one.params, mode, random, before) }) {
			return
		}
	}
}

// in returns f for a subtest.
func (f *foreign) in(t *testing.T) *foreign {
	part := *f
	part.t = t
	return &part
}

// interrupt starts a run with one fault, kills it while the fault is active, and waits until the
// nodes are back in their earlier state.
func (f *foreign) interrupt(i int, fault, target, params, mode string, random *rand.Rand, before map[string]string) {
	t := f.t
	t.Helper()
	scenario := f.write("trial.yaml", `apiVersion: holdfast.dev/v1alpha1
kind: Scenario
metadata: {name: trial}
spec:
  summary: A fault during which the harness is killed.
  traffic: {off: true}
  timeline:
  - inject: {fault: `+fault+`, target: `+target+`, as: hit, params: {`+params+`}}
  - wait: 10m
  requirements:
  - {id: TRIAL-1, judge: linearizable}
`)
	out := filepath.Join(f.dir, fmt.Sprintf("trial-%d", i))
	cmd := f.command(f.inside("run", "--inventory", f.inventory, "--out", out, "-f", scenario)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(over)
	}()
	var hit *record.Fault
	for deadline := time.Now().Add(3 * time.Minute); hit == nil && time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if seen, err := record.Read(record.Dir(out, "trial")); err == nil && len(seen.Faults) > 0 {
			hit = &seen.Faults[0].V
		}
		select {
		case <-over:
			t.Fatalf("the run ended:\n%s", said.String())
		default:
		}
	}
	switch {
	case hit == nil:
		t.Errorf("nothing was broken")
	case hit.Missing != "":
		t.Logf("it cannot be injected here: %s", hit.Error)
	case !hit.Proven:
		t.Errorf("the fault has no proof: %s %s", hit.Proof, hit.Error)
	}
	f.keptSnapshot(out)
	// With these faults the second run gets as far as the agents.
	if slices.Contains([]string{"crash-loop", "latency", "stop", "loss"}, fault) {
		f.secondRun(scenario, out)
	}
	time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
	switch mode {
	case "ssh":
		if f.endSSH() == 0 {
			t.Error("no ssh runs")
		}
	case "the agent":
		f.endInside("node-2", "'holdfast-node-agent '*")
	case "the agent and what keeps it":
		f.endInside("node-2", "*holdfast-node-keep*", "*holdfast-node-agent*")
	case "the agent, what keeps it and its guard":
		f.endInside("node-2", "*/etc/holdfast/guard.sh*", "*holdfast-node-keep*", "*holdfast-node-agent*")
	}
	f.killAll(out)
	<-over
	killed := time.Now()

	if mode == "the agent, what keeps it and its guard" {
		f.do(exitPass, f.inside("inventory", "release", f.inventory)...)
	}
	healed := func() bool { return f.status().Ready && !strings.Contains(f.nodeState("node-2"), "stopped: ") }
	for !healed() && time.Since(killed) < 3*time.Minute {
		time.Sleep(500 * time.Millisecond)
	}
	if !healed() {
		t.Fatalf("not healed %s after the harness was killed: %q\n%s", time.Since(killed).Round(time.Second), f.status().Problems, f.nodeState("node-2"))
	}
	t.Logf("ready and nothing stopped %s after the harness was killed", time.Since(killed).Round(100*time.Millisecond))

	// With the agent and its keeper killed, only the guard is left on the node.
	asBefore := func(nodes ...string) bool {
		return !slices.ContainsFunc(nodes, func(n string) bool { return f.nodeState(n) != before[n] })
	}
	wait := func(limit time.Duration, nodes ...string) {
		for !asBefore(nodes...) && time.Since(killed) < limit {
			time.Sleep(time.Second)
		}
		for _, n := range nodes {
			if now := f.nodeState(n); now != before[n] {
				t.Errorf("%s is not as it was %s after the harness was killed; there was\n%s\nand there is\n%s", n, time.Since(killed).Round(time.Second), before[n], now)
			}
		}
		t.Logf("%s as before %s after the harness was killed", strings.Join(nodes, ", "), time.Since(killed).Round(100*time.Millisecond))
	}
	if mode == "the agent and what keeps it" {
		wait(90*time.Second, "node-2")
	}
	if i%len(killModes) != 0 { // guards remove agents without requests, which takes minutes
		f.do(exitPass, f.inside("inventory", "release", f.inventory)...)
	}
	wait(5*time.Minute, "node-1", "node-2", "node-3")
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
	if code == exitPass || !strings.Contains(text, "another run of holdfast uses the agent on node-") {
		f.t.Errorf("a second run beside the first: exit code %d\n%s", code, text)
	}
	seen, err := record.Read(record.Dir(first, "trial"))
	if err != nil || len(seen.Faults) != 1 || seen.Faults[0].V.Phase != record.FaultInjected {
		f.t.Errorf("the first run has %+v, %v", seen.Faults, err)
	}
	if text, _ := f.do(exitPass, "shell", "node-2", "--", "cat", "/var/lib/holdfast/state.json"); !strings.Contains(text, "Until") && !strings.Contains(text, "thawAt") && !strings.Contains(text, "until") {
		f.t.Errorf("nothing is active any more on node-2:\n%s", text)
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
