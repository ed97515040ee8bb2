package judges

import (
	"cmp"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// changesOf returns the node changes that a check is about, in order, or why nothing can be
// concluded about them.
func changesOf(m *facts.Matter, names []string) ([]record.NodeChange, *Finding) {
	return changesIn(m.Run.Nodes, names)
}

func changesIn(changes []record.Timed[record.NodeChange], names []string) ([]record.NodeChange, *Finding) {
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
			return nil, Inconclusive("the record has no change of nodes %q", name).problem()
		}
	}
	if len(all) == 0 {
		return nil, Inconclusive("the record has no change of nodes").problem()
	}
	slices.SortStableFunc(all, func(a, b record.NodeChange) int { return cmp.Compare(a.Called, b.Called) })
	return all, nil
}
