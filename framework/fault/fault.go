// Package fault breaks a cluster on purpose.
//
// A fault is a value of type Fault, one file each. Injecting one returns an Injection that
// carries the proof of its effect and heals it, with a proof of that too. Every injection
// has a time to live, after which the provider heals it, whether or not the harness still
// runs.
package fault

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// Fault is a way to break a cluster: its documentation, what it accepts, and how it is injected.
// All returns the built-in ones; programs that use holdfast as a library define values of the
// same type.
type Fault struct {
	// Name is the fault's name in scenario files, such as "kill".
	Name string
	// Summary describes the fault, without a full stop.
	Summary string
	// Targets are the kinds of target that it accepts, such as "etcd" or "node": the first
	// word of a target, "component" for any component of a node. Words after a space are for
	// readers. Empty means any target.
	Targets []string
	// Params are its parameters.
	Params []Param
	// Needs names the abilities that a provider must have, with the condition in brackets.
	Needs []string
	// Example is a target and parameters, such as "etcd/leader restart=true".
	Example string
	// Effects returns what the fault does to its target with these parameters, for the judges.
	// Nil means that it may have any effect anywhere.
	Effects func(values map[string]string) []record.Effect
	// Prepare refuses a request that does not fit the cluster, before it touches anything, and
	// returns how to inject the fault. Its errors need not name the fault.
	Prepare func(Request) (Inject, error)
	// Promised faults go through etcd or the API, so that no provider heals them: a cluster that
	// outlives the process that injects receives in advance what undoes them, and when.
	Promised bool

	// lossy faults lose data permanently; a cluster that reports so refuses them.
	lossy bool
	// permanent faults change etcd, or an object of the cluster's own, in a way that healing does
	// not undo; a cluster whose owner has not agreed to that refuses them.
	permanent bool
	// takes returns how much longer an injection with these parameters may take than others do; nil
	// for no longer.
	takes func(Request) time.Duration
	// impair returns the impairment of a network fault.
	impair func(Request) (*impairment, error)
	// ask queries whether the cluster can have the fault, if the fault needs to know more than
	// Prepare can see.
	ask func(context.Context, Request) error
}

// Inject injects the fault and waits for the proof of its effect. An error means that nothing is
// known to be broken; an injection without a proven effect is returned with Proof.Proven false.
type Inject func(context.Context) (Injection, error)

// Check refuses parameters, targets and clusters that do not fit, before it touches anything. Its
// error is or wraps a *MissingAbility if the provider lacks an ability.
func (f *Fault) Check(c framework.Cluster, t Target, p Params) error {
	_, err := f.prepare(c, t, p)
	return err
}

// Inject checks, and then injects the fault.
func (f *Fault) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	inject, err := f.prepare(c, t, p)
	if err != nil {
		return nil, err
	}
	return inject(ctx)
}

// Possible is Check, and queries the cluster if the fault needs to know more. It touches nothing.
func (f *Fault) Possible(ctx context.Context, c framework.Cluster, t Target, p Params) error {
	if err := f.Check(c, t, p); err != nil || f.ask == nil {
		return err
	}
	r, err := f.request(c, t, p)
	if err != nil {
		return err
	}
	return f.ask(ctx, r)
}

// EffectsWith returns what the fault does to its target with these parameters; nil if that
// is not known.
func (f *Fault) EffectsWith(values map[string]string) []record.Effect {
	if f.Effects == nil {
		return nil
	}
	return f.Effects(values)
}

// TakesWith returns how much longer an injection with these parameters may take than others do, such
// as for a node that stays off for as long before its reboot is proven.
func (f *Fault) TakesWith(values map[string]string) time.Duration {
	r := Request{Fault: f, Values: values, read: map[string]any{}}
	if f.takes == nil || r.readParams() != nil { // Check refuses such parameters
		return 0
	}
	return f.takes(r)
}

func (f *Fault) prepare(c framework.Cluster, t Target, p Params) (Inject, error) {
	r, err := f.request(c, t, p)
	if err != nil {
		return nil, err
	}
	inject, err := f.Prepare(r)
	if _, missing := errors.AsType[*MissingAbility](err); err != nil && !missing {
		err = fmt.Errorf("fault %s: %w", f.Name, err)
	}
	return inject, err
}

// does returns the effects of a fault whose effects do not depend on parameters.
func does(effects ...record.Effect) func(map[string]string) []record.Effect {
	return func(map[string]string) []record.Effect { return effects }
}

// Params are the parameters of an injection.
type Params struct {
	// TTL is the time after which the provider heals the fault automatically.
	TTL time.Duration
	// Values are the fault's own parameters by name.
	Values map[string]string
}

// Target is what an injection acts on, as resolved at the time of injection.
type Target struct {
	// Asked is the target as it was written, such as "etcd/leader".
	Asked string `json:"asked"`
	// Node is the node's name; empty for a zone and for a host.
	Node string `json:"node,omitempty"`
	// Nodes are the nodes of a zone, in the order of joining; empty for any
	// other target.
	Nodes []string `json:"nodes,omitempty"`
	// Host is a host of the network that is not a control-plane node:
	// "balancer", "workers" or "harness".
	Host string `json:"host,omitempty"`
	// Component is empty if the target is a whole node, zone or host.
	Component framework.Component `json:"component,omitempty"`
}

// AllNodes returns the nodes that the target is on: one, those of a zone, or
// none for a host.
func (t Target) AllNodes() []string {
	if t.Node != "" {
		return []string{t.Node}
	}
	return t.Nodes
}

// Injection is an active fault.
type Injection interface {
	Target() Target
	// Proof shows that the fault took effect. Healing may withdraw it, if the final counters
	// contradict it.
	Proof() Proof
	// Heal undoes the fault and proves it. It may be called again.
	Heal(ctx context.Context) (Proof, error)
}

// Chooser is an Injection that reports the values that it chose for parameters left open.
type Chooser interface {
	// Chosen returns the chosen values by the parameters' names.
	Chosen() map[string]string
}

// Used returns the parameters of an injection: as given, with the chosen values.
func Used(i Injection, given map[string]string) map[string]string {
	c, ok := i.(Chooser)
	if !ok || len(c.Chosen()) == 0 {
		return given
	}
	used := maps.Clone(given)
	if used == nil {
		used = map[string]string{}
	}
	maps.Copy(used, c.Chosen())
	return used
}

// Proof shows that something took effect.
type Proof struct {
	Proven bool `json:"proven"`
	// What describes what shows it.
	What string `json:"what"`
	// Killed reports that the component was to stop gracefully, and was killed at the end of its
	// grace period.
	Killed bool `json:"killed,omitempty"`
	// Called and Effect are when it was requested and when it was seen.
	Called time.Time `json:"called"`
	Effect time.Time `json:"effect,omitzero"`
}
