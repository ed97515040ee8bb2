package fault

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/framework"
)

// fakeCluster is a cluster that keeps the state of its nodes, processes and
// links, and nothing else. Its abilities can be made not to work, which a
// proof must notice.
type fakeCluster struct {
	// inert means that faults are accepted and do nothing; stubborn means the same for healing.
	inert, stubborn bool
	// refuses is what every fault answers instead, having done its work.
	refuses error

	mu     sync.Mutex
	nodes  []*fakeNode
	cuts   []*fakeCut
	leases map[string]*coordinationv1.Lease
	asked  int // calls that ask for a fault
	// onCut receives the links on which a cut starts and ends.
	onCut func(links []framework.Link, begins bool)
	// before is called before a node receives a fault; it may be nil.
	before func(*fakeNode)
	// late is added to what impaired packets are held for.
	late time.Duration
	// Links, as "node-1>node-2", without traffic of their own, that let all packets but one
	// through whatever is on them, and that no impairment affects.
	idle, leaks, whole map[string]bool
	bypassed           bool // another program has removed the rules of all impairments
	probes             int  // packets sent
	astray             []framework.NameDisturbance
	// noLimits is why no limit can be kept; lax ones are active and let
	// everything through; astrayProcess escapes them.
	noLimits           error
	lax, astrayProcess bool
}

// fakeNode has all abilities of a node.
type fakeNode struct {
	c         *fakeCluster
	name      string
	runs      []framework.Component
	off       bool
	paused    bool
	processes map[framework.Component]*fakeProcess
	pids      int
	loads     map[string]*fakeLoad
	limits    map[string]fakeLimit
	trust     fakeTrust
	disk      fakeDisk
	// serves replaces where a component serves.
	serves map[framework.Component][]framework.ServingEndpoint
}

type fakeProcess struct {
	framework.Process
	hold       *time.Timer
	crashAfter time.Duration
	elsewhere  bool // another node has the lock under which it runs
}

// watcherPause is how long the fake process watcher takes for a restart.
const watcherPause = 30 * time.Millisecond

func newFake(components ...framework.Component) *fakeCluster {
	c := &fakeCluster{leases: map[string]*coordinationv1.Lease{}}
	for _, name := range []string{"node-1", "node-2", "node-3"} {
		n := &fakeNode{c: c, name: name, runs: components, processes: map[framework.Component]*fakeProcess{}}
		for _, comp := range slices.Concat(components, []framework.Component{framework.NodeAgent}) {
			n.processes[comp] = &fakeProcess{Process: framework.Process{Component: comp}}
			n.spawn(comp)
		}
		c.nodes = append(c.nodes, n)
	}
	return c
}

func (c *fakeCluster) Name() string { return "fake" }

func (c *fakeCluster) EndsWithProcess() {}

func (c *fakeCluster) Settings() framework.Settings { return framework.Settings{} }

func (c *fakeCluster) Versions() map[string]map[framework.Component]string { return nil }

func (c *fakeCluster) Nodes() []framework.Node {
	var all []framework.Node
	for _, n := range c.nodes {
		all = append(all, n)
	}
	return all
}

func (c *fakeCluster) Entrances() []framework.Entrance {
	var all []framework.Entrance
	for _, n := range c.nodes {
		all = append(all, framework.Entrance{Name: n.name, Kind: framework.EntranceAPIServer, Node: n.name,
			Config: &rest.Config{Host: "http://" + n.name, Transport: &fakeAPIServer{n}}})
	}
	return all
}

// ask counts a call for a fault and reports whether to carry it out.
func (c *fakeCluster) ask() bool {
	c.asked++
	return !c.inert
}

func (n *fakeNode) Name() string { return n.name }

func (n *fakeNode) Address() netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, 1}) }

// Zone puts the last two nodes into one zone.
func (n *fakeNode) Zone() string {
	if n.name == "node-1" {
		return "a"
	}
	return "b"
}

func (n *fakeNode) Components() []framework.Component { return n.runs }

// lock takes the lock for a call that requests a fault.
func (n *fakeNode) lock() (unlock func()) {
	if before := n.c.before; before != nil {
		before(n)
	}
	n.c.mu.Lock()
	return n.c.mu.Unlock
}

// spawn starts a component that does not run.
func (n *fakeNode) spawn(c framework.Component) {
	p := n.processes[c]
	if n.off || p.PID != 0 {
		return
	}
	if p.Standby = p.elsewhere; p.Standby {
		return
	}
	n.pids++
	if !p.Started.IsZero() {
		p.Restarts++
	}
	p.PID, p.StartTicks, p.State, p.Started = 100+n.pids, uint64(1000+n.pids), "S", time.Now()
	n.crashLater(c)
}

func (n *fakeNode) end(c framework.Component, how string, hold time.Duration) error {
	defer n.lock()()
	if !n.c.ask() {
		return n.c.refuses
	}
	p := n.processes[c]
	if p.PID == 0 {
		return framework.ErrNothingDone
	}
	p.PID, p.StartTicks, p.State, p.LastExit, p.Held = 0, 0, "", how, hold > 0
	p.hold = n.c.later(max(hold, watcherPause), func() { n.spawn(c) })
	return n.c.refuses
}

// later does something after a while, as the provider does on its own.
func (c *fakeCluster) later(d time.Duration, f func()) *time.Timer {
	return time.AfterFunc(d, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		f()
	})
}

func (n *fakeNode) Kill(_ context.Context, c framework.Component, hold time.Duration) error {
	return n.end(c, "signal: killed", hold)
}

func (n *fakeNode) Stop(_ context.Context, c framework.Component, hold time.Duration) error {
	return n.end(c, "exit status 0", hold)
}

func (n *fakeNode) Start(_ context.Context, c framework.Component) error {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	if !n.c.stubborn {
		n.processes[c].Held = false
		n.spawn(c)
	}
	return nil
}

func (n *fakeNode) Freeze(_ context.Context, c framework.Component, ttl time.Duration) error {
	defer n.lock()()
	if n.processes[c].State == "T" {
		return framework.ErrNothingDone
	}
	if n.c.ask() {
		n.processes[c].State = "T"
		n.c.later(ttl, func() { n.processes[c].State = "S" })
	}
	return n.c.refuses
}

func (n *fakeNode) Thaw(_ context.Context, c framework.Component) error {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	if !n.c.stubborn && n.processes[c].State == "T" {
		n.processes[c].State = "S"
	}
	return nil
}

func (n *fakeNode) PowerOff(_ context.Context, ttl time.Duration) error {
	defer n.lock()()
	if n.off {
		return framework.ErrNothingDone
	}
	if n.c.ask() {
		n.power(false)
		n.c.later(ttl, func() { n.power(true) })
	}
	return n.c.refuses
}

func (n *fakeNode) PowerOn(context.Context) error {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	if !n.c.stubborn {
		n.power(true)
	}
	return nil
}

func (n *fakeNode) power(on bool) {
	n.off, n.paused = !on, false
	for c, p := range n.processes {
		if !on {
			p.PID, p.StartTicks, p.State = 0, 0, ""
			p.Held, p.CrashLooped = false, false
			n.loads, n.limits, n.trust.shifts = nil, nil, nil
		}
		n.spawn(c)
	}
}

func (n *fakeNode) Pause(_ context.Context, ttl time.Duration) error {
	defer n.lock()()
	if n.off || n.paused {
		return framework.ErrNothingDone
	}
	if n.c.ask() {
		n.paused = true
		n.c.later(ttl, func() { n.paused = false })
	}
	return n.c.refuses
}

func (n *fakeNode) Resume(context.Context) error {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	if !n.c.stubborn {
		n.paused = false
	}
	return nil
}

func (n *fakeNode) Paused(context.Context) (bool, error) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return n.paused, nil
}

func (n *fakeNode) Powered(context.Context) (bool, error) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return !n.off, nil
}

func (n *fakeNode) Process(_ context.Context, c framework.Component) (framework.Process, error) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return n.processes[c].Process, nil
}
