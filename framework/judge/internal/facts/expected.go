package facts

import (
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// Expected is what the list of API servers must be from a moment on, until something
// else is done to the cluster.
type Expected struct {
	want []string // addresses that must be listed, sorted
	open []string // addresses that may be listed or not
	Hit  []string // nodes that faults hit all the while
	End  record.Nanos
}

// ExpectedAt returns what must be listed from a moment on. An API server that a fault
// active keeps from running must leave the list; of one that is hit otherwise, or
// whose fault may have been healed by half, it is open.
func (m *Matter) ExpectedAt(t record.Nanos) Expected {
	e := Expected{want: m.apiServersAt(t), End: min(m.Run.EndAt, NextChange(m.Run, t))}
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

// settled returns those of some addresses that are not open.
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

// Settling is how a list of addresses came to be what it must be.
type Settling struct {
	// Wrong is the last state that is not as it must be, nil if all are; Last is the last
	// state, nil if the record has none.
	Wrong, Last *record.Timed[record.Endpoints]
	// Since is from when on the list is as it must be, -1 if it is not.
	Since record.Nanos
}

// Settling returns how a list came to be as it must be after a moment, until end.
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
		case s.Since < 0:
			s.Since = max(state.At, from)
		}
	}
	return s
}

// KeepsAPIServerDown reports whether no API server can run on the fault's nodes until
// it is healed.
func (i *Injection) KeepsAPIServerDown() bool {
	f := i.Injected
	return i.Failed == nil && f.Has(record.EffectDown, record.EffectFrozen) && f.Hits("kube-apiserver")
}
