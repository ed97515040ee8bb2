package judge

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func requestsAnswered() definition {
	return definition{Doc{
		Name:       "requests-answered",
		Guarantee:  "Requests that are in flight when the etcd leader is lost, through the API servers of surviving nodes, are answered within the bound.",
		Source:     "etcd (ServerConfig.ReqTimeout)",
		NeedsFault: true, NeedsBound: true,
	}, judgeRequestsAnswered}
}

// enoughInFlight is how many requests must have been in flight for a pass.
const enoughInFlight = 3

// judgeRequestsAnswered holds each request in flight against the bound: those that were
// called before writes were acknowledged again, and not answered when the fault took effect.
// A follower has forwarded a write to the old leader and gives it up after 5 s and two
// election timeouts (go.etcd.io/etcd/server/v3/config, ReqTimeout), even if there is a new leader by then.
// An error is an answer as well: the client learns that it has to ask again.
func judgeRequestsAnswered(m *matter) finding {
	from, to := m.fault.effect(), m.fault.healed.Called
	servers := m.apiServers(m.hitBetween(from, to)...)
	if len(servers) == 0 {
		return inconclusive("the record names no API server on a surviving node")
	}
	until := to
	if first, _ := acknowledgedWithin(m.run, servers, from, to); first != nil {
		until = first.ret
	}
	r := m.requestsInFlight(servers, from, until)
	if r.late != nil {
		took := span(r.late.Call, r.late.Return)
		return failed("A request in flight when the etcd leader is lost must be answered within %s: the %s of %s through %s took %s (%s to %s).",
			m.bound, verb(*r.late), r.late.Key, r.late.Entrance, short(took), when(r.late.Call), when(r.late.Return)).
			took(took).rests(r.late.Call, r.late.Return).shows(describe(*r.late))
	}
	if r.gaveUp != nil {
		return inconclusive("whether the %s of %s through %s was answered within %s cannot be told: it ended without an answer after %s, or another fault hit meanwhile",
			verb(*r.gaveUp), r.gaveUp.Key, r.gaveUp.Entrance, m.bound, short(span(r.gaveUp.Call, r.gaveUp.Return))).shows(describe(*r.gaveUp))
	}
	if r.n < enoughInFlight {
		return inconclusive("%s in flight through %s at the %s, and it takes %d to say anything", plural(r.n, "request"), and(servers), m.fault.what(), enoughInFlight)
	}
	held := "none hung"
	if r.hung > 0 {
		held = fmt.Sprintf("%d hung (longer than 2E + M = %s, by when a new leader answers)", r.hung, short(m.elected()))
	}
	took := span(r.longest.Call, r.longest.Return)
	return passed("Of %s in flight through %s at the %s, all were answered within %s; %s, the longest took %s.",
		plural(r.n, "request"), and(servers), m.fault.what(), m.bound, held, short(took)).took(took).shows(describe(*r.longest))
}

// elected is how long it takes until a new leader answers.
func (m *matter) elected() time.Duration {
	return 2*m.run.Meta.Settings["E"] + m.run.Meta.Settings["M"]
}

// inFlight sums up the requests in flight.
type inFlight struct {
	n, hung int        // hung: longer than it takes until a new leader answers
	longest *record.Op // of all
	late    *record.Op // the longest of those that broke the bound
	gaveUp  *record.Op // one of which it cannot be told whether it did
}

func (m *matter) requestsInFlight(servers []string, from, until record.Nanos) (r inFlight) {
	longer := func(o, than *record.Op) bool {
		return than == nil || span(o.Call, o.Return) > span(than.Call, than.Return)
	}
	limit, next := m.bound.Limit, m.nextInjection(from)
	for _, o := range m.requestsThrough(servers) {
		if o.Return <= from || o.Call >= until {
			continue
		}
		r.n++
		took := span(o.Call, o.Return)
		if took > m.elected() {
			r.hung++
		}
		switch {
		case took > limit && o.Call+record.Nanos(limit) < next:
			if longer(&o, r.late) {
				r.late = &o
			}
		case took > limit, took > m.run.Meta.Settings["M"] && !replied(o):
			r.gaveUp = &o
		}
		if longer(&o, r.longest) {
			r.longest = &o
		}
	}
	return r
}

// requestsThrough returns the requests of the traffic through API servers.
func (m *matter) requestsThrough(servers []string) (all []record.Op) {
	for _, o := range m.run.Ops {
		if isRegister(o.V) && o.V.Purpose == "" && slices.Contains(servers, o.V.Entrance) {
			all = append(all, o.V)
		}
	}
	return all
}

// replied reports whether an operation ended with an answer of the server: what a server
// refuses always says whether to try again.
func replied(o record.Op) bool { return o.Outcome == record.OK || o.RetryAfter != 0 }
