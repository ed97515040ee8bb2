package judges

import (
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// probeKinds returns the kinds of probes that the check is about, those on new connections first.
func probeKinds(m *facts.Matter) (kinds []facts.ProbeKind, problem *Finding) {
	for _, name := range text.SplitList(m.Param("kinds", facts.DefaultKinds)) {
		kind := record.ProbeKind(name)
		if !slices.Contains(record.ProbeKinds(), kind) {
			return nil, Inconclusive("the check cannot be judged: parameter kinds = %q, and no probe is of kind %q", m.Param("kinds", ""), name).problem()
		}
		kinds = append(kinds, facts.ProbeKind{Kind: kind})
	}
	if m.Param("connections", "") != "new" {
		for _, k := range slices.Clone(kinds) {
			kinds = append(kinds, facts.ProbeKind{Kind: k.Kind, Reused: true})
		}
	}
	return kinds, nil
}
