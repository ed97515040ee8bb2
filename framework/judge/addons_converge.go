package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func addonsConverge() definition {
	return definition{Doc{
		Name:       "addons-converge",
		Guarantee:  "Once every node has been upgraded, the add-on managers of all nodes leave each add-on in the version of the last upgrade; until then each of them applies an add-on once per interval at most.",
		Source:     "Automated HA master deployment (add-on manager)",
		NeedsBound: true,
	}, judgeAddonsConverge}
}

func judgeAddonsConverge(m *matter) finding {
	managers := m.nodesWith(addonManager)
	if len(managers) < 2 {
		return notApplicable("%d nodes of the cluster have an add-on manager, and only several can disagree.", len(managers))
	}
	changes, problem := m.changesIn(m.run.Changes, nil)
	if problem != nil {
		return *problem
	}
	changes = slices.DeleteFunc(changes, func(c record.NodeChange) bool { return c.Action != "upgrade" })
	if len(changes) == 0 {
		return inconclusive("no node was upgraded")
	}
	interval := m.settings("")["A"]
	if interval <= 0 {
		return inconclusive("the record does not say how often the add-on managers compare add-ons with their files")
	}
	first, last := changes[0], changes[len(changes)-1]
	due := last.Effect + record.Nanos(m.bound.Limit)
	by := map[string]int{} // applications by node
	of := map[string]int{} // and by add-on
	var settled, late record.Action
	total := 0
	for _, t := range m.run.Actions {
		a := t.V
		if a.Component != addonManager || a.Code > 299 || a.Completed < first.Called {
			continue
		}
		by[a.Node]++
		of[a.Resource+"/"+a.Name]++
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
		return failed("Once all nodes are upgraded the add-on managers must agree: that on %s still applied %s/%s %s after the last upgrade, later than %s.",
			late.Node, late.Resource, late.Name, short(time.Duration(late.Completed-last.Effect)), m.bound).took(took).rests(last.Effect, late.Completed).shows(evidence...)
	}
	// In a time W a manager makes at most W/A + 1 passes, and another one that began before.
	most := len(managers) * (int(time.Duration(settled.Completed-first.Called)/interval) + 2)
	for addon, n := range of {
		if n > most {
			return failed("An add-on manager must apply an add-on once every %s at most: %s was applied %d times, where %d managers could compare it %d times.",
				short(interval), addon, n, len(managers), most).counted("%d applications", n).shows(evidence...)
		}
	}
	for _, n := range managers {
		if by[n.Name] == 0 {
			return inconclusive("the audit logs show no add-on that the manager on %s applied while the nodes had different ones", n.Name).shows(evidence...)
		}
	}
	seen, problem := m.addonsAfter(due, last.To)
	if problem != nil {
		return problem.took(took).shows(evidence...)
	}
	return passed("%s after the last upgrade, within %s, the add-on managers of %d nodes had left all of %d add-ons in %s, as read through each API server. Since the first upgrade began they applied them %d times, of %d at most.",
		short(took), m.bound, len(managers), seen, last.To, total, most*len(of)).took(took).shows(evidence...)
}

// addonsAfter returns how many add-ons each API server showed in a version after a time.
func (m *matter) addonsAfter(after record.Nanos, version string) (n int, problem *finding) {
	reads := map[string]map[string]bool{} // by entrance
	ops := slices.Clone(m.run.Ops)
	slices.SortStableFunc(ops, func(a, b record.Timed[record.Op]) int { return cmp.Compare(a.V.Call, b.V.Call) })
	for _, t := range ops {
		op := t.V
		if op.Purpose != "addon" || op.Outcome != record.OK || op.Call < after {
			continue
		}
		if op.Value != version {
			f := failed("Once all nodes are upgraded every add-on must be of %s: through %s %s is of %s.", version, op.Entrance, op.Key, orUnknown(op.Value)).shows(describe(op))
			return 0, &f
		}
		if reads[op.Entrance] == nil {
			reads[op.Entrance] = map[string]bool{}
		}
		reads[op.Entrance][op.Key] = true
		n = max(n, len(reads[op.Entrance]))
	}
	var missing []string
	for _, node := range m.nodesWith("kube-apiserver") {
		if len(reads[node.Name]) < max(n, 1) {
			missing = append(missing, node.Name)
		}
	}
	if len(missing) > 0 {
		f := inconclusive("the add-ons were not all read through %s after the bound had passed", strings.Join(missing, ", "))
		return 0, &f
	}
	return n, nil
}
