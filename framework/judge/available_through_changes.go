package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func availableThroughChanges() definition {
	return definition{Doc{
		Name:       "available-through-changes",
		Guarantee:  "While nodes are changed one after the other, no client of an entrance goes without a successful request of one kind for longer than the bound.",
		Source:     "Automated HA master deployment",
		NeedsBound: true,
		Params: map[string]string{
			"changes":  "names of the changes to judge, separated by commas (default: all)",
			"inARow":   "how many requests of one kind may fail one after the other, whatever the bound (default: any number)",
			"entrance": "the entrance to look at (default balancer)",
			"kinds":    "kinds of probes, as for availability (default " + defaultKinds + ")",
		},
	}, judgeAvailableThroughChanges}
}

func judgeAvailableThroughChanges(m *matter) finding {
	changes, problem := m.changesIn(slices.Concat(m.run.Nodes, m.run.Changes), splitList(m.check.Params["changes"]))
	if problem != nil {
		return *problem
	}
	entrance := m.param("entrance", "balancer")
	if !slices.Contains(m.run.Meta.Entrances, entrance) {
		return notApplicable("The cluster has no entrance %q.", entrance)
	}
	kinds, problem := m.probeKinds()
	if problem != nil {
		return *problem
	}
	inARow, err := strconv.Atoi(m.param("inARow", "0"))
	if err != nil || inARow < 0 {
		return inconclusive("the check's inARow is %q, which is no number of requests", m.check.Params["inARow"])
	}
	var worst, row Outage
	var worstKind, rowKind probeKind
	failures := 0
	var outages []Outage
	var evidence []string
	var all []record.Probe
	for _, s := range spellsOf(changes, m.bound.Limit) {
		var during []record.Probe
		byKind := map[probeKind][]record.Probe{}
		for _, p := range m.run.Probes {
			if pr := p.V; pr.Entrance == entrance && slices.Contains(kinds, pr.Kind) && pr.End >= s.from && pr.Start < s.until {
				during = append(during, pr)
				k := probeKind{pr.Kind, pr.Reused}
				byKind[k] = append(byKind[k], pr)
			}
		}
		all = append(all, during...)
		if hole, from := longestHole(during, s.from, s.effect); hole > max(time.Second, m.bound.Limit/4) {
			return inconclusive("nothing probed %s for %s (from %s), so errors may have gone unseen", entrance, short(hole), when(from))
		}
		for k, probes := range byKind {
			for _, o := range Outages(probes) {
				failures += o.Probes
				outages = append(outages, o)
				if o.Probes > row.Probes {
					row, rowKind = o, k
				}
				if worst.Probes == 0 || o.AtLeast() > worst.AtLeast() {
					worst, worstKind = o, k
				}
			}
		}
		for _, line := range describeOutages(during) {
			evidence = append(evidence, s.what+": "+line)
		}
	}
	if missing := missingProbes(all, kinds, changes[0].Called); missing != "" {
		return inconclusive("too few probes through %s while nodes were changed: %s", entrance, missing)
	}
	if took := worst.AtLeast(); took > m.bound.Limit {
		return failed("While nodes are changed one after the other, a client of %s must not go without a successful request for longer than %s: no %s succeeded for %s, from %s.",
			entrance, m.bound, worstKind, short(took), when(worst.From)).took(took).rests(worst.From, worst.Before).shows(evidence...)
	}
	if inARow > 0 && row.Probes > inARow {
		return failed("While nodes are changed one after the other, a client of %s that tries again must succeed: %d times in a row no %s did, from %s to %s.",
			entrance, row.Probes, rowKind, when(row.From), when(row.To)).counted("%d in a row", row.Probes).rests(row.From, row.Before).shows(evidence...)
	}
	return passed("Through %d changes of nodes, %d of %d probes through %s failed; the longest time in which those of one kind did not succeed was %s, all such times together covered %s, within %s each.",
		len(changes), failures, len(all), entrance, short(worst.AtLeast()), short(covered(outages)), m.bound).
		took(worst.AtLeast()).shows(evidence...)
}

// changeSpell is a time in which nodes were changed, and the bound after it, in which what
// that caused may still show.
type changeSpell struct {
	what                string
	from, effect, until record.Nanos
}

// spellsOf returns the times of changes; those that overlap are one.
func spellsOf(changes []record.NodeChange, bound time.Duration) (all []changeSpell) {
	for _, c := range changes {
		until := c.Effect + record.Nanos(bound)
		if n := len(all); n > 0 && c.Called <= all[n-1].until {
			last := &all[n-1]
			last.what, last.effect, last.until = last.what+", "+changing(c), max(last.effect, c.Effect), max(last.until, until)
			continue
		}
		all = append(all, changeSpell{changing(c), c.Called, c.Effect, until})
	}
	return all
}

// covered returns how much time the outages cover, as far as they are certain.
func covered(outages []Outage) (total time.Duration) {
	slices.SortFunc(outages, func(a, b Outage) int { return cmp.Compare(a.From, b.From) })
	until := record.Nanos(0)
	for _, o := range outages {
		total += time.Duration(max(0, o.To-max(o.From, until)))
		until = max(until, o.To)
	}
	return total
}

func ownAPIServer() definition {
	return definition{Doc{
		Name:      "own-apiserver",
		Guarantee: "Each controller manager and each scheduler talks to the API server of its own node, before, while and after nodes are changed.",
		Source:    "Automated HA master deployment",
	}, judgeOwnAPIServer}
}

func judgeOwnAPIServer(m *matter) finding {
	seen := map[string]int{}
	foreign, requests := "", 0
	for _, a := range slices.Concat(m.run.Actions, m.run.Asked) {
		v := a.V
		if v.Component == "" || v.Node == "" {
			continue
		}
		if v.Via != v.Node && foreign == "" {
			foreign = fmt.Sprintf("%s on %s asked the API server on %s (%s of %s, %s)", v.Component, v.Node, v.Via, v.Verb, v.Resource, when(v.Received))
		}
		requests++
		seen[v.Component+" on "+v.Node]++
	}
	if foreign != "" {
		return failed("Each controller manager and each scheduler must talk to the API server of its own node: %s.", foreign).counted("%d requests", requests)
	}
	var missing []string
	for _, component := range []string{"kube-controller-manager", "kube-scheduler"} {
		for _, n := range m.nodesWith(component) {
			if instance := component + " on " + n.Name; seen[instance] == 0 && m.stays(n.Name) {
				missing = append(missing, instance)
			}
		}
	}
	if len(missing) > 0 || requests == 0 {
		return inconclusive("the audit logs show no request of %s", strings.Join(missing, ", ")).counted("%d requests", requests)
	}
	return passed("All of %d logged requests of %d instances of controller manager and scheduler went to the API server of their own node.",
		requests, len(seen)).counted("%d requests", requests)
}
