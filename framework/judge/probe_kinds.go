package judge

import (
	"slices"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// probeKinds returns the kinds of probes that the check is about.
func (m *matter) probeKinds() (kinds []record.ProbeKind, problem *finding) {
	for _, name := range splitList(m.param("kinds", defaultKinds)) {
		kind := record.ProbeKind(name)
		if !slices.Contains(record.ProbeKinds(), kind) {
			f := inconclusive("the check cannot be judged: parameter kinds = %q, and no probe is of kind %q", m.param("kinds", ""), name)
			return nil, &f
		}
		kinds = append(kinds, kind)
	}
	return kinds, nil
}
