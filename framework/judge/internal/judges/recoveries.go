package judges

import (
	"maps"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// recoveries are when the last request of each kind that failed was made, and the last one that was
// answered.
type recoveries map[record.ProbeKind]struct{ failed, answered record.Nanos }

func (r recoveries) add(p *record.Probe) {
	of := r[p.Kind]
	if p.OK {
		of.answered = max(of.answered, p.Start)
	} else {
		of.failed = max(of.failed, p.Start)
	}
	r[p.Kind] = of
}

// lacks returns a kind of which no request that was made after the last failure was answered; empty if
// all recovered.
func (r recoveries) lacks() record.ProbeKind {
	for _, kind := range slices.Sorted(maps.Keys(r)) {
		if of := r[kind]; of.failed > 0 && of.answered < of.failed {
			return kind
		}
	}
	return ""
}
