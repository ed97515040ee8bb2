package facts

import (
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// Expected is what the list of API servers must be from a moment on, until the next action on the
// cluster.
type Expected struct {
	want []string // addresses that must be listed, sorted
	open []string // addresses that may be listed or not
	Hit  []string // nodes that faults hit the whole time
	End  record.Nanos
}

// ExpectedAt returns what must be listed from a moment on. An API server that an active fault
// keeps from running must leave the list; it is open for one that is hit otherwise, or whose
// fault may have been partly healed.
func (m *Case) ExpectedAt(t record.Nanos) Expected {
	e := Expected{want: m.APIServersAt(t), End: min(m.Run.EndAt, NextDisturbance(m.Run, t))}
	for _, inj := range m.Faults {
		switch {
		case inj.Injected == nil || inj.Healed != nil && inj.Healed.Called <= t:
		case inj.Injected.Called > t:
			e.End = min(e.End, inj.Injected.Called)
		default:
			if inj.Healed != nil {
				e.End = min(e.End, inj.Healed.Called)
			}
			for _, n := range inj.Nodes() {
				e.Hit = append(e.Hit, n)
				if address := m.Address(n); inj.KeepsAPIServerDown() {
					e.want = slices.DeleteFunc(e.want, func(a string) bool { return a == address })
				} else {
					e.open = append(e.open, address)
				}
			}
		}
	}
	e.want = e.settled(e.want)
	return e
}

// settled returns the addresses that are not open.
func (e Expected) settled(addresses []string) []string {
	return slices.DeleteFunc(slices.Clone(addresses), func(a string) bool { return slices.Contains(e.open, a) })
}

func (e Expected) String() string {
	if len(e.open) == 0 {
		return Bracketed(e.want)
	}
	return Bracketed(e.want) + " (and perhaps " + text.And(slices.Compact(slices.Sorted(slices.Values(e.open)))) + ")"
}

// Met reports whether a list of addresses is as it must be.
func (e Expected) Met(addresses []string) bool { return SameSet(e.settled(addresses), e.want) }

// Exceeded reports whether a list has all addresses that it must have, and others.
func (e Expected) Exceeded(addresses []string) bool {
	lacks := func(a string) bool { return !slices.Contains(addresses, a) }
	return !e.Met(addresses) && !slices.ContainsFunc(e.want, lacks)
}

// Settling is how a list of addresses reached its expected state.
type Settling struct {
	// Wrong is the last state that differs from the expected one, nil if none does; Last is the
	// last state, nil if the record has none.
	Wrong, Last *record.Timed[record.Endpoints]
	// Since is from when on the list is as expected, -1 if it is not.
	Since record.Nanos
}

// Settling returns how a list reached its expected state after a moment, until end.
func (e Expected) Settling(h History, from, end record.Nanos) Settling {
	s := Settling{Since: -1}
	for i := range h.States {
		state := &h.States[i]
		if state.At > end {
			break
		}
		s.Last = state
		switch {
		case !e.Met(state.V.Addresses):
			s.Wrong, s.Since = state, -1
		case s.Since < 0 && s.Wrong == nil:
			s.Since = from // nothing shows that it was not
		case s.Since < 0:
			s.Since = max(state.At, from)
		}
	}
	return s
}

// KeepsAPIServerDown reports whether the fault keeps API servers on its nodes from running until
// it is healed.
func (i *Injection) KeepsAPIServerDown() bool {
	f := i.Injected
	return i.Failed == nil && f.Has(record.EffectDown, record.EffectFrozen) && f.Hits("kube-apiserver")
}
