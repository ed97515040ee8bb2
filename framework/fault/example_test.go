package fault_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// Blink takes the power of a node for a moment. It is a fault of a program's own.
var Blink = &fault.Fault{
	Name:    "blink",
	Summary: "takes the power of a node for a moment",
	Targets: []string{"node"},
	Needs:   []string{"PowerSwitch"},
	Example: "node/2",
	Effects: func(map[string]string) []record.Effect { return []record.Effect{record.EffectDown, record.EffectPower} },
	// Prepare reports before anything is touched what cannot be done.
	Prepare: func(r fault.Request) (fault.Inject, error) {
		for _, n := range r.Cluster.Nodes() {
			if n.Name() != r.Target.Node {
				continue
			}
			if power, ok := n.(framework.PowerSwitch); ok {
				return func(ctx context.Context) (fault.Injection, error) { return blink(ctx, r, power) }, nil
			}
			return nil, &fault.MissingAbility{Ability: "PowerSwitch", Of: "node " + n.Name(), For: "fault blink"}
		}
		return nil, fmt.Errorf("the cluster has no node %s", r.Target.Node)
	},
}

// blink waits for the proof that the fault took effect.
func blink(ctx context.Context, r fault.Request, power framework.PowerSwitch) (fault.Injection, error) {
	called := time.Now()
	// With a time to live, power comes back even if this process is killed.
	if err := power.PowerOff(ctx, r.TTL); err != nil {
		return nil, fmt.Errorf("fault blink: power of %s: %w", r.Target, err)
	}
	b := &blinked{target: r.Target, power: power}
	b.proof = fault.Prove(ctx, called, 5*time.Second, b.has(false))
	return b, nil
}

type blinked struct {
	target fault.Target
	power  framework.PowerSwitch
	proof  fault.Proof
}

func (b *blinked) Target() fault.Target { return b.target }

func (b *blinked) Proof() fault.Proof { return b.proof }

// Heal proves the healing, too.
func (b *blinked) Heal(ctx context.Context) (fault.Proof, error) {
	called := time.Now()
	if err := b.power.PowerOn(ctx); err != nil {
		return fault.Proof{Called: called}, fmt.Errorf("healing blink of %s: %w", b.target, err)
	}
	return fault.Prove(ctx, called, time.Minute, b.has(true)), nil
}

// has checks whether the node has power, as wanted.
func (b *blinked) has(power bool) func(context.Context) (bool, string) {
	return func(ctx context.Context) (bool, string) {
		on, err := b.power.Powered(ctx)
		if err != nil {
			return false, err.Error()
		}
		return on == power, fmt.Sprintf("%s has power: %t", b.target, on)
	}
}

// A program's own faults are found beside the built-in ones; engine.Options takes them in the
// same way.
func ExampleFind() {
	for _, name := range []string{"blink", "kill"} {
		f, err := fault.Find(name, Blink)
		fmt.Println(f.Summary, err)
	}
	// Output:
	// takes the power of a node for a moment <nil>
	// kills a component without notice (SIGKILL) <nil>
}

// A fault whose proof and healing are seen, and one that the cluster cannot have.
func ExampleFault() {
	ctx, target := context.Background(), fault.Target{Asked: "node/1", Node: "node-1"}

	injection, err := Blink.Inject(ctx, oneNode{&powered{on: true}}, target, fault.Params{TTL: time.Minute})
	if err != nil {
		panic(err)
	}
	fmt.Println(injection.Proof().Proven, injection.Proof().What)
	healed, err := injection.Heal(ctx)
	fmt.Println(healed.Proven, healed.What, err)

	err = Blink.Check(oneNode{plain{}}, target, fault.Params{TTL: time.Minute})
	fmt.Println(errors.As(err, new(*fault.MissingAbility)), err)
	// Output:
	// true node node-1 has power: false
	// true node node-1 has power: true <nil>
	// true fault blink needs the ability PowerSwitch, which node node-1 does not have with this provider
}

// oneNode is an example of a provider's cluster.
type oneNode struct{ node framework.Node }

func (oneNode) Name() string                                        { return "example" }
func (c oneNode) Nodes() []framework.Node                           { return []framework.Node{c.node} }
func (oneNode) Entrances() []framework.Entrance                     { return nil }
func (oneNode) Settings() framework.Settings                        { return framework.Settings{} }
func (oneNode) Versions() map[string]map[framework.Component]string { return nil }

type plain struct{ framework.Node }

func (plain) Name() string { return "node-1" }

type powered struct {
	plain
	on bool
}

func (p *powered) PowerOff(context.Context, time.Duration) error { p.on = false; return nil }
func (p *powered) PowerOn(context.Context) error                 { p.on = true; return nil }
func (p *powered) Powered(context.Context) (bool, error)         { return p.on, nil }
