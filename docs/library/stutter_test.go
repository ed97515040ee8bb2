package ha

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// node is a node with one process, which can be suspended.
type node struct {
	mu             sync.Mutex
	state          string
	freezes, thaws int
	refusals       int           // of freezes, from the second one on
	deaf           bool          // signals have no effect
	ttl            time.Duration // of the last freeze
}

func (*node) Name() string                      { return "node-1" }
func (*node) Address() netip.Addr               { return netip.Addr{} }
func (*node) Components() []framework.Component { return []framework.Component{framework.Scheduler} }

func (n *node) Freeze(_ context.Context, _ framework.Component, ttl time.Duration) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state == "T" {
		return errors.New("it is already frozen")
	}
	if n.freezes > 0 && n.refusals > 0 {
		n.refusals--
		return errors.New("it is being restarted")
	}
	n.freezes, n.ttl = n.freezes+1, ttl
	if !n.deaf {
		n.state = "T"
	}
	return nil
}

func (n *node) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.freezes
}

func (n *node) Thaw(context.Context, framework.Component) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.thaws, n.state = n.thaws+1, "S"
	return nil
}

func (n *node) Process(context.Context, framework.Component) (framework.Process, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return framework.Process{PID: 7, State: n.state}, nil
}

// cluster is a cluster of nodes and nothing else.
type cluster []framework.Node

func (cluster) Name() string                                        { return "fake" }
func (c cluster) Nodes() []framework.Node                           { return c }
func (cluster) Entrances() []framework.Entrance                     { return nil }
func (cluster) Settings() framework.Settings                        { return framework.Settings{} }
func (cluster) Versions() map[string]map[framework.Component]string { return nil }

var target = fault.Target{Asked: "scheduler/1", Node: "node-1", Component: framework.Scheduler}

func quick(ttl time.Duration) fault.Params {
	return fault.Params{TTL: ttl, Values: map[string]string{"pause": "20ms", "run": "10ms"}}
}

func TestStutter(t *testing.T) {
	n := &node{state: "S"}
	injection, err := Stutter.Inject(t.Context(), cluster{n}, target, quick(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if p := injection.Proof(); !p.Proven || p.Effect.Before(p.Called) || !strings.Contains(p.What, "is in state T") {
		t.Errorf("%+v", p)
	}
	if used := fault.Used(injection, nil); used["pause"] != "20ms" || used["run"] != "10ms" {
		t.Error(used)
	}
	for deadline := time.Now().Add(10 * time.Second); n.count() < 2 && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	for range 2 { // healing again changes nothing
		p, err := injection.Heal(t.Context())
		if err != nil || !p.Proven || !strings.Contains(p.What, "is in state S, after ") {
			t.Errorf("%+v, %v", p, err)
		}
	}
	if n.freezes < 2 || n.state != "S" || n.ttl < 20*time.Millisecond {
		t.Errorf("%d freezes, state %s, a time to live of %s", n.freezes, n.state, n.ttl)
	}
	freezes := n.freezes
	time.Sleep(100 * time.Millisecond)
	if n.freezes != freezes {
		t.Error("it stutters after it was healed")
	}
}

// A component that is being restarted misses pauses, and is paused again when it is back.
func TestStutterOfARestart(t *testing.T) {
	n := &node{state: "S", refusals: 2}
	injection, err := Stutter.Inject(t.Context(), cluster{n}, target, quick(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); n.count() < 2 && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	if _, err := injection.Heal(t.Context()); err != nil || n.count() < 2 {
		t.Errorf("%d pauses, %v", n.count(), err)
	}
}

// The fault expires without a call to Heal.
func TestStutterExpires(t *testing.T) {
	n := &node{state: "S"}
	injection, err := Stutter.Inject(t.Context(), cluster{n}, target, quick(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	<-injection.(*stuttering).over
	if n.state != "S" {
		t.Errorf("state %s", n.state)
	}
}

// A signal without effect is not a fault that took effect.
func TestStutterWithoutEffect(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	injection, err := Stutter.Inject(ctx, cluster{&node{state: "S", deaf: true}}, target, quick(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if p := injection.Proof(); p.Proven || !p.Effect.IsZero() {
		t.Errorf("%+v", p)
	}
	if _, err := injection.Heal(t.Context()); err != nil {
		t.Error(err)
	}
}

// plain is a node that cannot suspend anything.
type plain struct{ framework.Node }

func TestStutterRefuses(t *testing.T) {
	good := quick(time.Minute)
	for name, test := range map[string]struct {
		c    cluster
		t    fault.Target
		p    fault.Params
		says string
	}{
		"a node":          {cluster{&node{}}, fault.Target{Asked: "node/1", Node: "node-1"}, good, "accepts component"},
		"no such node":    {cluster{}, target, good, "no node node-1"},
		"no time to live": {cluster{&node{}}, target, fault.Params{}, "must be above zero"},
		"no pause":        {cluster{&node{}}, target, fault.Params{TTL: time.Minute, Values: map[string]string{"pause": "0s"}}, "parameter pause"},
		"no ability":      {cluster{plain{&node{}}}, target, good, "needs the ability Freezer"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Stutter.Check(test.c, test.t, test.p)
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want …%s…", err, test.says)
			}
		})
	}
	var missing *fault.MissingAbility
	if err := Stutter.Check(cluster{plain{&node{}}}, target, good); !errors.As(err, &missing) {
		t.Errorf("%v: a requirement would be inconclusive instead of not applicable", err)
	}
}
