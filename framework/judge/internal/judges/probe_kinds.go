package judges

import (
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// probeKinds returns the kinds of probes that the check is about.
func probeKinds(m *facts.Matter) (kinds []record.ProbeKind, problem *Finding) {
	for _, name := range text.SplitList(m.Param("kinds", facts.DefaultKinds)) {
		kind := record.ProbeKind(name)
		if !slices.Contains(record.ProbeKinds(), kind) {
			return nil, Inconclusive("the check cannot be judged: parameter kinds = %q, and no probe is of kind %q", m.Param("kinds", ""), name).problem()
		}
		kinds = append(kinds, kind)
	}
	return kinds, nil
}
