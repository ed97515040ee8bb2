package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// group returns the components that are one process with a fault's target, if its effects are
// on processes; nil if the target is a process of its own.
func group(c framework.Cluster, f *fault.Fault, t fault.Target, values map[string]string) []framework.Component {
	hits := func(e record.Effect) bool { return slices.Contains(record.OnProcess, e) }
	if t.Component == "" || !slices.ContainsFunc(f.EffectsWith(values), hits) {
		return nil
	}
	return groupOf(c, t)
}

func groupOf(c framework.Cluster, t fault.Target) []framework.Component {
	for _, n := range c.Nodes() {
		if g, ok := n.(framework.Grouper); ok && n.Name() == t.Node {
			return g.Group(t.Component)
		}
	}
	return nil
}

// errGrouped is why a lease is not moved: its holder shares its process with others.
var errGrouped = errors.New("it shares a process with other components, which are left alone")

// alike is an injection that hit another component of the same process in the same way. Healing
// one heals both.
type alike struct {
	fault.Injection
	target fault.Target
	what   string
}

// Target implements fault.Injection.
func (a alike) Target() fault.Target { return a.target }

// Proof implements fault.Injection: the effect is that of the other injection.
func (a alike) Proof() fault.Proof {
	p := a.Injection.Proof()
	p.What = a.what + ": " + p.What
	return p
}

// alike returns an active injection that already hits the target in the same way, because both
// targets are in one process; nil if no injection does.
func (r *run) alike(in *Inject, t fault.Target) fault.Injection {
	for _, i := range r.unhealed() {
		other := i.inj.Target()
		if i.proven && i.step.Fault == in.Fault && maps.Equal(i.step.Params, in.Params) && other.Node == t.Node && slices.Contains(i.group, t.Component) {
			return alike{i.inj, t, fmt.Sprintf("%s runs in the same process as %s, which %s has hit", t, other, i.step.ID)}
		}
	}
	return nil
}
