package judges

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var requestsAnswered = Definition{Doc{
	Name:       "requests-answered",
	Guarantee:  "Requests that are in flight when the etcd leader is lost, through the API servers of surviving nodes, are answered within the bound.",
	Source:     "etcd (ServerConfig.ReqTimeout)",
	NeedsFault: true, NeedsBound: true,
}, judgeRequestsAnswered}

// enoughInFlight is how many requests must have been in flight for a pass.
const enoughInFlight = 3

// judgeRequestsAnswered checks each request in flight against the bound: those that were called
// before writes were acknowledged again and were unanswered when the fault took effect. A
// follower that forwarded a write to the old leader gives up after 5 s and two election timeouts
// (go.etcd.io/etcd/server/v3/config, ReqTimeout), even if there is a new leader. An error counts
// as an answer: the client learns that it must retry.
func judgeRequestsAnswered(m *facts.Case) Finding {
	from, to := m.Fault.Effect(), m.Fault.Healed.Called
	servers := m.APIServers(m.HitBetween(from, to)...)
	if len(servers) == 0 {
		return Inconclusive("the record names no API server on a surviving node")
	}
	until := to
	if first, _ := facts.AcknowledgedWithin(m.Run, servers, from, to); first != nil {
		until = first.Ret
	}
	r := requestsInFlight(m, servers, from, until)
	if r.late != nil {
		took := text.Span(r.late.Call, r.late.Return)
		return Failed("A request in flight when the etcd leader is lost must be answered within %s: the %s of %s through %s took %s (%s to %s).",
			m.Bound, text.Verb(*r.late), r.late.Key, r.late.Entrance, text.Short(took), text.When(r.late.Call), text.When(r.late.Return)).
			Took(took).Rests(r.late.Call, r.late.Return).Shows(text.Describe(*r.late))
	}
	if r.gaveUp != nil {
		return Inconclusive("whether the %s of %s through %s was answered within %s is not known: it ended without an answer after %s, or another fault hit meanwhile",
			text.Verb(*r.gaveUp), r.gaveUp.Key, r.gaveUp.Entrance, m.Bound, text.Short(text.Span(r.gaveUp.Call, r.gaveUp.Return))).Shows(text.Describe(*r.gaveUp))
	}
	if r.n < enoughInFlight {
		return Inconclusive("%s in flight through %s at the %s, fewer than the %d required for a verdict", text.Plural(r.n, "request"), text.And(servers), m.Fault.What(), enoughInFlight)
	}
	held := "none hung"
	if r.hung > 0 {
		held = fmt.Sprintf("%d hung (waited longer than 2E + M = %s for a new leader)", r.hung, text.Short(elected(m)))
	}
	took := text.Span(r.longest.Call, r.longest.Return)
	return Passed("Of %s in flight through %s at the %s, all were answered within %s; %s, the longest took %s.",
		text.Plural(r.n, "request"), text.And(servers), m.Fault.What(), m.Bound, held, text.Short(took)).Took(took).Shows(text.Describe(*r.longest))
}

// elected is how long it takes for a new leader to answer.
func elected(m *facts.Case) time.Duration {
	return 2*m.Run.Meta.Settings["E"] + m.Run.Meta.Settings["M"]
}

// inFlight sums up the requests in flight.
type inFlight struct {
	n, hung int        // hung: longer than a new leader takes to answer
	longest *record.Op // of all
	late    *record.Op // the longest of those that broke the bound
	gaveUp  *record.Op // one that may have broken it
}

func requestsInFlight(m *facts.Case, servers []string, from, until record.Nanos) (r inFlight) {
	longer := func(o, than *record.Op) bool {
		return than == nil || text.Span(o.Call, o.Return) > text.Span(than.Call, than.Return)
	}
	limit, next := m.Bound.Limit, m.NextInjection(from)
	for i := range m.Run.Ops {
		o := &m.Run.Ops[i].V
		if !facts.IsRegister(*o) || o.Purpose != "" || !slices.Contains(servers, o.Entrance) || o.Return <= from || o.Call >= until {
			continue
		}
		r.n++
		took := text.Span(o.Call, o.Return)
		responded := o.Outcome == record.OK || o.RetryAfter != 0 // a refusal always says whether to retry
		if took > elected(m) {
			r.hung++
		}
		switch {
		case took > limit && o.Call+record.Nanos(limit) < next:
			if longer(o, r.late) {
				r.late = o
			}
		case took > limit, took > m.Run.Meta.Settings["M"] && !responded:
			r.gaveUp = o
		}
		if longer(o, r.longest) {
			r.longest = o
		}
	}
	return r
}
