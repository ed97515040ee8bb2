package judge

import (
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// matter is what a judge decides on.
type matter struct {
	run   *record.Run
	check record.Check
	// bound is nil where the check names none.
	bound *Bound
	// fault is the injection that the check is about, nil where it names none.
	// It is proven, and so is its healing.
	fault *injection
	// faults are all injections of the record by ID.
	faults map[string]*injection
	// shared is what the checks of every run share; nil where a test judges one alone.
	shared func() *collections
}

// collections returns what the record shows of collections. The judges of one record
// share it.
func (m *matter) collections() *collections {
	if m.shared != nil {
		return m.shared()
	}
	return newCollections(m.run)
}

// param returns a parameter of the check, or its default.
func (m *matter) param(name, def string) string {
	if v, ok := m.check.Params[name]; ok && v != "" {
		return v
	}
	return def
}

// quiet is the time in which the cluster is meant to be as it stands: from the
// baseline check to the first fault or change of nodes, or to the end of the record.
// Faults of the components that are named leave alone what is judged.
func (m *matter) quiet(harmless ...string) (from, to record.Nanos) {
	for _, s := range m.run.Steadies {
		if s.V.Phase == "before" && s.V.OK {
			from = s.At
			break
		}
	}
	to = min(m.run.EndAt, nextChange(m.run, 0))
	for _, inj := range m.faults {
		if inj.injected != nil && !slices.Contains(harmless, inj.injected.Component) {
			to = min(to, inj.injected.Called)
		}
	}
	return from, to
}

// apiServers returns the names of the entrances that are API servers from the start
// to the end, apart from those on the given nodes.
func (m *matter) apiServers(except ...string) []string {
	var names []string
	for _, e := range m.run.Meta.Entrances {
		if m.isNode(e) && m.stays(e) && !slices.Contains(except, e) {
			names = append(names, e)
		}
	}
	return names
}

func (m *matter) isNode(name string) bool {
	return slices.ContainsFunc(m.run.Meta.Nodes, func(n record.Node) bool { return n.Name == name })
}

// wasNode tells whether there ever was such a control-plane node.
func (m *matter) wasNode(name string) bool {
	return slices.ContainsFunc(nodeLives(m.run), func(n nodeLife) bool { return n.Name == name })
}

// nodesWith returns the nodes that are meant to run a component.
func (m *matter) nodesWith(component string) []record.Node {
	var nodes []record.Node
	for _, n := range m.run.Meta.Nodes {
		if slices.Contains(n.Components, component) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// address returns the address of a node, empty if there never was such a node.
func (m *matter) address(node string) string {
	for _, n := range nodeLives(m.run) {
		if n.Name == node {
			return n.Address
		}
	}
	return ""
}

// nextInjection returns when the first fault is injected after a time.
func (m *matter) nextInjection(after record.Nanos) record.Nanos {
	next := endless
	for _, inj := range m.faults {
		if inj.injected != nil && inj.injected.Called > after {
			next = min(next, inj.injected.Called)
		}
	}
	return next
}

// untilNext returns when the next fault or change of nodes is called for after a time, or
// the end of the record.
func (m *matter) untilNext(after record.Nanos) record.Nanos {
	return min(m.run.EndAt, nextChange(m.run, after), m.nextInjection(after))
}

// injection is the life of one fault.
type injection struct {
	id string
	// injected and healed are nil where the record has no such step; a proven
	// step is preferred to one that is not.
	injected, healed *record.Fault
	failed           *record.Fault
}

// effect is when the fault was seen to act.
func (i *injection) effect() record.Nanos { return max(i.injected.Effect, i.injected.Called) }

// healEffect is when the fault was seen to be gone.
func (i *injection) healEffect() record.Nanos { return max(i.healed.Effect, i.healed.Called) }

func (i *injection) node() string { return i.injected.Node }

// nodes returns all nodes that the fault hits, those of a zone too.
func (i *injection) nodes() []string {
	return slices.DeleteFunc(append([]string{i.injected.Node}, i.injected.Nodes...), func(n string) bool { return n == "" })
}

// what names the fault for people: "kill of etcd on node-2".
func (i *injection) what() string {
	f := i.injected
	name := f.Name
	if strings.HasPrefix(name, "isolate") { // isolate-etcd as well: the component follows
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

func injections(run *record.Run) map[string]*injection {
	all := map[string]*injection{}
	better := func(old, new *record.Fault) bool { return old == nil || (!old.Proven && new.Proven) }
	for i := range run.Faults {
		f := &run.Faults[i].V
		inj := all[f.ID]
		if inj == nil {
			inj = &injection{id: f.ID}
			all[f.ID] = inj
		}
		switch f.Phase {
		case record.FaultInjected:
			if better(inj.injected, f) {
				inj.injected = f
			}
		case record.FaultHealed:
			if better(inj.healed, f) {
				inj.healed = f
			}
		case record.FaultFailed:
			inj.failed = f
		}
	}
	return all
}

// lasts reports whether the check's fault is one that operations are answered under: it lasts
// for longer than the measuring margin, and leaves most nodes alone. What any other fault
// does shows in the operations that come after it.
func (m *matter) lasts() bool {
	if m.fault.healed == nil || m.fault.healed.Called-m.fault.effect() <= record.Nanos(m.run.Meta.Settings["M"]) {
		return false
	}
	return 2*len(m.fault.nodes()) < len(m.run.Meta.Nodes)
}

// meets reports whether an operation that was called at some time met the check's fault: one
// after a fault that lasted was healed did not.
func (m *matter) meets(called record.Nanos) bool {
	return m.fault != nil && called >= m.fault.effect() && (!m.lasts() || called < m.fault.healed.Called)
}
