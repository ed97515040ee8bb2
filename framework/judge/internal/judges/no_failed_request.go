package judges

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

func noFailedRequest() Definition {
	return Definition{verdict.Doc{
		Name:       "no-failed-request",
		Guarantee:  "No request of a client of one entrance fails while the fault lasts, from the call for it to the call to heal it. One that an API server that shuts down asks to repeat (Retry-After) must succeed at the first repetition.",
		Source:     "Automated HA master deployment",
		NeedsFault: true,
		Params: map[string]string{
			"entrance": "the entrance to look at, or apiservers for each API server that the fault does not hit (default balancer)",
			"kinds":    "kinds of probes, as for availability (default " + facts.DefaultKinds + ")",
		},
	}, judgeNoFailedRequest}
}

// eachAPIServer means the entrances of all API servers that are not hit.
const eachAPIServer = "apiservers"

func judgeNoFailedRequest(m *facts.Matter) Finding {
	called, healed := m.Fault.Injected.Called, m.Fault.Healed.Called
	entrances := []string{m.Param("entrance", "balancer")}
	if entrances[0] == eachAPIServer {
		entrances = m.APIServers(m.HitBetween(called, healed)...)
	} else if !slices.Contains(m.Run.Meta.Entrances, entrances[0]) {
		return notApplicable("The cluster has no entrance %q.", entrances[0])
	}
	if len(entrances) == 0 {
		return Inconclusive("the record names no API server that the fault did not hit")
	}
	kinds, problem := probeKinds(m)
	if problem != nil {
		return *problem
	}
	var failures []string
	silent := "" // the kind that was not tried for too long
	var first, last record.Nanos
	asked, crossed := 0, 0
	repeated, unrepeated := 0, 0 // of those asked to retry: successful, and unknown
	fails := func(from, to record.Nanos, what string, crosses bool) {
		if crosses {
			crossed++
		}
		if len(failures) == 0 || from < first {
			first = from
		}
		last = max(last, to)
		failures = append(failures, what)
	}
	for _, e := range entrances {
		var during []record.Probe
		for _, p := range slices.Concat(m.Run.Probes, m.Run.ClientProbes) {
			switch pr := p.V; {
			case pr.Entrance != e || !slices.Contains(kinds, pr.Kind):
			case pr.Start >= called-record.Nanos(facts.QuietPeriod) && pr.End < called && !pr.OK:
				return Inconclusive("probes through %s failed before the fault already: %s", e, facts.DescribeProbe(pr))
			case pr.End >= called && pr.Start < healed:
				during = append(during, pr)
				what := e + ": " + facts.DescribeProbe(pr)
				switch again := pr.Again; {
				case pr.OK:
				case toldToRepeat(pr.Error, pr.RetryAfter) && again != nil && again.OK:
					repeated++
				case toldToRepeat(pr.Error, pr.RetryAfter) && again != nil:
					fails(pr.Start, again.End, what+", and once more "+text.When(again.Start)+" to "+text.When(again.End)+": "+again.Error, false)
				case toldToRepeat(pr.Error, pr.RetryAfter):
					unrepeated++
				default:
					fails(pr.Start, pr.End, what, pr.Reused && pr.Client == "" && pr.Kind == record.ProbeWrite && brokeOff(pr.Error))
				}
			}
		}
		slices.SortStableFunc(during, func(a, b record.Probe) int { return int(a.Start - b.Start) })
		// HTTP/1.1 probes of each kind must exist; the others may be missing.
		bare := slices.DeleteFunc(slices.Clone(during), func(p record.Probe) bool { return p.Client != "" })
		if missing := facts.MissingProbes(bare, kinds, called); missing != "" {
			return Inconclusive("too few probes through %s while the fault lasted: %s", e, missing)
		}
		if hole, from := facts.LongestHole(bare, called, healed); hole > time.Second {
			return Inconclusive("nothing probed %s for %s (from %s), so errors may have gone unseen", e, text.Short(hole), text.When(from))
		}
		if missing := facts.Unasked(bare, kinds, called, healed, facts.LongestSilence); missing != "" && silent == "" {
			silent = missing + " through " + e
		}
		asked += len(during)
		for _, o := range m.Run.Ops {
			// A response to the request, such as a conflict, is not a failure; a connection that
			// no server accepted is one.
			op := o.V
			if op.Entrance != e || op.API != "kubernetes" || op.Return < called || op.Call >= healed {
				continue
			}
			asked++
			switch {
			case op.Outcome == record.OK || facts.TurnedAway(op):
			case toldToRepeat(op.Error, op.RetryAfter):
				switch again := repetition(m, op); {
				case again == nil || op.RetryAfter == 0:
					unrepeated++
				case again.Outcome == record.OK || facts.TurnedAway(*again):
					repeated++
				default:
					fails(op.Call, again.Return, text.Describe(op)+", and once more "+text.Describe(*again), false)
				}
			default:
				fails(op.Call, op.Return, text.Describe(op), facts.IsWrite(op.Type) && brokeOff(op.Error))
			}
		}
		for i := range m.Run.Lists {
			l := &m.Run.Lists[i].V
			if l.Entrance != e || l.API != facts.APIKubernetes || l.Return < called || l.Call >= healed {
				continue
			}
			asked++
			// An answered list may have requested a version that the API server does not have.
			if l.Outcome != record.OK && l.Status == 0 {
				fails(l.Call, l.Return, fmt.Sprintf("list of %s through %s by %s (%s: %s), %s to %s", l.Collection, e, l.Client, l.Outcome, l.Error, text.When(l.Call), text.When(l.Return)), false)
			}
		}
	}
	if len(failures) == 1 && crossed == 1 {
		return Inconclusive("one write crossed with the end of the connection that it was sent on, which a server that closes an idle one cannot avoid: %s", failures[0])
	}
	if len(failures) > 0 {
		return Failed("A client of %s must see no failed request during the %s: %d of %d failed, the first one %s after the call for it (%s).",
			text.And(entrances), m.Fault.What(), len(failures), asked, text.Short(time.Duration(max(0, first-called))), failures[0]).
			counted("%d of %d", len(failures), asked).Rests(called, last).Shows(failures...)
	}
	if silent != "" {
		return Inconclusive("no %s, so errors may have gone unseen", silent)
	}
	if unrepeated > 0 {
		return Inconclusive("%s answered to try again, as the API server was shutting down, and the record does not show what became of that", requests(unrepeated))
	}
	told := ""
	if repeated > 0 {
		told = fmt.Sprintf("; %d of them %s answered to try again, as the API server was shutting down, and succeeded at the first repetition", repeated, text.Was(repeated))
	}
	return Passed("None of the %d requests through %s failed during the %s%s.", asked, text.And(entrances), m.Fault.What(), told).counted("0 of %d", asked)
}

func requests(n int) string {
	if n == 1 {
		return "1 request was"
	}
	return fmt.Sprintf("%d requests were", n)
}

// toldToRepeat reports whether an API server that is shutting down rejected a request before
// doing anything, and said when to retry: Kubernetes clients do that automatically
// (k8s.io/apiserver/pkg/server/filters/waitgroup.go and with_retry_after.go,
// k8s.io/client-go/rest/with_retry.go). For records without the second part only the first
// counts.
func toldToRepeat(problem string, retryAfter int) bool {
	return strings.Contains(problem, "apiserver is shutting down") && retryAfter >= 0
}

// repetition returns the next request of an operation's client through its entrance that was made
// no earlier than the server had asked for; nil if there is none.
func repetition(m *facts.Matter, op record.Op) *record.Op {
	for i := range m.Run.Ops {
		next := &m.Run.Ops[i].V
		if next.Client == op.Client && next.Entrance == op.Entrance && next.API == op.API &&
			next.Call >= op.Return+record.Nanos(time.Duration(op.RetryAfter)*time.Second) && next.Call > op.Call {
			return next
		}
	}
	return nil
}

// brokeOff reports whether a request failed because its connection closed. A server may close an
// idle connection while a request is on its way (RFC 9112, section 9.5); clients then retry reads
// but not writes.
func brokeOff(problem string) bool {
	return strings.Contains(problem, "EOF") || strings.Contains(problem, "connection reset") || strings.Contains(problem, "server closed idle connection")
}
