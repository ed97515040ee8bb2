package judges

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var addonsConverge = Definition{Doc{
	Name:       "addons-converge",
	Guarantee:  "Once every node has been upgraded, the add-on managers of all nodes leave each add-on in the version of the last upgrade; until then each of them applies an add-on once per interval at most.",
	Source:     "Automated HA master deployment (add-on manager)",
	NeedsBound: true,
}, judgeAddonsConverge}

func judgeAddonsConverge(m *facts.Case) Finding {
	managers := m.NodesWith(facts.AddonManager)
	if len(managers) < 2 {
		return notApplicable("The number of nodes with an add-on manager is %d; at least two are required.", len(managers))
	}
	changes, problem := changesIn(m, m.Run.Changes, nil)
	if problem != nil {
		return *problem
	}
	changes = slices.DeleteFunc(changes, func(c record.NodeChange) bool { return c.Action != "upgrade" })
	if len(changes) == 0 {
		return Inconclusive("no node was upgraded")
	}
	interval := m.Settings("")["A"]
	if interval <= 0 {
		return Inconclusive("the record does not say how often the add-on managers compare add-ons with their files")
	}
	first, last := changes[0], changes[len(changes)-1]
	due := last.Effect + record.Nanos(m.Bound.Limit)
	by := map[string]int{}               // applications by node
	of := map[[2]string][]record.Nanos{} // when each node's manager applied each add-on
	addons := map[string]bool{}
	var settled, late record.Action
	total := 0
	for _, a := range record.Each(m.Run.Actions) {
		if a.Component != facts.AddonManager || a.Code > 299 || a.Completed < first.Called {
			continue
		}
		by[a.Node]++
		addon := a.Resource + "/" + a.Name
		of[[2]string{a.Node, addon}] = append(of[[2]string{a.Node, addon}], a.Completed)
		addons[addon] = true
		total++
		if a.Completed > settled.Completed {
			settled = a
		}
		if a.Completed > due && late.Completed == 0 {
			late = a
		}
	}
	took := time.Duration(max(0, settled.Completed-last.Effect))
	var evidence []string
	for _, n := range managers {
		evidence = append(evidence, fmt.Sprintf("the add-on manager on %s applied %d add-ons since the first upgrade began", n.Name, by[n.Name]))
	}
	if late.Completed > 0 {
		return Failed("Once all nodes are upgraded, the add-on managers must agree: the one on %s still applied %s/%s %s after the last upgrade, later than %s.",
			late.Node, late.Resource, late.Name, text.Short(time.Duration(late.Completed-last.Effect)), m.Bound).Took(took).Rests(last.Effect, late.Completed).Shows(evidence...)
	}
	// In any time W a manager makes at most W/A + 1 passes, one that was due before, and the rest of one
	// that started before. Where the source address of a request is not a node's, its manager is unknown.
	most := func(w record.Nanos) int { return int(time.Duration(w)/interval) + 3 }
	for _, n := range managers {
		for _, addon := range slices.Sorted(maps.Keys(addons)) {
			if from, to, times := tooOften(of[[2]string{n.Name, addon}], most); times > 0 {
				return Failed("An add-on manager must apply an add-on at most once every %s: the one on %s applied %s %d times from %s to %s, although it had time for only %d comparisons.",
					text.Short(interval), n.Name, addon, times, text.When(from), text.When(to), most(to-from)).number(times, "application").Rests(from, to).Shows(evidence...)
			}
		}
	}
	for _, n := range managers {
		if by[n.Name] == 0 {
			return Inconclusive("the audit logs show no add-on that the manager on %s applied while the nodes had different ones", n.Name).Shows(evidence...)
		}
	}
	seen, problem := addonsAfter(m, last, due)
	if problem != nil {
		return problem.Took(took).Shows(evidence...)
	}
	return Passed("%s after the last upgrade, within %s, the add-on managers of %d nodes had left all %d add-ons in %s, as read through each API server. Since the first upgrade began they applied them %d times, of %d at most.",
		text.Short(took), m.Bound, len(managers), seen, last.To, total, most(settled.Completed-first.Called)*len(addons)*len(managers)).Took(took).Shows(evidence...)
}

// tooOften returns the span of time that has most applications beyond what it has room for, and how
// many it has; 0 if each has room.
func tooOften(at []record.Nanos, most func(record.Nanos) int) (from, to record.Nanos, times int) {
	slices.Sort(at)
	worst := 0
	for last := range at {
		for first := range last {
			n := last - first + 1
			if excess := n - most(at[last]-at[first]); excess > worst {
				worst, from, to, times = excess, at[first], at[last], n
			}
		}
	}
	return from, to, times
}

// addonsAfter returns how many add-ons each API server showed in the version of the last change, after
// a time.
func addonsAfter(m *facts.Case, last record.NodeChange, after record.Nanos) (n int, problem *Finding) {
	reads := map[string]map[string]bool{} // by entrance
	ops := slices.Clone(m.Run.Ops)
	slices.SortStableFunc(ops, func(a, b record.Timed[record.Op]) int { return cmp.Compare(a.V.Call, b.V.Call) })
	for _, op := range record.Each(ops) {
		if op.Purpose != "addon" || op.Outcome != record.OK || op.Call < after {
			continue
		}
		if op.Value != last.To {
			return 0, Failed("Once all nodes are upgraded, every add-on must have version %s: through %s, %s has %s.", last.To, op.Entrance, op.Key, text.OrUnknown(op.Value)).
				Rests(last.Effect, op.Return).Shows(text.Describe(op)).problem()
		}
		if reads[op.Entrance] == nil {
			reads[op.Entrance] = map[string]bool{}
		}
		reads[op.Entrance][op.Key] = true
		n = max(n, len(reads[op.Entrance]))
	}
	var missing []string
	for _, node := range m.NodesWith("kube-apiserver") {
		if len(reads[node.Name]) < max(n, 1) {
			missing = append(missing, node.Name)
		}
	}
	if len(missing) > 0 {
		return 0, Inconclusive("the add-ons were not all read through %s after the bound had passed", strings.Join(missing, ", ")).problem()
	}
	return n, nil
}
