package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func noFailedRequest() definition {
	return definition{Doc{
		Name:       "no-failed-request",
		Guarantee:  "No request of a client of one entrance fails while the fault lasts, from the call for it to the call to heal it. One that an API server that shuts down asks to repeat (Retry-After) must succeed at the first repetition.",
		Source:     "Automated HA master deployment",
		NeedsFault: true,
		Params: map[string]string{
			"entrance": "the entrance to look at, or apiservers for each API server that the fault does not hit (default balancer)",
			"kinds":    "kinds of probes, as for availability (default " + defaultKinds + ")",
		},
	}, judgeNoFailedRequest}
}

// eachAPIServer stands for the entrances of all API servers that are not hit.
const eachAPIServer = "apiservers"

func judgeNoFailedRequest(m *matter) finding {
	called, healed := m.fault.injected.Called, m.fault.healed.Called
	entrances := []string{m.param("entrance", "balancer")}
	if entrances[0] == eachAPIServer {
		entrances = m.apiServers(m.hitBetween(called, healed)...)
	} else if !slices.Contains(m.run.Meta.Entrances, entrances[0]) {
		return notApplicable("The cluster has no entrance %q.", entrances[0])
	}
	if len(entrances) == 0 {
		return inconclusive("the record names no API server that the fault did not hit")
	}
	kinds, problem := m.probeKinds()
	if problem != nil {
		return *problem
	}
	var failures []string
	silent := "" // of which kind too long nothing was tried
	var first, last record.Nanos
	asked, crossed := 0, 0
	repeated, unrepeated := 0, 0 // of those told to repeat: with success, and not known
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
		for _, p := range slices.Concat(m.run.Probes, m.run.ClientProbes) {
			switch pr := p.V; {
			case pr.Entrance != e || !slices.Contains(kinds, pr.Kind):
			case pr.Start >= called-record.Nanos(calm) && pr.End < called && !pr.OK:
				return inconclusive("probes through %s failed before the fault already: %s", e, describeProbe(pr))
			case pr.End >= called && pr.Start < healed:
				during = append(during, pr)
				what := e + ": " + describeProbe(pr)
				switch again := pr.Again; {
				case pr.OK:
				case toldToRepeat(pr.Error, pr.RetryAfter) && again != nil && again.OK:
					repeated++
				case toldToRepeat(pr.Error, pr.RetryAfter) && again != nil:
					fails(pr.Start, again.End, what+", and once more "+when(again.Start)+" to "+when(again.End)+": "+again.Error, false)
				case toldToRepeat(pr.Error, pr.RetryAfter):
					unrepeated++
				default:
					fails(pr.Start, pr.End, what, pr.Reused && pr.Client == "" && pr.Kind == record.ProbeWrite && brokeOff(pr.Error))
				}
			}
		}
		slices.SortStableFunc(during, func(a, b record.Probe) int { return int(a.Start - b.Start) })
		// Of each kind there must be probes of HTTP/1.1: of the others not all are there always.
		bare := slices.DeleteFunc(slices.Clone(during), func(p record.Probe) bool { return p.Client != "" })
		if missing := missingProbes(bare, kinds, called); missing != "" {
			return inconclusive("too few probes through %s while the fault lasted: %s", e, missing)
		}
		if hole, from := longestHole(bare, called, healed); hole > time.Second {
			return inconclusive("nothing probed %s for %s (from %s), so errors may have gone unseen", e, short(hole), when(from))
		}
		if missing := unasked(bare, kinds, called, healed, longestSilence); missing != "" && silent == "" {
			silent = missing + " through " + e
		}
		asked += len(during)
		for _, o := range m.run.Ops {
			// An answer to what was asked, such as a conflict, is no failure; a connection
			// that nobody took is one.
			op := o.V
			if op.Entrance != e || op.API != "kubernetes" || op.Return < called || op.Call >= healed {
				continue
			}
			asked++
			switch {
			case op.Outcome == record.OK || turnedAway(op):
			case toldToRepeat(op.Error, op.RetryAfter):
				switch again := m.repetition(op); {
				case again == nil || op.RetryAfter == 0:
					unrepeated++
				case again.Outcome == record.OK || turnedAway(*again):
					repeated++
				default:
					fails(op.Call, again.Return, describe(op)+", and once more "+describe(*again), false)
				}
			default:
				fails(op.Call, op.Return, describe(op), isWrite(op.Type) && brokeOff(op.Error))
			}
		}
	}
	if len(failures) == 1 && crossed == 1 {
		return inconclusive("one write crossed with the end of the connection that it was sent on, which a server that closes an idle one cannot avoid: %s", failures[0])
	}
	if len(failures) > 0 {
		return failed("A client of %s must see no failed request during the %s: %d of %d failed, the first one %s after the call for it (%s).",
			and(entrances), m.fault.what(), len(failures), asked, short(time.Duration(max(0, first-called))), failures[0]).
			counted("%d of %d", len(failures), asked).rests(called, last).shows(failures...)
	}
	if silent != "" {
		return inconclusive("no %s, so errors may have gone unseen", silent)
	}
	if unrepeated > 0 {
		return inconclusive("%s answered to try again, as the API server was shutting down, and the record does not show what became of that", requests(unrepeated))
	}
	told := ""
	if repeated > 0 {
		told = fmt.Sprintf("; %d of them %s answered to try again, as the API server was shutting down, and succeeded at the first repetition", repeated, was(repeated))
	}
	return passed("None of the %d requests through %s failed during the %s%s.", asked, and(entrances), m.fault.what(), told).counted("0 of %d", asked)
}

func was(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

func requests(n int) string {
	if n == 1 {
		return "1 request was"
	}
	return fmt.Sprintf("%d requests were", n)
}

// toldToRepeat reports whether an API server that is shutting down turned a request away
// before anything was done, and said when to try again: Kubernetes clients do that
// automatically (k8s.io/apiserver/pkg/server/filters/waitgroup.go and with_retry_after.go,
// k8s.io/client-go/rest/with_retry.go). Of records that do not have the second part only
// the first counts.
func toldToRepeat(problem string, retryAfter int) bool {
	return strings.Contains(problem, "apiserver is shutting down") && retryAfter >= 0
}

// repetition returns the next request of an operation's client through its entrance that
// was made no earlier than the server had asked for; nil if there is none.
func (m *matter) repetition(op record.Op) *record.Op {
	for i := range m.run.Ops {
		next := &m.run.Ops[i].V
		if next.Client == op.Client && next.Entrance == op.Entrance && next.API == op.API &&
			next.Call >= op.Return+record.Nanos(time.Duration(op.RetryAfter)*time.Second) && next.Call > op.Call {
			return next
		}
	}
	return nil
}

// brokeOff tells whether a request failed because its connection ended. A server may
// close one that is idle while a request is on its way to it (RFC 9112, section 9.5);
// clients repeat reads then, but no writes.
func brokeOff(problem string) bool {
	return strings.Contains(problem, "EOF") || strings.Contains(problem, "connection reset") || strings.Contains(problem, "server closed idle connection")
}
