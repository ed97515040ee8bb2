package judges

import (
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var failsOver = Definition{Doc{
	Name:       "fails-over",
	Guarantee:  "A client with a list of addresses starts at a random one and moves on when a request fails: a request fails only if every address fails. One that an API server refuses because it is shutting down, with Retry-After, must succeed when it is retried.",
	Source:     "API server HA proposal, section 4.1",
	NeedsFault: true,
	Params: map[string]string{
		"faults": "all injections that such clients are to survive, separated by commas (default: the check's fault)",
	},
}, judgeFailsOver}

func judgeFailsOver(m *facts.Case) Finding {
	faults := m.Together()
	made := 0
	last := map[string]record.Op{} // of each client
	began := map[string]string{}   // its first address
	left := map[string]int{}       // how often a client left an address that was hit
	var noServer []string
	told := map[string]record.Op{} // clients that a server that shuts down asked to repeat a request
	for _, op := range record.Each(m.Run.Ops) {
		if op.Purpose != facts.PurposeFailover {
			continue
		}
		made++
		if facts.ToldToRepeat(op.Error, op.RetryAfter) {
			first, again := told[op.Client]
			if !again {
				told[op.Client] = op
			}
			if !again || op.Call < facts.RetryAt(first.Return, shutdownRetryAfter) {
				continue
			}
		}
		delete(told, op.Client)
		if op.Outcome != record.OK {
			server := answeredThroughout(m, op.Call, op.Return)
			if server != "" {
				return Failed("A client with a list of addresses must succeed as long as one of them answers: a request of %s failed (%s to %s), though the API server on %s answered others throughout.",
					op.Client, text.When(op.Call), text.When(op.Return), server).Rests(op.Call, op.Return).Shows(text.Describe(op)).
					exhibits(facts.Exhibit("A request failed while an API server answered", facts.Blamed(facts.OpSpan(op))))
			}
			noServer = append(noServer, text.Describe(op))
			continue
		}
		address := facts.HostOf(op.Address)
		if began[op.Client] == "" {
			began[op.Client] = address
		}
		if before, known := last[op.Client]; known && facts.HostOf(before.Address) != address && slices.ContainsFunc(faults, func(inj *facts.Injection) bool {
			return facts.HostOf(before.Address) == m.Address(inj.Node()) && op.Return >= inj.Injected.Called && before.Call < inj.Healed.Called
		}) {
			left[facts.HostOf(before.Address)]++
		}
		last[op.Client] = op
	}
	starts := map[string]bool{}
	for _, address := range began {
		starts[address] = true
	}
	switch {
	case len(told) > 0:
		return Inconclusive("%s with a list of addresses made no request after an API server that was shutting down had asked for a retry", text.Plural(len(told), "client"))
	case made == 0:
		return Inconclusive("no client with a list of addresses made a request")
	case len(noServer) > 0:
		return Inconclusive("%d requests of clients with a list of addresses failed, and no API server was seen to answer throughout", len(noServer)).Shows(noServer...)
	case len(left) == 0:
		return Inconclusive("no client used an API server that was hit, so %d requests prove nothing", made)
	case len(began) > 2 && len(starts) == 1:
		return Inconclusive("all %d clients started at the same address: nothing shows that they choose one at random", len(began))
	}
	moves := 0
	for _, n := range left {
		moves += n
	}
	return Passed("None of %d requests of %d clients with a list of addresses failed: they started at %d of these addresses, and moved on %d times from one that was hit.",
		made, len(began), len(starts), moves).counted("%d of %d requests", made, made)
}

// shutdownRetryAfter is after how many seconds an API server that is shutting down asks clients to
// retry (k8s.io/apiserver/pkg/server/filters/with_retry_after.go); these clients' records lack it.
const shutdownRetryAfter = 5

// probesAround is how long before and after a request probes count as evidence of which API
// servers answered at that time: each is probed more than once in it.
const probesAround = record.Nanos(time.Second)

// answeredThroughout returns a node whose API server answered every probe on new connections
// around a period, at least one before or in it and one after its start; empty for none.
func answeredThroughout(m *facts.Case, from, to record.Nanos) string {
	before, after, bad := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, p := range m.Run.Probes {
		switch pr := p.V; {
		case pr.Reused || pr.End < from-probesAround || pr.Start > to+probesAround:
		case !pr.OK:
			bad[pr.Entrance] = true
		default:
			before[pr.Entrance] = before[pr.Entrance] || pr.Start <= to
			after[pr.Entrance] = after[pr.Entrance] || pr.End >= from
		}
	}
	for _, name := range m.APIServers() {
		if before[name] && after[name] && !bad[name] {
			return name
		}
	}
	return ""
}
