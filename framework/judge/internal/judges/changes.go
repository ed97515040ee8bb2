package judges

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// changesOf returns the node changes that a check is about, in order, or why nothing can be
// concluded about them.
func changesOf(m *facts.Matter, names []string) ([]record.NodeChange, *Finding) {
	return changesIn(m, m.Run.Nodes, names)
}

func changesIn(m *facts.Matter, changes []record.Timed[record.NodeChange], names []string) ([]record.NodeChange, *Finding) {
	var all []record.NodeChange
	for _, c := range changes {
		if c.V.Phase == record.NodeFailed {
			f := Inconclusive("the nodes could not be changed: %s", c.V.Error)
			if c.V.Missing != "" {
				f.Verdict = verdict.NotApplicable
			}
			return nil, &f
		}
		if len(names) == 0 || slices.Contains(names, c.V.Name) {
			all = append(all, c.V)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(c record.NodeChange) bool { return c.Name == name }) {
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
func unmade(m *facts.Matter, problem string) *Finding {
	if what, why := facts.Impossible(m.Run); what != "" {
		return notApplicable("%s, since this cluster does not support %s: %s", problem, what, why).problem()
	}
	return Inconclusive("%s", problem).problem()
}
