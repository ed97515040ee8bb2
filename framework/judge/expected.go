package judge

import (
	"slices"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// expected is what the list of API servers must be from a moment on, until something
// else is done to the cluster.
type expected struct {
	want []string // addresses that must be listed, sorted
	open []string // addresses that may be listed or not
	hit  []string // nodes that faults hit all the while
	end  record.Nanos
}

// expectedAt returns what must be listed from a moment on. An API server that a fault
// in force keeps from running must leave the list; of one that is hit otherwise, or
// whose fault may have been healed by half, it is open.
func (m *matter) expectedAt(t record.Nanos) expected {
	e := expected{want: m.apiServersAt(t), end: min(m.run.EndAt, nextChange(m.run, t))}
	for _, inj := range m.faults {
		switch {
		case inj.injected == nil || inj.healed != nil && inj.healed.Called <= t:
		case inj.injected.Called > t:
			e.end = min(e.end, inj.injected.Called)
		default:
			if inj.healed != nil {
				e.end = min(e.end, inj.healed.Called)
			}
			for _, n := range inj.nodes() {
				e.hit = append(e.hit, n)
				if address := m.address(n); inj.keepsAPIServerDown() {
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
func (e expected) settled(addresses []string) []string {
	return slices.DeleteFunc(slices.Clone(addresses), func(a string) bool { return slices.Contains(e.open, a) })
}

func (e expected) String() string {
	if len(e.open) == 0 {
		return bracketed(e.want)
	}
	return bracketed(e.want) + " (and perhaps " + and(slices.Compact(slices.Sorted(slices.Values(e.open)))) + ")"
}

// met tells whether a list of addresses is as it must be.
func (e expected) met(addresses []string) bool { return sameSet(e.settled(addresses), e.want) }

// keepsAPIServerDown tells whether no API server can run on the fault's nodes until
// it is healed.
func (i *injection) keepsAPIServerDown() bool {
	f := i.injected
	switch f.Name {
	case "kill", "stop", "freeze":
		return i.failed == nil && f.Component == "kube-apiserver" && f.Params["restart"] != "true"
	case "power-off", "pause":
		return i.failed == nil
	}
	return false
}
