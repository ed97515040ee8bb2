package judges

import (
	"maps"
	"slices"
	"time"

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

// errorsIn returns how long after the effect of a fault probes failed, the last failed probe, the last
// probe that started after the effect and was answered before the healing, and the same by kind. An
// answer after the healing does not show that clients recovered before it. Probes are in the order of
// their starts.
func errorsIn(probes []record.Probe, effect, heal record.Nanos) (took time.Duration, last, lastOK *record.Probe, by recoveries) {
	by = recoveries{}
	for i := range probes {
		switch p := &probes[i]; {
		case !p.OK:
			by.add(p)
			if last == nil || p.End > last.End {
				last, took = p, time.Duration(p.End-effect)
			}
		case p.Start >= effect && p.End <= heal:
			by.add(p)
			lastOK = p
		}
	}
	return took, last, lastOK, by
}
