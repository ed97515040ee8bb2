// Package fault breaks a cluster on purpose.
//
// A fault is a named value, one file each. Injecting one returns an Injection
// that carries the proof of its effect and heals it, with a proof of that too.
// Every injection has a time to live, after which the provider heals it by
// itself, whether or not the harness is still there.
package fault

import (
	"context"
	"maps"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// Fault is a way to break a cluster.
type Fault interface {
	// Name is the fault's name in scenario files, such as "kill".
	Name() string
	// Doc describes the fault for people and programs.
	Doc() Doc
	// Check refuses parameters and abilities that do not fit, before
	// anything is touched.
	Check(c framework.Cluster, t Target, p Params) error
	// Inject breaks the target and waits for the proof that it took effect.
	// An error means that nothing is known to be broken; an injection
	// without a proven effect is returned with Proof.Proven false.
	Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error)
}

// asker is a fault that has to ask the cluster whether it can be injected.
type asker interface {
	ask(ctx context.Context, c framework.Cluster, t Target, p Params) error
}

// Possible is Check, and asks the cluster where the fault has to know more than that. It
// touches nothing.
func Possible(ctx context.Context, f Fault, c framework.Cluster, t Target, p Params) error {
	if err := f.Check(c, t, p); err != nil {
		return err
	}
	if a, ok := f.(asker); ok {
		return a.ask(ctx, c, t, p)
	}
	return nil
}

// Doc describes a fault.
type Doc struct {
	Summary string `json:"summary"`
	// Targets are the kinds of target that it takes.
	Targets []string `json:"targets"`
	// Params describes each parameter by name, with its unit and default.
	Params map[string]string `json:"params,omitempty"`
	// Needs names the abilities that a provider must have.
	Needs []string `json:"needs"`
	// Example is a target and parameters, such as "etcd/leader restart=true".
	Example string `json:"example"`
}

// Params are the parameters of an injection.
type Params struct {
	// TTL is the time after which the provider heals the fault by itself.
	TTL time.Duration
	// Values are the fault's own parameters, as documented in Doc.Params.
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
	// Host is a host of the network that is no control-plane node:
	// "balancer", "workers" or "harness".
	Host string `json:"host,omitempty"`
	// Component is empty where the target is a whole node, zone or host.
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

// Injection is a fault in force.
type Injection interface {
	Target() Target
	// Proof shows that the fault took effect. Healing may withdraw it, where what was
	// counted until then contradicts it.
	Proof() Proof
	// Heal undoes the fault and proves it. It may be called again.
	Heal(ctx context.Context) (Proof, error)
}

// Chooser is an Injection that says what was chosen where a parameter left a choice.
type Chooser interface {
	// Chosen returns the chosen values by the parameters' names.
	Chosen() map[string]string
}

// Used returns the parameters of an injection: as they were given, but for what was
// chosen.
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
	// What says what shows it, in words.
	What string `json:"what"`
	// Called and Effect are when it was asked for and when it was seen.
	Called time.Time `json:"called"`
	Effect time.Time `json:"effect,omitzero"`
}
