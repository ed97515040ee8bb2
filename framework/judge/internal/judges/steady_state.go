package judges

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var steadyState = Definition{Doc{
	Name:      "steady-state",
	Invariant: "HA-INV-010",
	Guarantee: "Everything is in its steady state before the experiment and again after healing: members and API servers within the recovery limit; leases of elected components, addresses of API servers, writes and watches through each API server and connections between nodes each within a limit of its own.",
	Source:    "The recovery limit of the catalogue",
}, judgeSteadyState}

func judgeSteadyState(m *facts.Case) Finding {
	var before, after *record.Timed[record.Steady]
	for i := range m.Run.Steadies {
		s := &m.Run.Steadies[i]
		switch {
		case s.V.Phase == "before" && (before == nil || before.V.OK):
			before = s
		case s.V.Phase == "after" && (after == nil || lateness(s.V) > lateness(after.V) || lateness(s.V) == recovered && s.V.Took > after.V.Took):
			after = s
		}
	}
	switch {
	case before == nil:
		return Inconclusive("the baseline was not checked: the record has no steady-state check before the experiment")
	case !before.V.OK:
		return Inconclusive("the baseline was unhealthy: %s", facts.Problems(before.V))
	case facts.BrokenFromTheStart(m.Run) != "":
		return Inconclusive("%s", facts.BrokenFromTheStart(m.Run))
	case after == nil:
		return Inconclusive("the record has no steady-state check after the experiment")
	}
	outstanding, since, last, limit := partsOutstanding(m.Run)
	unseen := partsUnseen(m.Run)
	late := !after.V.OK || lateness(after.V) != recovered || len(outstanding) > 0
	for _, id := range slices.Sorted(maps.Keys(m.Faults)) {
		// A fault that may still be active is not the cluster's doing.
		switch inj := m.Faults[id]; {
		case inj.Failed != nil && inj.Injected != nil && inj.Healed == nil:
			return Inconclusive("the healing of fault %q failed, so it may still be active: %s", id, inj.Failed.Error)
		case inj.Failed != nil && inj.Injected == nil && !inj.Impossible() && !inj.Failed.Untouched && late:
			return Inconclusive("the injection of fault %q failed, and parts of it may have been active: %s", id, inj.Failed.Error)
		}
	}
	for _, c := range slices.Concat(m.Run.Nodes, m.Run.Changes) {
		// One that the cluster lacks an ability for was not begun, unless on a node.
		if c.V.Phase == record.NodeFailed && (c.V.Missing == "" || c.V.Node.Name != "") {
			return Inconclusive("the nodes could not be changed, so parts of the attempt may still be active: %s", c.V.Error)
		}
	}
	s := after.V
	from := after.At - record.Nanos(max(s.Took, s.Limit))
	f := Passed("The steady state held before the experiment, and again %s after it, within the recovery limit of %s. %s",
		text.Short(s.Took), text.Short(s.Limit), partsSteady(m.Run))
	switch {
	case !s.OK:
		f = Failed("Everything must be back to its steady state within the recovery limit of %s: after %s it was not: %s.",
			text.Short(s.Limit), text.Short(s.Took), facts.Problems(s)).Rests(from, after.At)
	case len(outstanding) > 0:
		return bounded(verdict.Bound{Formula: "the limit of that part", Inputs: map[string]time.Duration{}, Limit: limit})(
			Failed("Everything must be back to its steady state after healing, each part within its limit; not steady again: %s.",
				strings.Join(outstanding, "; ")).Rests(since, last).Took(text.Span(since, last)))
	case lateness(s) == backingOff:
		return Inconclusive("it took %s until the steady state held again, longer than the recovery limit of %s, but after a fault that lasted this long the back-off of TCP and gRPC can take up to %s",
			text.Short(s.Took), text.Short(s.Limit), text.Short(s.Unbounded)).Took(s.Took)
	case lateness(s) == tooLate:
		f = Failed("Everything must be back to its steady state within the recovery limit of %s: it took %s.",
			text.Short(s.Limit), text.Short(s.Took)).Rests(from, after.At)
	case len(unseen) > 0:
		f = Inconclusive("it is not known whether each part was back to its steady state within its limit: %s", strings.Join(unseen, "; "))
	}
	return bounded(verdict.Bound{Formula: "recovery limit", Inputs: map[string]time.Duration{}, Limit: s.Limit})(f.Took(s.Took))
}

// How late a cluster was steady again.
const (
	recovered  = iota
	backingOff // later than the limit, but connections may back off for as long
	tooLate
)

func lateness(s record.Steady) int {
	switch {
	case !s.OK || s.Limit > 0 && s.Took > max(s.Limit, s.Unbounded):
		return tooLate
	case s.Limit > 0 && s.Took > s.Limit:
		return backingOff
	}
	return recovered
}

// partsOutstanding describes the parts that were not steady again within their limits, when they
// were followed, and the longest limit.
func partsOutstanding(run *record.Run) (outstanding []string, since, last record.Nanos, limit time.Duration) {
	since = run.EndAt
	for _, s := range run.Steadies {
		if s.V.Phase == record.SteadyPart && !s.V.OK {
			outstanding = append(outstanding, fmt.Sprintf("%s (not within %s, checked for %s: %s)", s.V.Part, text.Short(s.V.Limit), text.Short(s.V.Took), facts.Problems(s.V)))
			since, last, limit = min(since, s.At-record.Nanos(s.V.Took)), max(last, s.At), max(limit, s.V.Limit)
		}
	}
	return outstanding, since, last, limit
}

// partsUnseen describes the parts that were not checked until their limits were over.
func partsUnseen(run *record.Run) (unseen []string) {
	for _, s := range run.Steadies {
		if s.V.Phase == record.SteadyPart && s.V.First > 0 && s.V.OK && s.V.Took > s.V.Limit+run.Meta.Settings["M"] {
			unseen = append(unseen, fmt.Sprintf("%s was steady when it was checked after %s, later than %s", s.V.Part, text.Short(s.V.Took), text.Short(s.V.Limit)))
		}
	}
	return unseen
}

// partsSteady describes how long each part took at most, and which ones are not known, as in
// records from before they were checked.
func partsSteady(run *record.Run) string {
	var steady, unknown []string
	for _, kind := range []struct{ part, name string }{
		{record.PartLease, "leases"}, {record.PartListed, "addresses of API servers"}, {record.PartUnlisted, "removal of other addresses"},
		{record.PartRequests, record.PartRequests}, {record.PartConnections, record.PartConnections},
	} {
		known, took := false, time.Duration(0)
		for _, s := range run.Steadies {
			if s.V.Phase == record.SteadyPart && strings.HasPrefix(s.V.Part, kind.part) {
				known, took = true, max(took, s.V.Took)
			}
		}
		if known {
			steady = append(steady, fmt.Sprintf("%s after %s", kind.name, text.Short(took)))
		} else {
			unknown = append(unknown, kind.name)
		}
	}
	says := ""
	if len(steady) > 0 {
		says = "The slowest of each kind: " + strings.Join(steady, ", ") + ". "
	}
	if len(unknown) > 0 {
		says += "Not judged, since the record does not show them: " + strings.Join(unknown, ", ") + "."
	}
	return strings.TrimSpace(says)
}
