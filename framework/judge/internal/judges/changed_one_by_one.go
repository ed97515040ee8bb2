package judges

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var changedOneByOne = Definition{Doc{
	Name:      "changed-one-by-one",
	Guarantee: "Nodes are upgraded, or their components restarted, one after the other: no change begins before the previous one is complete, the node's components report the new version after each change, every component that a reconfiguration names is restarted, and the version skew policy holds after each step.",
	Source:    "Automated HA master deployment; Kubernetes version skew policy (kubernetes.io/releases/version-skew-policy)",
	Params: map[string]string{
		"changes":     "names of the changes to judge, separated by commas (default: all)",
		"complete":    "true: at the end, every node has the version of the last change",
		"interrupted": "names of the changes that must have been interrupted after a step, and then finished or rolled back, separated by commas (default: none)",
		"emulated":    "the minor version that the API server of a node must report to emulate after its change, such as v1.36 (default: any)",
	},
	Values: map[string][]string{"complete": flag},
}, given(changedInPlace, judgeChangedOneByOne)}

func judgeChangedOneByOne(m *facts.Case, changes []record.NodeChange) Finding {
	var evidence []string
	var longest time.Duration
	for i, c := range changes {
		if i > 0 && c.Called < changes[i-1].Effect {
			return Failed("Nodes must be changed one after the other: %s began %s, but %s was not complete until %s.",
				facts.InPlaceWords(c), text.When(c.Called), facts.InPlaceWords(changes[i-1]), text.When(changes[i-1].Effect)).Over(c.Called, changes[i-1].Effect)
		}
		longest = max(longest, time.Duration(c.Effect-c.Called))
		evidence = append(evidence, fmt.Sprintf("%s in %s", facts.InPlaceWords(c), text.Short(time.Duration(c.Effect-c.Called))))
	}
	for _, c := range changes {
		if f := cmp.Or(answeredSkew(m, c), beforeItsTurn(m, changes[0], c)); f != nil {
			return f.Shows(evidence...)
		}
	}
	steps, f := skewSteps(m, changes)
	if f != nil {
		return f.Shows(evidence...)
	}
	for _, c := range changes {
		if c.Interrupted == 0 && slices.Contains(text.SplitList(m.Check.Params["interrupted"]), c.Name) {
			return Inconclusive("the %s was not interrupted, but the check requires an interruption", facts.InPlaceWords(c)).Shows(evidence...)
		}
	}
	for _, c := range changes {
		if f := cmp.Or(answersIn(m, c), restartsNamed(m, c), emulates(m, c)); f != nil {
			return f.Shows(evidence...)
		}
	}
	if f := complete(m, changes[len(changes)-1]); f != nil {
		return f.Shows(evidence...)
	}
	return Passed("The changes of nodes (%d) were made one after the other, each in %s at most; after each of %d steps the version skew policy held, and every component reported its new version.",
		len(changes), text.Short(longest), steps).number(len(changes), "change").Shows(evidence...)
}

// within accepts what was asked and answered between two times.
func within(from, to record.Nanos) func(call, ret record.Nanos) bool {
	return func(call, ret record.Nanos) bool { return call >= from && ret <= to }
}

// answeredSkew checks whether components or etcd members answered with versions that break the policy
// after an upgrade, before the next change of any node.
func answeredSkew(m *facts.Case, c record.NodeChange) *Finding {
	if !upgrades(c) {
		return nil
	}
	until := facts.Endless
	for _, next := range slices.Concat(m.Run.Changes, m.Run.Nodes) {
		if next.V.Called >= c.Effect {
			until = min(until, next.V.Called)
		}
	}
	if why := versionsOf(m, within(c.Effect, until)).skew(); why != "" {
		return Failed("The version skew policy must hold at every step: after %s, %s.", facts.InPlaceWords(c), why).problem()
	}
	return nil
}

// beforeItsTurn checks whether a component or etcd member of a node that is upgraded answered in the
// new version before that, although it had not when the first node's turn came.
func beforeItsTurn(m *facts.Case, first, c record.NodeChange) *Finding {
	if !upgrades(c) || slices.ContainsFunc(m.Run.Changes, func(o record.Timed[record.NodeChange]) bool {
		return o.V.Node.Name == c.Node.Name && o.V.Action == c.Action && o.V.Called < c.Called
	}) {
		return nil
	}
	before, early := versionsOf(m, within(0, first.Called))[c.Node.Name], versionsOf(m, within(first.Called, c.Called))[c.Node.Name]
	for _, component := range upgradedComponents(c.Action) {
		if before[component] != "" && before[component] != c.To && early[component] == c.To {
			return Failed("Nodes must be changed one after the other: %s on %s reported %s before its turn (its own upgrade began %s).",
				component, c.Node.Name, c.To, text.When(c.Called)).problem()
		}
	}
	return nil
}

// skewSteps returns how many steps the changes took, and which of them broke the policy.
func skewSteps(m *facts.Case, changes []record.NodeChange) (n int, broken *Finding) {
	now := fleet{}
	for node, versions := range m.Run.Meta.Versions {
		now[node] = maps.Clone(versions)
	}
	steps := slices.Clone(m.Run.Steps)
	slices.SortStableFunc(steps, func(a, b record.Timed[record.Step]) int { return cmp.Compare(a.V.Done, b.V.Done) })
	judged := make([]int, len(changes))
	for _, s := range record.Each(steps) {
		if s.Component == "" || now[s.Node] == nil {
			continue
		}
		now[s.Node][s.Component] = s.Version
		i := slices.IndexFunc(changes, func(c record.NodeChange) bool {
			return c.Node.Name == s.Node && s.Began >= c.Called && s.Done <= c.Effect
		})
		if i < 0 {
			continue
		}
		n++
		judged[i]++
		if why := now.skew(); why != "" {
			return n, Failed("The version skew policy must hold at every step: after %q on %s, %s.", s.Name, s.Node, why).Over(s.Began, s.Done).problem()
		}
	}
	for i, c := range changes {
		if judged[i] == 0 {
			return n, Inconclusive("the record has no restart of a component by %s", facts.InPlaceWords(c)).problem()
		}
	}
	return n, nil
}

// skew describes how the versions violate the policy; empty if they do not.
func (f fleet) skew() string {
	var servers, members []facts.Released
	for _, node := range slices.Sorted(maps.Keys(f)) {
		versions := f[node]
		for _, component := range slices.Sorted(maps.Keys(versions)) {
			r := facts.Released{Node: node, Component: component, Version: versions[component]}
			var ok bool
			if r.Minor, ok = facts.ParseMinor(r.Version); !ok {
				continue
			}
			switch component {
			case "kube-apiserver":
				servers = append(servers, r)
			case "etcd":
				members = append(members, r)
			default:
				own, ok := facts.ParseMinor(versions["kube-apiserver"])
				if n, same := r.Newer(own); ok && (!same || n > 0 || n < -1) {
					return fmt.Sprintf("%s runs beside kube-apiserver %s", r, versions["kube-apiserver"])
				}
			}
		}
	}
	for _, all := range [][]facts.Released{servers, members} {
		if len(all) == 0 {
			continue
		}
		oldest, newest := facts.Extremes(all)
		if n, ok := newest.Newer(oldest.Minor); !ok || n > 1 {
			return fmt.Sprintf("%s and %s run in one cluster", oldest, newest)
		}
	}
	return ""
}

// restartsNamed checks that a reconfiguration restarted every component that it names: that each
// has a step, and was not the same process before and after. Records of older versions do not
// have the names.
func restartsNamed(m *facts.Case, c record.NodeChange) *Finding {
	if c.Action != "reconfigure" {
		return nil
	}
	named := c.Restarts
	if len(named) == 0 {
		named = c.Node.Components
	}
	for _, component := range named {
		kept, same := facts.KeptProcess(m.Run, c.Node.Name, component, c.Called, c.Effect)
		stepped := slices.ContainsFunc(m.Run.Steps, func(t record.Timed[record.Step]) bool {
			return t.V.Node == c.Node.Name && t.V.Component == component && t.V.Began >= c.Called && t.V.Done <= c.Effect
		})
		switch {
		case len(c.Restarts) > 0 && same:
			return Failed("A reconfiguration must restart every component that it names: %s was process %d both before and after the %s.",
				component, kept.PID, facts.InPlaceWords(c)).problem()
		case !stepped && len(c.Restarts) == 0:
			return Inconclusive("the record shows no restart of %s by the %s, nor which components it was to restart", component, facts.InPlaceWords(c)).problem()
		case !stepped:
			return Inconclusive("the record has no restart of %s by the %s", component, facts.InPlaceWords(c)).problem()
		}
	}
	return nil
}

// emulates checks which version the API server of a changed node reported to emulate before the
// node was changed again, if one is required.
func emulates(m *facts.Case, c record.NodeChange) *Finding {
	want := m.Param("emulated", "")
	if want == "" {
		return nil
	}
	until, is := facts.NextInPlace(m.Run, c.Node.Name, c.Effect-1), ""
	for _, o := range m.Run.Ops {
		if op := o.V; op.Purpose == facts.PurposeEmulated && op.Entrance == c.Node.Name && op.Outcome == record.OK && op.Call >= c.Effect && op.Call < until {
			is = op.Value
		}
	}
	switch is {
	case want:
		return nil
	case "":
		return Inconclusive("the API server on %s did not report which version it emulates between the %s and the next one", c.Node.Name, facts.InPlaceWords(c)).problem()
	}
	return Failed("After %s the API server of the node must emulate %s: it reported that it emulates %s.", facts.InPlaceWords(c), want, is).problem()
}

// complete checks that every node with what the last change upgraded has its version, if that is
// required.
func complete(m *facts.Case, last record.NodeChange) *Finding {
	if m.Param("complete", "false") != "true" {
		return nil
	}
	component := upgradedComponents(last.Action)[0]
	at := map[string]string{}
	for _, n := range m.NodesWith(component) {
		at[n.Name] = m.Run.Meta.Versions[n.Name][component]
	}
	for _, c := range m.Run.Changes {
		if c.V.Action == last.Action && c.V.Phase == record.NodeChanged {
			at[c.V.Node.Name] = c.V.To
		}
	}
	for _, n := range m.NodesWith(component) {
		if at[n.Name] != last.To {
			return Failed("At the end, every node must run %s: %s runs %s.", last.To, n.Name, at[n.Name]).problem()
		}
	}
	return nil
}
