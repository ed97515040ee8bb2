// Package facts describes what a record shows, without judging it: the histories of keys, watches
// and leases, sets of endpoints, outages, and the lives of faults, nodes, processes and pods. It
// has everything that two judges need.
package facts

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// Case is the input of a judge.
type Case struct {
	Run   *record.Run
	Check record.Check
	// Bound is nil if the check names none.
	Bound *verdict.Bound
	// Fault is the injection that the check names, nil if it names none. Its effect and its
	// healing are proven.
	Fault *Injection
	// Faults are all injections of the record by ID.
	Faults map[string]*Injection
	// Shared is what the checks of every run share; nil if a test runs a single judge.
	Shared func() *Collections
}

// Collections returns what the record shows of collections. The judges of one record
// share it.
func (m *Case) Collections() *Collections {
	if m.Shared != nil {
		return m.Shared()
	}
	return NewCollections(m.Run)
}

// Param returns a parameter of the check, or its default.
func (m *Case) Param(name, def string) string {
	if v, ok := m.Check.Params[name]; ok && v != "" {
		return v
	}
	return def
}

// Quiet is the period in which nothing should change in the cluster: from the baseline check to
// the first fault or change of a node, or to the end of the record. Faults of the named components
// do not affect the judge.
func (m *Case) Quiet(harmless ...string) (from, to record.Nanos) {
	for _, s := range m.Run.Steadies {
		if s.V.Phase == "before" && s.V.OK {
			from = s.At
			break
		}
	}
	return from, min(m.Run.EndAt, NextDisturbance(m.Run, 0), m.NextInjectionOf(-1, func(f *record.Fault) bool {
		return len(f.Group) > 0 || !slices.Contains(harmless, f.Component)
	}))
}

// APIServers returns the names of the entrances of API servers that exist from the start to the
// end, apart from those on the given nodes.
func (m *Case) APIServers(except ...string) []string {
	return slices.DeleteFunc(slices.Clone(m.Run.Meta.Entrances), func(e string) bool {
		return slices.Contains(except, e) || !slices.ContainsFunc(LivesOf(m.Run, e), func(n NodeLife) bool {
			return n.From == 0 && n.Until == Endless
		})
	})
}

func (m *Case) IsNode(name string) bool {
	return slices.ContainsFunc(m.Run.Meta.Nodes, func(n record.Node) bool { return n.Name == name })
}

// WasNode reports whether a control-plane node of that name ever existed.
func (m *Case) WasNode(name string) bool { return len(LivesOf(m.Run, name)) > 0 }

// NodesWith returns the nodes that should run a component.
func (m *Case) NodesWith(component string) []record.Node {
	return slices.DeleteFunc(slices.Clone(m.Run.Meta.Nodes), func(n record.Node) bool { return !slices.Contains(n.Components, component) })
}

// Address returns the address of a node, empty if it never existed.
func (m *Case) Address(node string) string {
	if all := LivesOf(m.Run, node); len(all) > 0 {
		return all[0].Address
	}
	return ""
}

// NextInjection returns when the first fault after a time is injected.
func (m *Case) NextInjection(after record.Nanos) record.Nanos {
	return m.NextInjectionOf(after, func(*record.Fault) bool { return true })
}

// NextInjectionOf returns when the first fault after a time is injected that a function accepts.
func (m *Case) NextInjectionOf(after record.Nanos, accepts func(*record.Fault) bool) record.Nanos {
	next := Endless
	for _, inj := range m.Faults {
		if f := inj.Injected; f != nil && f.Called > after && accepts(f) {
			next = min(next, f.Called)
		}
	}
	return next
}

// UntilNext returns when the next fault or change of a node after a time is requested, or the end
// of the record.
func (m *Case) UntilNext(after record.Nanos) record.Nanos {
	return min(m.Run.EndAt, NextDisturbance(m.Run, after), m.NextInjection(after))
}

// Injection is the life of one fault.
type Injection struct {
	ID string
	// Injected and healed are nil if the record has no such step; a proven step is preferred to
	// one that is not.
	Injected, Healed *record.Fault
	Failed           *record.Fault
}

// Effect is when the effect of the fault was seen.
func (i *Injection) Effect() record.Nanos { return max(i.Injected.Effect, i.Injected.Called) }

// HealEffect is when the fault was seen to be gone.
func (i *Injection) HealEffect() record.Nanos { return max(i.Healed.Effect, i.Healed.Called) }

func (i *Injection) Node() string { return i.Injected.Node }

// Nodes returns all nodes that the fault hits, those of a zone too.
func (i *Injection) Nodes() []string {
	return slices.DeleteFunc(append([]string{i.Injected.Node}, i.Injected.Nodes...), func(n string) bool { return n == "" })
}

// What returns a readable name: "kill of etcd on node-2".
func (i *Injection) What() string {
	f := i.Injected
	name := f.Name
	if f.Has(record.EffectIsolated) || strings.HasPrefix(name, "isolate") { // of a node or of etcd: the component follows
		name = "isolation"
	}
	switch {
	case f.Component != "" && f.Node != "":
		return name + " of " + f.Component + " on " + f.Node
	case f.Component != "":
		return name + " of " + f.Component
	case f.Node != "":
		return name + " of " + f.Node
	}
	return name + " of " + f.Target
}

func Injections(run *record.Run) map[string]*Injection {
	all := map[string]*Injection{}
	better := func(old, new *record.Fault) bool { return old == nil || (!old.Proven && new.Proven) }
	for i := range run.Faults {
		f := &run.Faults[i].V
		inj := all[f.ID]
		if inj == nil {
			inj = &Injection{ID: f.ID}
			all[f.ID] = inj
		}
		switch f.Phase {
		case record.FaultInjected:
			if better(inj.Injected, f) {
				inj.Injected = f
			}
		case record.FaultHealed:
			if better(inj.Healed, f) {
				inj.Healed = f
			}
		case record.FaultFailed:
			inj.Failed = f
		}
	}
	return all
}

// Impossible reports whether the fault was not injected since the cluster lacks an ability for it.
func (i *Injection) Impossible() bool {
	return i.Injected == nil && i.Failed != nil && i.Failed.Missing != ""
}

// Impossible returns a fault or a change of nodes for which the cluster lacks an ability, and the
// error; empty if the record has none. It ended the experiment, even before its turn if it was
// foreseen: what else is not in the record was not made for that reason.
func Impossible(run *record.Run) (what, why string) {
	faults := Injections(run)
	for _, id := range slices.Sorted(maps.Keys(faults)) {
		if faults[id].Impossible() {
			return fmt.Sprintf("the fault %q of the same scenario", id), faults[id].Failed.Error
		}
	}
	for _, c := range slices.Concat(run.Nodes, run.Changes) {
		if c.V.Phase == record.NodeFailed && c.V.Missing != "" {
			return "a change of nodes of the same scenario", c.V.Error
		}
	}
	return "", ""
}

// Lasts reports whether operations are answered during the check's fault: it lasts for longer
// than the measuring margin, and spares most nodes. The effect of any other fault shows in later
// operations.
func (m *Case) Lasts() bool {
	if m.Fault.Healed == nil || m.Fault.Healed.Called-m.Fault.Effect() <= record.Nanos(m.Run.Meta.Settings["M"]) {
		return false
	}
	return 2*len(m.Fault.Nodes()) < len(m.Run.Meta.Nodes)
}

// Meets reports whether an operation that was called at some time met the check's fault: one that
// was called after a lasting fault was healed did not.
func (m *Case) Meets(called record.Nanos) bool {
	return m.Fault != nil && called >= m.Fault.Effect() && (!m.Lasts() || called < m.Fault.Healed.Called)
}
