package judges

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// nodesChanged and changedInPlace return the changes that a check names, all if it names none.
func nodesChanged(m *facts.Case) ([]record.NodeChange, *Finding) {
	return changesIn(m, m.Run.Nodes, text.SplitList(m.Check.Params["changes"]))
}

func changedInPlace(m *facts.Case) ([]record.NodeChange, *Finding) {
	return changesIn(m, m.Run.Changes, text.SplitList(m.Check.Params["changes"]))
}

// changesIn returns the changes that a check is about, in order, or why nothing can be concluded
// about them.
func changesIn(m *facts.Case, changes []record.Timed[record.NodeChange], names []string) ([]record.NodeChange, *Finding) {
	var all []record.NodeChange
	var failed *Finding // the timeline ended with it
	for _, c := range changes {
		if c.V.Phase == record.NodeFailed {
			f := Inconclusive("the nodes could not be changed: %s", c.V.Error)
			if c.V.Missing != "" {
				f.Verdict = verdict.NotApplicable
			}
			failed = &f
		} else if len(names) == 0 || slices.Contains(names, c.V.Name) {
			all = append(all, c.V)
		}
	}
	if failed != nil && len(names) == 0 {
		return nil, failed
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(c record.NodeChange) bool { return c.Name == name }) {
			if failed != nil {
				return nil, failed
			}
			return nil, unmade(m, fmt.Sprintf("the record has no change of nodes %q", name))
		}
	}
	if len(all) == 0 {
		return nil, unmade(m, "the record has no change of nodes")
	}
	slices.SortStableFunc(all, func(a, b record.NodeChange) int { return cmp.Compare(a.Called, b.Called) })
	return all, nil
}

// unmade is the finding about changes that are not in the record: they are not applicable if the
// experiment ended because the cluster lacks an ability for something else in it.
func unmade(m *facts.Case, problem string) *Finding {
	if what, why := facts.Impossible(m.Run); what != "" {
		return notApplicable("%s, since this cluster does not support %s: %s", problem, what, why).problem()
	}
	return Inconclusive("%s", problem).problem()
}

// upgradedComponents are the components that a change with an action restarts.
func upgradedComponents(action string) []string {
	if action == "upgrade-etcd" {
		return []string{"etcd"}
	}
	return []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"}
}

func upgrades(c record.NodeChange) bool { return strings.HasPrefix(c.Action, "upgrade") }

// etcdVersion is a member's version as releases are named.
func etcdVersion(s record.EtcdStatus) string { return "v" + strings.TrimPrefix(s.Version, "v") }

// fleet is which version the components of each node have.
type fleet map[string]map[string]string

// versionsOf returns which versions components and etcd members answered, the last answer of each
// that counts.
func versionsOf(m *facts.Case, counts func(call, ret record.Nanos) bool) fleet {
	answered := fleet{}
	answer := func(node, component, version string) {
		if answered[node] == nil {
			answered[node] = map[string]string{}
		}
		answered[node][component] = version
	}
	for _, o := range m.Run.Ops {
		if op := o.V; op.Purpose == "version" && slices.Contains(upgradedComponents("upgrade"), op.Key) && op.Outcome == record.OK && counts(op.Call, op.Return) {
			answer(op.Entrance, op.Key, op.Value)
		}
	}
	for _, e := range m.Run.Etcd {
		if e.V.OK && e.V.Version != "" && counts(e.At, e.At) {
			answer(e.V.Node, "etcd", etcdVersion(e.V))
		}
	}
	return answered
}

// answersIn checks what the components of a changed node reported before they were changed again.
func answersIn(m *facts.Case, c record.NodeChange) *Finding {
	if !upgrades(c) {
		return nil
	}
	until := facts.Endless
	for _, next := range m.Run.Changes {
		if v := next.V; v.Node.Name == c.Node.Name && v.Action == c.Action && v.Called >= c.Effect {
			until = min(until, v.Called)
		}
	}
	answered := versionsOf(m, func(call, _ record.Nanos) bool { return call >= c.Effect && call < until })[c.Node.Name]
	for _, component := range upgradedComponents(c.Action) {
		if !slices.Contains(c.Node.Components, component) {
			continue
		}
		switch is := answered[component]; is {
		case c.To:
		case "":
			return Inconclusive("%s on %s did not report its version between the %s and the next one", component, c.Node.Name, facts.InPlaceWords(c)).problem()
		default:
			return Failed("After %s every component of the node must have the new version: %s reported %s.", facts.InPlaceWords(c), component, is).problem()
		}
	}
	return nil
}
