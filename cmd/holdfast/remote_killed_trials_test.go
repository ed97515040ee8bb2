package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/remote"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/scenarios"
)

const (
	// killTrials is the environment variable with the number of faults in which
	// TestClusterKilled kills processes, and of the times that TestClusterCertify kills a
	// certification.
	killTrials = "HOLDFAST_TEST_KILLS"
	// killSeed is the one with the seed from which TestClusterKilled draws faults, processes and
	// moments; without it, the seed is another one each time.
	killSeed = "HOLDFAST_TEST_SEED"
)

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

// seedOf returns the seed in killSeed, or a new one.
func seedOf(t *testing.T) uint64 {
	text := os.Getenv(killSeed)
	if text == "" {
		return rand.Uint64()
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%s: want a number", killSeed, text)
	}
	return seed
}

// interruptedFault is a fault in the middle of which processes are killed.
type interruptedFault struct {
	fault, target, params string
	// refused is the ability that the cluster lacks for it: it must not be injected at all.
	refused string
	// undoing is how long undoing it may take on a node.
	undoing time.Duration
	// second means that a second run, which is refused, gets as far as the agents meanwhile.
	second bool
	// prepare makes it possible on this cluster; nil if it is.
	prepare func(*foreign) (undo func())
}

func (f interruptedFault) String() string {
	s := f.fault + " of " + f.target
	if f.params != "" {
		s += " (" + f.params + ")"
	}
	return s
}

// scenario returns a scenario in which the fault is active until the run is killed.
func (f interruptedFault) scenario() string {
	return `apiVersion: holdfast.dev/v1alpha1
kind: Scenario
metadata: {name: trial}
spec:
  summary: A fault during which the harness is killed.
  traffic: {off: true}
  timeline:
  - inject: {fault: ` + f.fault + `, target: ` + f.target + `, as: hit, params: {` + f.params + `}}
  - wait: 10m
  requirements:
  - {id: TRIAL-1, judge: linearizable}
`
}

// interruptedFaults are of every kind that is done through agents, etcd or the API: with an agent
// without a request, all of them end in the same way. No fault on the network keeps the harness
// from the agents, so the same limit applies to those that cut it off from the node.
var interruptedFaults = []interruptedFault{
	// Processes.
	{fault: "kill", target: "apiserver/2"},
	{fault: "freeze", target: "etcd/2"},
	{fault: "stop", target: "kcm/2", second: true},
	{fault: "crash-loop", target: "scheduler/2", params: "after: 500ms", second: true},
	// The network: whole, one way, with the harness and without it, and through user space.
	{fault: "isolate", target: "node/2"},
	{fault: "isolate", target: "node/2", params: "keep: harness"},
	{fault: "isolate-etcd", target: "etcd/2"},
	{fault: "split", target: "node/2"},
	{fault: "cut", target: "node/2", params: "direction: in"},
	{fault: "cut", target: "node/2", params: `direction: out, peer: "1"`},
	{fault: "cut", target: "etcd/2", params: "direction: out, port: etcd-peer"},
	{fault: "black-hole", target: "apiserver/2"},
	{fault: "reset", target: "etcd/2", params: "port: etcd-peer"},
	{fault: "loss", target: "node/2", params: "share: 30%", second: true},
	{fault: "latency", target: "node/2", params: "delay: 50ms", second: true},
	{fault: "bandwidth", target: "node/2", params: `rate: 1M, peer: "1,3"`},
	{fault: "duplicate", target: "node/2", params: `share: 30%, peer: "1,3"`},
	{fault: "reorder", target: "node/2", params: `share: 30%, peer: "1,3"`},
	{fault: "corrupt", target: "node/2", params: `share: 5%, peer: "1,3"`},
	// Data and certificates. A member is stopped before its data are put back.
	{fault: "disk-wipe", target: "etcd/2", undoing: 10 * time.Second},
	{fault: "disk-full", target: "etcd/2", undoing: 2 * time.Second, prepare: (*foreign).ownVolume},
	{fault: "cert-expired", target: "apiserver/2"},
	{fault: "cert-wrong-names", target: "apiserver/2"},
	{fault: "cert-wrong-ca", target: "apiserver/2"},
	// Faults that the agents of all nodes have promised to undo, through etcd. After fill-quota
	// they defragment every member, one after the other.
	{fault: "alarm", target: "etcd/2", undoing: 10 * time.Second},
	{fault: "fill-quota", target: "etcd/2", undoing: time.Minute},
	{fault: "lease-steal", target: "kcm/active", undoing: 10 * time.Second},
	{fault: "overload", target: "apiserver/2", undoing: 10 * time.Second},
	{fault: "webhook-hang", target: "apiserver/1", params: "timeout: 2s", undoing: 10 * time.Second},
	// What it loses does not come back, and what starts etcd here does not take other arguments.
	{fault: "restore-snapshot", target: "etcd/2", refused: "Promiser"},
	{fault: "remove-member", target: "etcd/2", refused: "EtcdOperator"},
}

// The processes that are killed in the middle of a fault, besides the harness.
const (
	killNothing = "nothing else"
	killSSH     = "ssh"
	killAgent   = "the agent" // its keeper restarts it
	killKeeper  = "the agent and what keeps it"
	killGuard   = "the agent, what keeps it and its guard" // nothing heals before the release
	killNode    = "the node"                               // its power returns at once
)

var (
	killModes = []string{killNothing, killSSH, killAgent, killKeeper, killGuard}
	// kubeadmKillModes are those where systemd keeps the agent.
	kubeadmKillModes = []string{killNode, killNothing, killNode, killSSH, killNode, killAgent}
)

// killTrial is one fault with the processes that are killed, and when.
type killTrial struct {
	n     int // from 0
	fault interruptedFault
	mode  string
	after time.Duration // from the proof of the fault to the kill
	// guards has the guards of idle agents remove these, which takes minutes.
	guards bool
}

func (x killTrial) String() string {
	if x.fault.refused != "" {
		return fmt.Sprintf("%d: %s, which is refused", x.n, x.fault)
	}
	return fmt.Sprintf("%d: %s, killed with the harness: %s", x.n, x.fault, x.mode)
}

// killTrialsOf draws trials from a seed. All faults, and all modes, have their turn before one
// comes again; the first trials of a seed are the same whatever their number.
func killTrialsOf(seed uint64, n int, modes []string) (all []killTrial) {
	random := rand.New(rand.NewPCG(seed, 0))
	deck := func(size int) func() int {
		var left []int
		return func() int {
			if len(left) == 0 {
				left = random.Perm(size)
			}
			drawn := left[0]
			left = left[1:]
			return drawn
		}
	}
	fault, mode := deck(len(interruptedFaults)), deck(len(modes))
	for i := range n {
		all = append(all, killTrial{n: i, fault: interruptedFaults[fault()], mode: modes[mode()],
			after: time.Duration(random.Int64N(int64(3 * time.Second))), guards: i%10 == 0})
	}
	return all
}

// Allowances on top of the leash, after which an agent without a request heals everything.
const (
	// leashSlack: the agent checks its leash every second, and shares the processors with the
	// whole cluster.
	leashSlack = 3 * time.Second
	// restartSlack: the leash of an agent that was restarted begins again.
	restartSlack = 2 * time.Second
	// guardSlack: the guard looks every 2 s for how long the agent, which shows itself every
	// second, was silent; then it kills processes, heals, and deletes the agent.
	guardSlack = 10 * time.Second
	// releaseSlack: a release waits until agents look unused, for 9 s at most, and then as long as
	// the leash for one that does not answer.
	releaseSlack = 15 * time.Second
	// bootSlack: systemd starts the agent of a node whose power returned.
	bootSlack = 30 * time.Second
	// besideOthers: without killTrials, the trials run beside other tests.
	besideOthers = 30 * time.Second
)

// activeLimit is how long a run may take until its fault is active.
const activeLimit = 5 * time.Minute

// limit returns how long after the kill the fault may still be active on any node.
func (x killTrial) limit() time.Duration {
	limit := remote.Leash + x.fault.undoing
	switch x.mode {
	case killAgent:
		return limit + restartSlack + leashSlack
	case killKeeper:
		return limit + guardSlack
	case killGuard:
		return limit + releaseSlack
	case killNode:
		return limit + bootSlack
	}
	return limit + leashSlack
}

// A seed repeats its trials, and 200 of them have each fault and each mode several times.
func TestKillTrials(t *testing.T) {
	words := func(all []killTrial) (s string) {
		for _, x := range all {
			s += fmt.Sprintln(x, x.after, x.guards)
		}
		return s
	}
	for seed := range uint64(20) {
		all := killTrialsOf(seed, 200, killModes)
		faults, modes, both := map[string]int{}, map[string]int{}, map[string]bool{}
		for i, x := range all {
			faults[x.fault.String()]++
			modes[x.mode]++
			both[x.fault.String()+x.mode] = true
			if x.n != i || x.after < 0 || x.after >= 3*time.Second {
				t.Errorf("seed %d: trial %d is %s, after %s", seed, i, x, x.after)
			}
		}
		for _, f := range interruptedFaults {
			if n := faults[f.String()]; n < 200/len(interruptedFaults) {
				t.Errorf("seed %d: %d trials of %s", seed, n, f)
			}
		}
		for _, m := range killModes {
			if modes[m] != 200/len(killModes) {
				t.Errorf("seed %d: %d trials in which is killed: %s", seed, modes[m], m)
			}
		}
		if len(both) < 75 {
			t.Errorf("seed %d: %d pairs of a fault and a mode", seed, len(both))
		}
		if words(all) != words(killTrialsOf(seed, 200, killModes)) || words(all[:2]) != words(killTrialsOf(seed, 2, killModes)) {
			t.Errorf("seed %d gives other trials again", seed)
		}
		if seed > 0 && words(all[:5]) == words(killTrialsOf(seed-1, 5, killModes)) {
			t.Errorf("the seeds %d and %d give the same trials", seed-1, seed)
		}
	}
}

// The table has scenarios that can be run, all faults that nodes promise to undo, and no fault
// twice.
func TestInterruptedFaults(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range interruptedFaults {
		if _, err := scenarios.Parse("trial.yaml", []byte(f.scenario())); err != nil {
			t.Errorf("%s: %v", f, err)
		}
		if seen[f.String()] {
			t.Errorf("%s is there twice", f)
		}
		seen[f.fault], seen[f.String()] = true, true
	}
	for _, f := range fault.All() {
		if f.Promised && !seen[f.Name] {
			t.Errorf("%s, which nodes promise to undo, is missing", f.Name)
		}
	}
	for _, mode := range killModes {
		for _, f := range interruptedFaults {
			if limit := (killTrial{fault: f, mode: mode}).limit(); limit < remote.Leash+leashSlack || limit > 2*remote.Leash+f.undoing {
				t.Errorf("%s, %s: it may be active for %s", f, mode, limit)
			}
		}
	}
	if strings.Contains(killTrial{fault: interruptedFault{fault: "kill", target: "etcd/2", refused: "Killer"}, mode: killSSH}.String(), killSSH) {
		t.Error("a fault that is refused is said to be interrupted")
	}
}
