package facts

import (
	"cmp"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// Try is a write of one client or prober.
type Try struct {
	Attempt
	// Answered reports whether an API server did what was requested, or rightly rejected the request
	// for its content: a lost compare-and-swap is not a failure of the cluster.
	Answered bool
}

// TurnedAway reports whether an API server refused a request because of its content: a stale or
// compacted version, a key that exists already or does not exist, an invalid object. A 404 for the
// namespace of the traffic does not count, since that exists; nor should one for a key that does:
// see FalselyAbsent.
func TurnedAway(op record.Op) bool {
	return op.Outcome == record.Refused && !strings.HasPrefix(op.Error, "status 404 (NotFound): namespaces ") && slices.ContainsFunc(turnedAwayWith, func(status string) bool { return strings.HasPrefix(op.Error, status) })
}

var turnedAwayWith = []string{"status 404 (NotFound)", "status 409 (", "status 410 (", "status 422 ("}

// FalselyAbsent returns the writes that an API server refused because their key did not exist,
// although it did: each with a write of that key that had been acknowledged before and that
// nothing can have deleted. A cluster that was restored may lack what was written.
func FalselyAbsent(run *record.Run) map[record.Op]*record.Op {
	for _, f := range run.Faults {
		if f.V.Has(record.EffectRestored) {
			return nil
		}
	}
	var known WriteLog
	all := map[record.Op]*record.Op{}
	for _, op := range OwnOps(run) {
		if !IsRegister(op) || !IsWrite(op.Type) || op.Outcome != record.Refused || op.Refusal != record.RefusedAbsent {
			continue
		}
		if known == nil {
			known = NewWriteLog(run)
		}
		if w := known.StaleAgainst(op); w != nil {
			all[op] = w
		}
	}
	return all
}

// WriteSeries returns the writes that each client and each prober tried, in the order
// of their calls, apart from bursts.
func WriteSeries(run *record.Run) map[string][]Try {
	series, denied := map[string][]Try{}, FalselyAbsent(run)
	for _, o := range run.Ops {
		if op := o.V; IsRegister(op) && IsWrite(op.Type) && op.Purpose != PurposeBurst {
			a := Attempt{op.Call, op.Return, op.Outcome == record.OK, op.Unsent, text.Describe(op)}
			name := "client " + op.Client
			series[name] = append(series[name], Try{a, a.OK || TurnedAway(op) && denied[op] == nil})
		}
	}
	for _, p := range run.Probes {
		if pr := p.V; pr.Kind == record.ProbeWrite {
			name := "write probe through " + pr.Entrance
			if pr.Reused {
				name += " on a persistent connection"
			}
			series[name] = append(series[name], Try{Attempt{pr.Start, pr.End, pr.OK, pr.Unsent, name + " " + text.At(pr.Start)}, pr.OK})
		}
	}
	for _, all := range series {
		slices.SortStableFunc(all, func(a, b Try) int { return cmp.Compare(a.Call, b.Call) })
	}
	return series
}
