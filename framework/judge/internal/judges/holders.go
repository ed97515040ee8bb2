package judges

import (
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// holderBefore returns the holder of the lease before the fault, whose node the fault must have
// hit, or why it is not known.
func holderBefore(m *facts.Case) (record.Lease, *Finding) {
	old, problem := anyHolderBefore(m)
	if problem == nil && facts.HolderNode(old) != m.Fault.Node() {
		problem = Inconclusive("the fault (%s) did not hit the active instance of %s, which was %s on %s",
			m.Fault.What(), m.ElectedComponent(), old.Holder, facts.HolderNode(old)).problem()
	}
	return old, problem
}

// anyHolderBefore returns the holder of the lease before the fault, on any node.
func anyHolderBefore(m *facts.Case) (record.Lease, *Finding) {
	component := m.ElectedComponent()
	before := facts.LeaseStates(m.Run, component, 0, m.Fault.Injected.Called)
	if len(before) == 0 || before[len(before)-1].V.Holder == "" {
		return record.Lease{}, Inconclusive("the record does not show who held the lease of %q before the fault", component).problem()
	}
	return before[len(before)-1].V, nil
}

func failTwoHolders(component string, two []record.Lease) Finding {
	return Failed("%s must never have two holders: version %s of its lease was seen with %s (through %s) and with %s (through %s).",
		component, two[0].Revision, two[0].Holder, two[0].Via, two[1].Holder, two[1].Via)
}

// renewals describes how a lease was renewed from a time on.
type renewals struct {
	// The longest times without a renewal: shown to be, and at most; and the time since the last.
	shown, worst, last time.Duration
	renewed, looked    record.Nanos // when the last renewal, and the last state, were seen
	first, holder      record.Lease // the first renewal, and the last one
}

// renewalsOf examines the states of a lease that were seen from a time on. Only renewals by
// counted holders count.
func renewalsOf(states []record.Timed[record.Lease], from record.Nanos, counts func(record.Lease) bool) renewals {
	r := renewals{renewed: from, looked: from}
	var before uint64
	for _, s := range states {
		known := counts(s.V)
		if s.At <= from || s.V.Holder != "" && !known {
			before = max(before, record.Number(s.V.Revision))
		}
		if s.At <= from && known {
			r.holder = s.V
		}
	}
	// A renewal was made between the last time at which it had not been seen, still, and the
	// first time at which it was. This gives the shown and the longest possible times without
	// one.
	still := from
	for _, s := range states {
		if s.At < from {
			continue
		}
		r.looked = max(r.looked, s.At)
		switch v := record.Number(s.V.Revision); {
		case v > before && counts(s.V) && (s.V.Holder != r.holder.Holder || !s.V.Renew.Equal(r.holder.Renew)):
			if r.first.Holder == "" {
				r.first = s.V
			}
			r.shown, r.worst = max(r.shown, text.Span(r.renewed, min(still, s.At))), max(r.worst, text.Span(r.renewed, s.At))
			before, r.renewed, still, r.holder = v, s.At, s.At, s.V
		case v == 0 || v >= before:
			still = max(still, s.At)
		}
	}
	r.last = text.Span(r.renewed, r.looked)
	return r
}

func leaseDuration(l record.Lease) time.Duration { return time.Duration(l.Duration) * time.Second }

// coordinated gives a judge of what waits for a takeover the bound of coordinated leader election,
// where the active instances are elected in that way.
func coordinated(judge func(*facts.Case) Finding) func(*facts.Case) Finding {
	return func(m *facts.Case) Finding {
		bound := m.Coordinated(*m.Bound)
		if bound.Limit == m.Bound.Limit {
			return judge(m)
		}
		f := judge(boundBy(m, bound))
		if f.Bound == nil {
			f.Bound = &bound
		}
		return f
	}
}
