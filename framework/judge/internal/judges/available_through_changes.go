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
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var availableThroughChanges = Definition{Doc{
	Name:       "available-through-changes",
	Guarantee:  "While nodes are changed one after the other, no client of an entrance goes without a successful request of one kind for longer than the bound, whether its requests fail or wait, and, if the bound has time for an election of etcd, 2E more for each that ends in a split vote (two at most). Failed requests of one kind add up to no more than that for each change: a share of them counts as that share of the time.",
	Source:     "Automated HA master deployment; raft, section 5.2",
	NeedsBound: true,
	Params: map[string]string{
		"changes":  "names of the changes to judge, separated by commas (default: all)",
		"inARow":   "how many consecutive requests of one kind may fail, whatever the bound (default: any number)",
		"entrance": "the entrance to check (default balancer)",
		"kinds":    "kinds of probes, as for availability (default " + facts.DefaultKinds + ")",
	},
}, judgeAvailableThroughChanges}

func judgeAvailableThroughChanges(m *facts.Case) Finding {
	changes, problem := changesIn(m, slices.Concat(untilRemoved(m.Run.Nodes), m.Run.Changes), text.SplitList(m.Check.Params["changes"]))
	if problem != nil {
		return *problem
	}
	entrance := m.Param("entrance", "balancer")
	if !slices.Contains(m.Run.Meta.Entrances, entrance) {
		return notApplicable("The cluster has no entrance %q.", entrance)
	}
	kinds, problem := probeKinds(m)
	if problem != nil {
		return *problem
	}
	inARow, problem := countParam(m, "inARow", 0, 0)
	if problem != nil {
		return *problem
	}
	var worst, row facts.Outage
	var worstKind, rowKind facts.ProbeKind
	allowed := m.Bound // for the worst
	var spent *budget  // the first that was exceeded
	failures := 0
	silent := "" // the kind that was not tried for too long
	var outages []facts.Outage
	var evidence []string
	var all []record.Probe
	periods := changePeriods(changes, m.Bound.Limit)
	probed := record.Nanos(0) // until when there were probes, through any entrance
	for _, p := range m.Run.Probes {
		probed = max(probed, p.V.Start)
	}
	for _, s := range periods {
		var during []record.Probe
		byKind := map[facts.ProbeKind][]record.Probe{}
		for _, p := range m.Run.Probes {
			pr, k := p.V, facts.ProbeKind{Kind: p.V.Kind, Reused: p.V.Reused}
			if pr.Entrance == entrance && slices.Contains(kinds, k) && pr.End >= s.from && pr.Start < s.until+record.Nanos(m.Bound.Limit+time.Second) {
				during = append(during, pr)
				byKind[k] = append(byKind[k], pr)
			}
		}
		all = append(all, during...)
		slices.SortStableFunc(during, facts.ByStart)
		watched := max(s.effect, min(s.until, probed))
		if hole, from := facts.LongestHole(during, s.from, watched); hole > max(time.Second, m.Bound.Limit/4) {
			return Inconclusive("nothing probed %s for %s (from %s), so errors may have gone unseen", entrance, text.Short(hole), text.When(from))
		}
		if missing := facts.Unasked(during, kinds, s.from, watched, facts.LongestSilence); missing != "" && silent == "" {
			silent = missing
		}
		for _, k := range slices.SortedFunc(maps.Keys(byKind), func(a, b facts.ProbeKind) int { return cmp.Compare(a.String(), b.String()) }) {
			if b := budgetOf(m, s, k, byKind[k]); spent == nil && b.lost > b.whole.Limit {
				spent = &b
			}
			for _, o := range slices.Concat(facts.Outages(byKind[k]), facts.Waits(byKind[k], s.from)) {
				// An outage counts if it begins within the period, even if it lasts beyond that.
				if o.From >= s.until {
					continue
				}
				failures += o.Probes
				if o.Probes > 0 {
					outages = append(outages, o)
				}
				if o.Row > row.Row {
					row, rowKind = o, k
				}
				limit := m.Bound
				if o.AtLeast() > limit.Limit {
					limit = withSplitVotes(m, o.After, o.Before).Bound
				}
				if o.AtLeast()-limit.Limit > worst.AtLeast()-allowed.Limit {
					worst, worstKind, allowed = o, k, limit
				}
			}
		}
		for _, line := range facts.DescribeOutages(during) {
			evidence = append(evidence, s.what+": "+line)
		}
	}
	evidence = slices.Concat(throughEach(m, kinds, periods), evidence)
	if missing := facts.MissingProbes(all, kinds, changes[0].Called); missing != "" {
		return Inconclusive("too few probes through %s while nodes were changed: %s", entrance, missing)
	}
	if took := worst.AtLeast(); took > allowed.Limit {
		return bounded(*allowed)(Failed("While nodes are changed one after the other, a client of %s must not go without a successful request for longer than %s: no %s succeeded for %s, from %s.",
			entrance, allowed, worstKind, text.Short(took), text.When(worst.From)).Took(took).Rests(worst.From, worst.Before).Shows(evidence...))
	}
	if b := spent; b != nil {
		return bounded(b.whole)(Failed("While nodes are changed one after the other, failed requests of a client of %s must not add up to more than %s: %d of %d tries of a %s failed within %s from %s, as many as in an outage of %s.",
			entrance, b.whole, b.failed, b.tried, b.kind, text.Short(b.within), text.When(b.from), text.Short(b.lost)).Took(b.lost).Rests(b.from, b.until).Shows(evidence...))
	}
	if inARow > 0 && row.Row > inARow {
		return Failed("While nodes are changed one after the other, a client of %s that tries again must succeed: %d times in a row no %s did, from %s to %s.",
			entrance, row.Row, rowKind, text.When(row.From), text.When(row.To)).counted("%d in a row", row.Row).Rests(row.From, row.Before).Shows(evidence...)
	}
	if silent != "" {
		return Inconclusive("no %s through %s while nodes were changed, so errors may have gone unseen", silent, entrance)
	}
	if f := unusedByChanges(m, entrance, changes); f != nil {
		return *f
	}
	return bounded(*allowed)(Passed("Through %s of nodes, %d of %d probes through %s failed, for %s in all; the longest time without a successful probe of one kind was %s, within %s.",
		text.Plural(len(changes), "change"), failures, len(all), entrance, text.Short(covered(outages)), text.Short(worst.AtLeast()), allowed).
		Took(worst.AtLeast()).Shows(evidence...))
}

// budget is what the failed requests of one kind in a period of changes add up to, and what they may.
type budget struct {
	kind          facts.ProbeKind
	failed, tried int
	from, until   record.Nanos
	within        time.Duration
	lost          time.Duration
	whole         verdict.Bound // of all changes in the period
}

// budgetOf compares failed requests of a kind with the outage that a restart of an API server may
// cost in each change. An outage is known to within one request at its edge, which is not counted.
func budgetOf(m *facts.Case, s changePeriod, k facts.ProbeKind, probes []record.Probe) budget {
	b := budget{kind: k, from: s.from, until: s.until, within: time.Duration(s.until - s.from)}
	for _, p := range probes {
		if p.Start < s.from || p.Start >= s.until {
			continue
		}
		if b.tried++; !p.OK {
			b.failed++
		}
	}
	if b.failed <= s.changes {
		return b
	}
	b.lost = time.Duration(int64(b.within) * int64(b.failed-s.changes) / int64(b.tried))
	whole := verdict.Bound{Formula: m.Bound.Formula, Inputs: m.Bound.Inputs, Limit: time.Duration(s.changes) * m.Bound.Limit}
	if s.changes > 1 {
		whole.Formula = fmt.Sprintf("%d × (%s)", s.changes, whole.Formula)
	}
	b.whole = *withSplitVotes(boundBy(m, whole), s.from, s.until).Bound
	return b
}

// throughEach describes for each entrance what its clients saw from the first change until the
// bound after the last one: failed requests, how long they failed, and the longest time without a
// successful request of one kind.
func throughEach(m *facts.Case, kinds []facts.ProbeKind, periods []changePeriod) (lines []string) {
	from, until := periods[0].from, periods[len(periods)-1].until
	for _, entrance := range m.Run.Meta.Entrances {
		byKind := map[facts.ProbeKind][]record.Probe{}
		tried, failed := 0, 0
		for _, p := range m.Run.Probes {
			pr, k := p.V, facts.ProbeKind{Kind: p.V.Kind, Reused: p.V.Reused}
			if pr.Entrance != entrance || !slices.Contains(kinds, k) || pr.Start < from || pr.Start >= until {
				continue
			}
			if tried++; !pr.OK {
				failed++
			}
			byKind[k] = append(byKind[k], pr)
		}
		if tried == 0 {
			continue
		}
		var outages []facts.Outage
		longest := time.Duration(0)
		for _, probes := range byKind {
			failing := facts.Outages(probes)
			outages = append(outages, failing...)
			for _, o := range slices.Concat(failing, facts.Waits(probes, from)) {
				longest = max(longest, o.AtLeast())
			}
		}
		lines = append(lines, fmt.Sprintf("through %s from %s to %s, %d of %d probes failed, for %s in all; the longest time without a successful probe of one kind was %s",
			entrance, text.When(from), text.When(until), failed, tried, text.Short(covered(outages)), text.Short(longest)))
	}
	return lines
}

// changePeriod is a time in which nodes were changed, and the bound after it, in which what
// that caused may still show.
type changePeriod struct {
	what                string
	changes             int
	from, effect, until record.Nanos
}

// untilRemoved returns changes in which the loss of a node lasts until its member is removed, which
// is recorded then: its effect is the loss of power.
func untilRemoved(changes []record.Timed[record.NodeChange]) []record.Timed[record.NodeChange] {
	changes = slices.Clone(changes)
	for i := range changes {
		if c := &changes[i]; c.V.Phase == record.NodeLost {
			c.V.Effect = max(c.V.Effect, c.At)
		}
	}
	return changes
}

// changePeriods returns the times of changes; overlapping ones are merged.
func changePeriods(changes []record.NodeChange, bound time.Duration) (all []changePeriod) {
	for _, c := range changes {
		until := c.Effect + record.Nanos(bound)
		if n := len(all); n > 0 && c.Called <= all[n-1].until {
			last := &all[n-1]
			last.what, last.changes, last.effect, last.until = last.what+", "+facts.Changing(c), last.changes+1, max(last.effect, c.Effect), max(last.until, until)
			continue
		}
		all = append(all, changePeriod{facts.Changing(c), 1, c.Called, c.Effect, until})
	}
	return all
}

// covered returns how much time the outages cover, as far as they are certain.
func covered(outages []facts.Outage) (total time.Duration) {
	slices.SortFunc(outages, func(a, b facts.Outage) int { return cmp.Compare(a.From, b.From) })
	until := record.Nanos(0)
	for _, o := range outages {
		total += time.Duration(max(0, o.To-max(o.From, until)))
		until = max(until, o.To)
	}
	return total
}

var ownAPIServer = Definition{Doc{
	Name:      "own-apiserver",
	Guarantee: "Each controller manager and each scheduler talks to the API server of its own node: before, during and after changes of nodes. After an upgrade, all three of the node report its version. An active instance with an older version than a serving API server renews its lease, or another one takes it over.",
	Source:    "Automated HA master deployment; Kubernetes version skew policy (kubernetes.io/releases/version-skew-policy)",
	Params: map[string]string{
		"older": "how many elected components must have had an active instance of an older version while an API server of a newer one served (default 0)",
	},
}, given(count("older", 0, 0), judgeOwnAPIServer)}

// askLimit is how long after a change of its node an instance may take to make a request that the
// audit log shows: several retry periods of its election.
const askLimit = 10 * time.Second

func judgeOwnAPIServer(m *facts.Case, least int) Finding {
	changed := map[string]record.Nanos{} // when the last change of a node was complete, long enough before the end
	for _, c := range m.Run.Changes {
		if c.V.Effect+record.Nanos(askLimit) <= m.Run.EndAt {
			changed[c.V.Node.Name] = max(changed[c.V.Node.Name], c.V.Effect)
		}
	}
	seen, after := map[string]int{}, map[string]bool{} // by instance: its requests, and whether one came after that
	foreign, requests := "", 0
	for _, v := range record.Each(slices.Concat(m.Run.Actions, m.Run.Asked)) {
		if v.Component == "" || v.Node == "" {
			continue
		}
		if v.Via != v.Node && foreign == "" {
			foreign = fmt.Sprintf("%s on %s asked the API server on %s (%s of %s, %s)", v.Component, v.Node, v.Via, v.Verb, v.Resource, text.When(v.Received))
		}
		requests++
		instance := v.Component + " on " + v.Node
		seen[instance]++
		after[instance] = after[instance] || v.Received >= changed[v.Node]
	}
	for _, component := range text.SplitList(facts.DefaultElected) {
		foreign = cmp.Or(foreign, astray(m, component))
	}
	if foreign != "" {
		return Failed("Each controller manager and each scheduler must talk to the API server of its own node: %s.", foreign).number(requests, "request")
	}
	var unanswered *Finding
	for _, c := range m.Run.Changes {
		if c.V.Phase != record.NodeChanged {
			continue
		}
		switch f := answersIn(m, c.V); {
		case f == nil:
		case f.Verdict == verdict.Fail:
			return f.number(requests, "request")
		default:
			unanswered = cmp.Or(unanswered, f)
		}
	}
	leads, broken := olderLeads(m)
	if broken != nil {
		return broken.number(requests, "request")
	}
	var missing, older []string
	for _, l := range leads {
		older = append(older, l.String())
	}
	for _, component := range []string{"kube-controller-manager", "kube-scheduler"} {
		for _, n := range m.NodesWith(component) {
			switch instance := component + " on " + n.Name; {
			case !m.Stays(n.Name):
			case seen[instance] == 0:
				missing = append(missing, instance)
			case !after[instance]:
				missing = append(missing, instance+" after the change of its node")
			}
		}
	}
	if len(missing) > 0 || requests == 0 {
		return Inconclusive("the audit logs show no request of %s", strings.Join(missing, ", ")).number(requests, "request")
	}
	if unanswered != nil {
		return unanswered.number(requests, "request")
	}
	if len(older) < least {
		return Inconclusive("%s had an active instance of an older version while a newer API server served for two retry periods, with two renewals of the lease; %d are required",
			text.Plural(len(older), "elected component"), least).number(requests, "request").Shows(older...)
	}
	return Passed("All %d logged requests of %d instances of controller manager and scheduler went to the API server of their own node.",
		requests, len(seen)).number(requests, "request").Shows(older...)
}
