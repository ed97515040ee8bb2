package judge

import (
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func endpointsStable() definition {
	return definition{Doc{
		Name:       "endpoints-stable",
		Guarantee:  "While all API servers are up, the addresses in Endpoints and EndpointSlice of default/kubernetes never change; that is watched for as long as the bound says.",
		Source:     "apiserver-count fix proposal",
		NeedsBound: true,
	}, judgeEndpointsStable}
}

func judgeEndpointsStable(m *matter) finding {
	// API servers are up without either of these.
	from, to := m.quiet("kube-controller-manager", "kube-scheduler")
	want := m.apiServerAddresses()
	for _, n := range m.nodesWith("kube-apiserver") {
		if !sameProcess(m.run, n.Name, "kube-apiserver", m.firstLook(n.Name, from), to) {
			return inconclusive("the API server on %s was not seen to run throughout, so that its address may have come or gone with it", n.Name)
		}
	}
	all := histories(m.run)
	if missing := unseen(all); len(missing) > 0 {
		return inconclusive("the record has no reading of the %s of default/kubernetes", and(missing))
	}
	states, watched := 0, time.Duration(0)
	for i, h := range all {
		var whole, last *record.Timed[record.Endpoints] // since when it was the whole set
		for j := range h.states {
			s := &h.states[j]
			if s.At < from || s.At > to {
				continue
			}
			states++
			switch same := sameSet(s.V.Addresses, want); {
			case whole == nil && same:
				whole, last = s, s
			case whole == nil:
				// API servers that have just started are still to be listed.
			case !same:
				return failed("The addresses in default/kubernetes must not change while all API servers are up: %s held %s %s, and %s %s (version %s).",
					h, bracketed(last.V.Addresses), at(last.At), bracketed(s.V.Addresses), at(s.At), s.V.Revision).
					rests(last.At, s.At)
			default:
				last = s
			}
		}
		if whole == nil {
			return inconclusive("%s never held all API servers %s", h, bracketed(want))
		}
		if d := span(whole.At, last.At); i == 0 || d < watched {
			watched = d
		}
	}
	if watched < m.bound.Limit {
		return inconclusive("the addresses in default/kubernetes did not change, but were watched for only %s, less than %s", short(watched), m.bound).took(watched)
	}
	return passed("The addresses in default/kubernetes stayed %s for %s, longer than %s, as %d states show.", bracketed(want), short(watched), m.bound, states).took(watched)
}

// firstLook is when an API server's process was first seen, from from on where it
// was seen before.
func (m *matter) firstLook(node string, from record.Nanos) record.Nanos {
	for _, p := range m.run.Processes {
		if p.V.Node == node && p.V.Component == "kube-apiserver" {
			return max(p.At, from)
		}
	}
	return from
}
