package judges

import (
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var endpointsStable = Definition{Doc{
	Name:       "endpoints-stable",
	Needs:      []record.Access{record.Processes},
	Guarantee:  "While all API servers are up, the addresses in Endpoints and EndpointSlice of default/kubernetes never change; they are observed for as long as the bound says.",
	Source:     "apiserver-count fix proposal",
	NeedsBound: true,
}, judgeEndpointsStable}

func judgeEndpointsStable(m *facts.Case) Finding {
	// API servers are up without either of these.
	from, to := m.Quiet("kube-controller-manager", "kube-scheduler")
	want := m.APIServersAt(0) // as the cluster started
	for _, n := range m.NodesWith("kube-apiserver") {
		if !facts.SameProcess(m.Run, n.Name, "kube-apiserver", firstLook(m, n.Name, from), to) {
			return Inconclusive("the API server on %s was not seen to run throughout, so its address may have come or gone with it", n.Name)
		}
	}
	all := facts.Histories(m.Run)
	if missing := facts.Unseen(all); len(missing) > 0 {
		return Inconclusive("the record has no reading of the %s of default/kubernetes", text.And(missing))
	}
	states, watched := 0, time.Duration(0)
	for i, h := range all {
		var whole, last *record.Timed[record.Endpoints] // since when it was the whole set
		for j := range h.States {
			s := &h.States[j]
			if s.At < from || s.At > to {
				continue
			}
			states++
			switch same := facts.SameSet(s.V.Addresses, want); {
			case whole == nil && same:
				whole, last = s, s
			case whole == nil:
				// API servers that have just started are still to be listed.
			case !same:
				return Failed("The addresses in default/kubernetes must not change while all API servers are up: %s held %s %s, and %s %s (version %s).",
					h, facts.Bracketed(last.V.Addresses), text.At(last.At), facts.Bracketed(s.V.Addresses), text.At(s.At), s.V.Revision).
					Rests(last.At, s.At)
			default:
				last = s
			}
		}
		if whole == nil {
			return Inconclusive("%s never held all API servers %s", h, facts.Bracketed(want))
		}
		if d := text.Span(whole.At, last.At); i == 0 || d < watched {
			watched = d
		}
	}
	// The bound is a minimum, so the time is not a share of it.
	if watched < m.Bound.Limit {
		return Inconclusive("the addresses in default/kubernetes did not change, but were watched for only %s, less than %s", text.Short(watched), m.Bound).counted("%s", text.Short(watched))
	}
	return Passed("The addresses in default/kubernetes stayed %s for %s, longer than %s, as %d states show.", facts.Bracketed(want), text.Short(watched), m.Bound, states).counted("%s", text.Short(watched))
}

// firstLook is when an API server's process was first seen, or from if it was seen before that.
func firstLook(m *facts.Case, node string, from record.Nanos) record.Nanos {
	for _, p := range m.Run.Processes {
		if p.V.Node == node && p.V.Component == "kube-apiserver" {
			return max(p.At, from)
		}
	}
	return from
}
