package judges

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var noFailedRequest = Definition{Doc{
	Name: "no-failed-request",
	Guarantee: "No request of a client of one entrance fails while the fault lasts, from the call to inject it to the call to heal it: no probe, read, write or list, and no attempt to open a watch. A request that an API server asks to repeat while it shuts down (Retry-After) must succeed at the first retry. " +
		"A list of a version that is compacted (410) or newer than the API server's cache (504) counts as answered.",
	Source:     "Automated HA master deployment",
	NeedsFault: true,
	Params: map[string]string{
		"entrance": "the entrance to check, or apiservers for each API server that the fault does not hit (default balancer)",
		"kinds":    "kinds of probes, as for availability (default " + facts.DefaultKinds + ")",
	},
}, judgeNoFailedRequest}

// eachAPIServer means the entrances of all API servers that are not hit.
const eachAPIServer = "apiservers"

func judgeNoFailedRequest(m *facts.Case) Finding {
	called, healed := m.Fault.Injected.Called, m.Fault.Healed.Called
	entrances := []string{m.Param("entrance", "balancer")}
	if entrances[0] == eachAPIServer {
		// An API server serves without the elected components of its node.
		entrances = m.APIServers(m.HitBetween(called, healed, "kube-apiserver", "etcd")...)
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
	silent := "" // the kind that was not tried for too long
	lists, watches := listsOf(m.Run), watchesOf(m.Run)
	t := &requests{m: m, from: called, to: healed, denied: facts.FalselyAbsent(m.Run)}
	for _, e := range entrances {
		var during []record.Probe
		for _, p := range slices.Concat(m.Run.Probes, m.Run.ClientProbes) {
			switch pr := p.V; {
			case pr.Entrance != e || !slices.Contains(kinds, facts.ProbeKind{Kind: pr.Kind, Reused: pr.Reused}):
			case pr.Start >= called-record.Nanos(facts.QuietPeriod) && pr.End < called && !pr.OK:
				return Inconclusive("probes through %s already failed before the fault: %s", e, facts.DescribeProbe(pr))
			case pr.End >= called && pr.Start < healed:
				during = append(during, pr)
				what := e + ": " + facts.DescribeProbe(pr)
				switch again := pr.Again; {
				case pr.OK:
				case facts.ToldToRepeat(pr.Error, pr.RetryAfter) && again != nil && again.OK:
					t.repeated++
				case facts.ToldToRepeat(pr.Error, pr.RetryAfter) && again != nil:
					t.fails(pr.Start, again.End, what+", and once more "+text.When(again.Start)+" to "+text.When(again.End)+": "+again.Error, false)
				case facts.ToldToRepeat(pr.Error, pr.RetryAfter):
					t.unrepeated++
				default:
					t.fails(pr.Start, pr.End, what, pr.Reused && pr.Client == "" && pr.Kind == record.ProbeWrite && brokeOff(pr.Error))
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
		t.asked += len(during)
		t.operations(e)
		t.openings(e, lists)
		t.openings(e, watches)
	}
	if len(t.failures) == 1 && t.crossed == 1 {
		return Inconclusive("one write raced with the closing of its connection, which a server that closes idle connections cannot avoid: %s", t.failures[0])
	}
	if len(t.failures) > 0 {
		return Failed("A client of %s must see no failed request during the %s: %d of %d failed, the first one %s after the call to inject it (%s).",
			text.And(entrances), m.Fault.What(), len(t.failures), t.asked, text.Short(time.Duration(max(0, t.first-called))), t.failures[0]).
			counted("%d of %d", len(t.failures), t.asked).Rests(called, t.last).Shows(t.failures...)
	}
	if silent != "" {
		return Inconclusive("no %s, so errors may have gone unseen", silent)
	}
	if t.unrepeated > 0 {
		return Inconclusive("%s answered with a request to retry, as the API server was shutting down, and the record does not show the retry", text.Plural(t.unrepeated, "request")+" "+text.Was(t.unrepeated))
	}
	if f := unused(m, entrances[0]); f != nil {
		return *f
	}
	told := ""
	if t.repeated > 0 {
		told = fmt.Sprintf("; %d of them %s answered with a request to retry, as the API server was shutting down, and succeeded at the first retry", t.repeated, text.Was(t.repeated))
	}
	return Passed("None of the %d requests through %s failed during the %s%s.", t.asked, text.And(entrances), m.Fault.What(), told).counted("0 of %d", t.asked)
}

// requests are those that clients made between two moments, and what became of them.
type requests struct {
	m                    *facts.Case
	from, to             record.Nanos
	asked                int
	repeated, unrepeated int // of those asked to retry: successful, and unknown
	failures             []string
	first, last          record.Nanos             // of the failures
	crossed              int                      // failures of writes that met the end of their connection
	denied               map[record.Op]*record.Op // see facts.FalselyAbsent
}

func (t *requests) fails(from, to record.Nanos, what string, crosses bool) {
	if crosses {
		t.crossed++
	}
	if len(t.failures) == 0 || from < t.first {
		t.first = from
	}
	t.last = max(t.last, to)
	t.failures = append(t.failures, what)
}

// operations adds the operations of the traffic's clients through an entrance. A response to the
// request, such as a conflict, is not a failure; a connection that no server accepted is one, and
// so is the response that a key does not exist which does. Bursts do not count, nor do checks of
// the control plane itself: what they ask for may have to be refused.
func (t *requests) operations(entrance string) {
	for _, op := range record.Each(t.m.Run.Ops) {
		if op.Purpose == facts.PurposeBurst || !facts.IsRegister(op) || op.Entrance != entrance || op.Return < t.from || op.Call >= t.to {
			continue
		}
		t.asked++
		switch w := t.denied[op]; {
		case w != nil:
			t.fails(op.Call, op.Return, fmt.Sprintf("%s, although %s had been acknowledged %s and nothing had deleted it", text.Describe(op), facts.WrittenAs(w), text.At(w.Return)), false)
		case op.Outcome == record.OK && !op.IsOther() || facts.TurnedAway(op):
		case facts.ToldToRepeat(op.Error, op.RetryAfter):
			switch again := repetition(t.m, op); {
			case again == nil || op.RetryAfter == 0:
				t.unrepeated++
			case t.denied[*again] == nil && (again.Outcome == record.OK && !again.IsOther() || facts.TurnedAway(*again)):
				t.repeated++
			default:
				t.fails(op.Call, again.Return, text.Describe(op)+", and once more "+text.Describe(*again), false)
			}
		default:
			t.fails(op.Call, op.Return, text.Describe(op), facts.IsWrite(op.Type) && brokeOff(op.Error))
		}
	}
}

// opening is a list, or an attempt to open a watch.
type opening struct {
	client, entrance string
	called, returned record.Nanos
	answered         bool // by an API server
	problem          string
	retryAfter       int
	describe         func() string
}

func listsOf(run *record.Run) (all []opening) {
	for i := range run.Lists {
		if l := &run.Lists[i].V; l.API == facts.APIKubernetes {
			all = append(all, opening{l.Client, l.Entrance, l.Call, l.Return, listAnswered(l), l.Error, l.RetryAfter, func() string { return describeList(l) }})
		}
	}
	return all
}

func watchesOf(run *record.Run) (all []opening) {
	for i := range run.Watches {
		if w := &run.Watches[i].V; w.API == facts.APIKubernetes && w.Phase != record.WatchEnded {
			all = append(all, opening{w.Client, w.Entrance, w.Called, w.Seen, !unopened(w), w.Error, w.RetryAfter, func() string { return describeRefusal(w) }})
		}
	}
	return all
}

// openings adds those of all that went through an entrance. A client that was asked to retry may
// have gone to another entrance instead, which says nothing about this one.
func (t *requests) openings(entrance string, all []opening) {
	for _, o := range all {
		if o.entrance != entrance || o.returned < t.from || o.called >= t.to {
			continue
		}
		t.asked++
		switch {
		case o.answered:
		case facts.ToldToRepeat(o.problem, o.retryAfter):
			switch again, elsewhere := o.repeated(all); {
			case o.retryAfter == 0 || again == nil && !elsewhere:
				t.unrepeated++
			case again == nil:
			case again.answered:
				t.repeated++
			default:
				t.fails(o.called, again.returned, o.describe()+", and once more "+again.describe(), false)
			}
		default:
			t.fails(o.called, o.returned, o.describe(), false)
		}
	}
}

// repeated returns the client's next request through the same entrance that was made no earlier
// than the server had asked for, nil if the client made none; elsewhere reports that it made one
// through another entrance meanwhile.
func (o opening) repeated(all []opening) (again *opening, elsewhere bool) {
	for i := range all {
		next := &all[i]
		if next.client != o.client || next.called <= o.called {
			continue
		}
		if next.entrance != o.entrance {
			elsewhere = true
		} else if next.called >= facts.RetryAt(o.returned, o.retryAfter) {
			return next, elsewhere
		}
	}
	return nil, elsewhere
}

// listAnswered reports whether an API server answered a list: with the list, or that it does not
// have the requested version, since that is compacted (410) or newer than its cache (504).
func listAnswered(l *record.List) bool {
	return l.Outcome == record.OK || l.Status == 410 || l.Status == 504 && l.Asked != ""
}

func describeList(l *record.List) string {
	return fmt.Sprintf("list of %s through %s by %s (%s: %s), %s to %s", l.Collection, l.Entrance, l.Client, l.Outcome, l.Error, text.When(l.Call), text.When(l.Return))
}

// unopened reports whether no API server answered the attempt to open a watch: with the watch, or
// that the request cannot be met, such as for a compacted version. A version may be newer than the
// API server's cache (504), and the client may have given up by its own decision. The clients may
// watch what they watch, and it exists, so 401, 403 and 404 are failures, as for lists.
func unopened(w *record.Watch) bool {
	switch {
	case w.Phase != record.WatchRefused:
		return false
	case w.Status == 0:
		return !strings.HasPrefix(w.Error, facts.ClientsOwn)
	case w.Status == 401, w.Status == 403, w.Status == 404:
		return true
	}
	return w.Status >= 500 && (w.Status != 504 || w.From == "")
}

func describeRefusal(w *record.Watch) string {
	return fmt.Sprintf("watch of %s through %s by %s, refused (%s), %s to %s", w.Collection, w.Entrance, w.Client, w.Error, text.When(w.Called), text.When(w.Seen))
}

// repetition returns the next request of an operation's client through its entrance that was made
// no earlier than the server had asked for; nil if there is none.
func repetition(m *facts.Case, op record.Op) *record.Op {
	for i := range m.Run.Ops {
		next := &m.Run.Ops[i].V
		if next.Client == op.Client && next.Entrance == op.Entrance && next.API == op.API &&
			next.Call >= facts.RetryAt(op.Return, op.RetryAfter) && next.Call > op.Call {
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
