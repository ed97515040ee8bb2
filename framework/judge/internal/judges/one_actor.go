package judges

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var oneActor = Definition{Doc{
	Name:      "one-actor",
	Needs:     []record.Access{record.AuditLogs},
	Invariant: "HA-INV-008",
	Guarantee: "Two instances of an elected component never act at the same time for longer than its election allows: once another has taken over, the previous one changes nothing more, nor does one that has released its lease, and no instance takes a valid lease from an active one. The verdict reports how often and for how long two acted.",
	Source:    "Automated HA master deployment; the checks of every run of the catalogue",
}, judgeOneActor}

// judgeOneActor rests on how long client-go's election lets an instance act: the instance tries to
// renew its lease P after the last renewal, and stops when that has failed for R, as it does once
// another instance has taken over. So an action breaks the guarantee if its API server received it
// after another instance had taken over and that time had passed. A frozen instance tries again
// when it is thawed, and has R from then. No such time is allowed if the other one took over a
// valid lease; see takenWhileValid. Nor is it after the instance released its lease, which it may do
// only once it has stopped its work (ReleaseOnCancel in k8s.io/client-go/tools/leaderelection). Three
// more things are allowed for: clocks (M), a request that was received before and only completed
// afterwards, and one that waited unread in front of an API server that stood still. An attempt
// without effect is not an action; events are left out because they report, from a queue, what was
// done before.
func judgeOneActor(m *facts.Case) Finding {
	s := m.Run.Meta.Settings
	if s["R"] <= 0 || s["M"] <= 0 {
		return notApplicable("The record does not show how long a holder may act without renewing its lease.")
	}
	var told []string
	acts, doubtful := 0, 0
	unrecorded := ""                // a holder of whose actions nothing is known
	var unknown, unowned *facts.Act // one whose time is not known, and one whose instance is not
	var besides []string            // who acted beside whom
	var longest *facts.Overlap
	for _, component := range ElectedComponents(m.Run) {
		d := facts.ActionsOf(m.Run, component, s["M"])
		doubtful += len(d.Doubtful)
		overlaps, unseen, f := afterTakeover(d, m)
		if f != nil {
			return *f
		}
		for i, o := range overlaps {
			besides = append(besides, o.String())
			if longest == nil || o.Took > longest.Took {
				longest = &overlaps[i]
			}
		}
		if f := cmp.Or(withoutElection(d, m), takenByTurns(d, m)); f != nil {
			return *f
		}
		if unknown == nil {
			unknown = cmp.Or(unseen, d.Untimed(m))
		}
		if unowned == nil && len(d.Unattributed) > 0 {
			unowned = &d.Unattributed[0]
		}
		if node := d.Unrecorded(m); node != "" {
			unrecorded = component + " on " + node
		}
		if acts += len(d.Acts); len(d.Acts) > 0 {
			told = append(told, component+" on "+turns(d))
		}
	}
	switch {
	case unrecorded != "":
		return Inconclusive("the record does not show what %s did: it was seen to renew its lease, and no audit log contains the renewal", unrecorded)
	case unowned != nil:
		return Inconclusive("the record does not show which instance of %s acted %s, since the source address of the request is not a node's: %s",
			unowned.Component, text.At(unowned.Received), facts.DescribeAction(unowned.Action))
	case acts == 0 && doubtful > 0:
		return Inconclusive("the clocks of the API servers do not agree with the harness's: none of %d actions of elected components can be compared with the others", doubtful)
	case unknown != nil:
		return Inconclusive("the clock of the API server on %s does not agree with the harness's, by which %s on %s acted %s, when it may no longer have held the lease: %s",
			unknown.Via, unknown.Component, unknown.Node, text.At(unknown.Received), facts.DescribeAction(unknown.Action))
	case acts == 0:
		return notApplicable("The record shows no change by an elected component.")
	}
	// Older records do not show that logs are read.
	read := slices.ContainsFunc(m.Run.Asked, func(a record.Timed[record.Action]) bool { return a.V.Verb == "" })
	if node := m.UnreadLog(facts.Gap{To: m.Run.EndAt}); read && node != "" {
		return Inconclusive("the audit log of the API server on %s was not read to the end, and may contain more actions of elected components", node)
	}
	f := Passed("One instance of each elected component acted at a time: %s.", strings.Join(told, "; ")).number(acts, "action")
	if longest != nil {
		f.Sentence = fmt.Sprintf("Two instances of an elected component acted at the same time for no longer than its election allows: %s. In all: %s.",
			strings.Join(besides, "; "), strings.Join(told, "; "))
		f.Measured += fmt.Sprintf(", two acted for %s", text.Short(longest.Took))
	}
	if doubtful > 0 {
		f = f.Shows(fmt.Sprintf("%d actions are left out, since the clock of their API server does not agree with the harness's", doubtful))
	}
	return f
}

// ElectedComponents returns those that acted and those that have a lease, apart from those of
// further leases: what these do is not recorded.
func ElectedComponents(run *record.Run) []string {
	var names []string
	for _, a := range run.Actions {
		if a.V.Component != facts.AddonManager {
			names = append(names, a.V.Component)
		}
	}
	for _, l := range run.Leases {
		names = append(names, l.V.Name)
	}
	slices.Sort(names)
	further := facts.FurtherLeases(run)
	return slices.DeleteFunc(slices.Compact(names), func(n string) bool { return slices.Contains(further, n) })
}

// afterTakeover returns how instances acted beside others that had taken over from them,
// in the order of the first such actions. A finding is of one that did for longer than
// the election allows, unless a lease write of unknown time may allow it.
func afterTakeover(d facts.Actions, m *facts.Case) (overlaps []facts.Overlap, unseen *facts.Act, f *Finding) {
	s := m.Settings(d.Component)
	for _, act := range d.Acts {
		own, rival := d.Lease(act)
		if rival == nil || act.Received <= rival.Completed {
			continue
		}
		// One that was not seen to renew can have done so until then.
		last := rival.Completed
		if own != nil {
			last = own.Completed
		}
		end := max(last+record.Nanos(s["P"]+s["R"]+s["M"]), rival.Completed+record.Nanos(s["M"]))
		released := releasedBy(m, d.Component, act.Node, own)
		if released > 0 {
			end = released + record.Nanos(s["M"])
		}
		if thawed := m.Thawed(d.Component, act.Node, act.Received); thawed > 0 {
			end = max(end, thawed+record.Nanos(s["R"]+s["M"]))
		}
		if f := takenWhileValid(d, m, act, own, rival); f != nil {
			return nil, nil, f
		}
		if act.Received <= end {
			i := slices.IndexFunc(overlaps, func(o facts.Overlap) bool { return o.Node == act.Node && o.Rival == rival.Node })
			if i < 0 {
				i = len(overlaps)
				overlaps = append(overlaps, facts.Overlap{Component: d.Component, Node: act.Node, Rival: rival.Node})
			}
			o := &overlaps[i]
			o.Times++
			if took := text.Span(rival.Completed, act.Received); took >= o.Took {
				o.Took, o.Allowed = took, text.Span(rival.Completed, end)
			}
			continue
		}
		if m.MayHaveWaited(act, end) {
			continue
		}
		if write := d.Unseen(act, own, s["M"]); write != nil {
			unseen = cmp.Or(unseen, write)
			continue
		}
		renewed := "was not seen to renew its lease before"
		switch {
		case released > 0:
			renewed = "had released its lease by " + text.When(released)
		case own != nil:
			renewed = "had renewed its lease last " + text.At(own.Completed)
		}
		return nil, nil, Failed("Two instances of %s must never act at the same time: the one on %s had taken over by %s, and the one on %s, which %s, acted %s: %s.",
			d.Component, rival.Node, text.When(rival.Completed), act.Node, renewed, text.At(act.Received), facts.DescribeAction(act.Action)).
			Rests(max(end, act.Received-record.Nanos(s["R"])), act.Received).
			Shows("taken over: "+facts.DescribeAction(rival.Action), "acted nonetheless: "+facts.DescribeAction(act.Action)).problem()
	}
	return overlaps, unseen, nil
}

// releasedBy returns by when the instance on a node had released the lease of a component, which it
// had written last with own, and another one held it next; 0 if it was not seen to. A fault may have
// taken the lease from it before.
func releasedBy(m *facts.Case, component, node string, own *facts.Act) record.Nanos {
	if own == nil || own.Name != component {
		return 0
	}
	states := slices.CompactFunc(facts.LeaseStates(m.Run, component, 0, m.Run.EndAt), func(a, b record.Timed[record.Lease]) bool {
		return a.V.Revision == b.V.Revision
	})
	for i := 1; i < len(states)-1; i++ {
		before, s, next := states[i-1].V, states[i], states[i+1].V
		if s.V.Holder == "" && record.Number(s.V.Revision) > 0 && facts.HolderNode(before) == node && facts.HolderNode(next) != node &&
			own.Received <= s.At && !m.LeasesChanged(own.Received, s.At) {
			return s.At
		}
	}
	return 0
}

// takenWhileValid finds an instance that acts after another one took its lease over, earlier after
// its last renewal than the lease lasts. Then the election allows no overlap at all. It may do so
// where the instance released the lease, as one that exits does, or where a fault took the lease
// from it. The API server stored the renewal when it had received it, or later.
func takenWhileValid(d facts.Actions, m *facts.Case, act facts.Act, own, rival *facts.Act) *Finding {
	margin := record.Nanos(m.Run.Meta.Settings["M"])
	if own == nil || own.Name != d.Component || rival.Name != d.Component || act.Received <= rival.Completed+margin {
		return nil
	}
	lasts, known := m.Seized(d.Component, act.Node, rival.Node, rival.Received)
	until := own.Received + record.Nanos(lasts)
	switch {
	case !known || rival.Received >= until-margin:
		return nil
	case m.LeasesChanged(own.Received-margin, rival.Completed) || d.Ahead(own.Via, rival.Via):
		return nil
	case !facts.Reachable(m.Run, act.Via, rival.Completed, act.Received):
		return nil
	case !facts.SameProcess(m.Run, act.Node, d.Component, own.Received, act.Received+record.Nanos(facts.LookedAt)):
		return nil
	}
	return Failed("Two instances of %s must never act at the same time: the one on %s took over the lease %s, though the one on %s had renewed it %s and it was valid until %s, and that one acted %s: %s.",
		d.Component, rival.Node, text.At(rival.Received), act.Node, text.At(own.Received), text.When(until), text.At(act.Received), facts.DescribeAction(act.Action)).
		Rests(own.Received, act.Received).
		Shows("renewed: "+facts.DescribeAction(own.Action), "taken over: "+facts.DescribeAction(rival.Action), "acted nonetheless: "+facts.DescribeAction(act.Action)).problem()
}

// withoutElection finds two instances that act by turns though no instance was elected.
func withoutElection(d facts.Actions, m *facts.Case) *Finding {
	held := func(l record.Timed[record.Lease]) bool { return l.V.Name == d.Component && l.V.Holder != "" }
	if len(d.Elections) > 0 || slices.ContainsFunc(m.Run.Leases, held) {
		return nil
	}
	first, other, again := byTurns(m, d.Acts, m.Run.EndAt, func(record.Nanos, record.Nanos) bool { return false })
	if again == nil {
		return nil
	}
	return Failed("Two instances of %s must never act at the same time: no instance was elected, and the ones on %s and %s acted alternately (%s, %s and %s).",
		d.Component, again.Node, other.Node, text.When(first.Received), text.When(other.Received), text.When(again.Received)).
		Rests(first.Received, again.Received).
		Shows(facts.DescribeAction(first.Action), facts.DescribeAction(other.Action), facts.DescribeAction(again.Action)).problem()
}

// takenByTurns finds an instance that takes the lease back within the time for which the
// lease lasts, M apart: another one had taken it in between, though it was valid, and then
// lost it, though it was valid. That takes two instances which do not wait for each other, or faults
// that took the lease from both; the acts of both may all be within what afterTakeover allows.
func takenByTurns(d facts.Actions, m *facts.Case) *Finding {
	s := m.Settings(d.Component)
	first, other, again := byTurns(m, d.Elections, record.Nanos(s["L"]-s["M"]), m.LeasesTaken)
	if again == nil {
		return nil
	}
	return Failed("Two instances of %s must never act at the same time: the ones on %s and %s took its lease from each other alternately (%s, %s and %s), though it lasts for %s.",
		d.Component, again.Node, other.Node, text.When(first.Received), text.When(other.Received), text.When(again.Received), text.Short(s["L"])).
		Rests(first.Received, again.Received).
		Shows(facts.DescribeAction(first.Action), facts.DescribeAction(other.Action), facts.DescribeAction(again.Action)).problem()
}

// byTurns finds three acts within a time: of an instance, of another, and of the first again,
// which was not restarted in between. One that an API server may have received late, since it
// stood still, does not count, nor do acts in a time that is exempt.
func byTurns(m *facts.Case, acts []facts.Act, within record.Nanos, excused func(from, to record.Nanos) bool) (first, other, again *facts.Act) {
	margin := record.Nanos(m.Run.Meta.Settings["M"])
	for k := range acts {
		again := &acts[k]
		// The last one before of the same instance, and one of another in between.
		for j := k - 1; j >= 0 && again.Received-acts[j].Received < within; j-- {
			other := &acts[j]
			if other.Node == again.Node || other.Completed+margin >= again.Received {
				continue
			}
			i := j - 1
			for ; i >= 0 && (acts[i].Node != again.Node || acts[i].Completed+margin >= other.Received); i-- {
			}
			if i < 0 {
				continue
			}
			first := &acts[i]
			if again.Received-first.Received < within && !excused(first.Received, again.Received) &&
				facts.Reachable(m.Run, other.Via, first.Completed, other.Received) && facts.Reachable(m.Run, again.Via, other.Completed, again.Received) &&
				facts.SameProcess(m.Run, again.Node, again.Component, first.Received, again.Received+record.Nanos(facts.LookedAt)) {
				return first, other, again
			}
		}
	}
	return nil, nil, nil
}

// turns names the instances that acted, in the order of their first actions.
func turns(d facts.Actions) string {
	var nodes []string
	count := map[string]int{}
	for _, a := range d.Acts {
		if count[a.Node]++; count[a.Node] == 1 {
			nodes = append(nodes, a.Node)
		}
	}
	for i, n := range nodes {
		nodes[i] = fmt.Sprintf("%s (%s)", n, text.Plural(count[n], "action"))
	}
	return strings.Join(nodes, ", then on ")
}
