package judges

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var oneAddress = Definition{Doc{
	Name: "one-address",
	Guarantee: "A virtual IP is never on two nodes that clients can reach, " +
		"and when its node is lost, another one has it within the bound; once the node is back, exactly one has it.",
	Source:     "kube-vip/kube-vip#665, #996, #1579, acassen/keepalived#166",
	NeedsFault: true, NeedsBound: true,
}, judgeOneAddress}

// judgeOneAddress relies on the nodes' own reports of the address. A node that a fault hits
// cannot be reached until it is healed, except while its API server answers clients; its later
// reports count from then.
func judgeOneAddress(m *facts.Case) Finding {
	told, moves := 0, false
	for _, b := range record.Each(m.Run.Backends) {
		if b.Missing != "" {
			return notApplicable("The load balancer does not report which API servers it uses: %s.", b.Missing)
		}
		if b.Error == "" {
			told, moves = told+1, moves || b.Standby || b.Holder
		}
	}
	switch {
	case !slices.Contains(m.Run.Meta.Entrances, "balancer"):
		return notApplicable("The cluster has no load balancer.")
	case told == 0:
		return Inconclusive("the record does not show which node clients were sent to")
	case !moves:
		return notApplicable("The load balancer sends clients to several API servers: no node has an address that others stand by for.")
	}
	effect, healed := m.Fault.Effect(), m.Fault.HealEffect()
	to := m.UntilNext(healed)
	all := holdings(m)
	i := slices.IndexFunc(all, func(h holding) bool {
		return h.node == m.Fault.Node() && h.from < m.Fault.Injected.Called && h.to >= m.Fault.Injected.Called
	})
	if i < 0 {
		return Inconclusive("the record does not show that the %s hit the node that had the address", m.Fault.What())
	}
	for i, a := range all {
		for _, b := range all[i+1:] {
			if both := text.Span(b.from, min(a.to, b.to)); both > 0 {
				return Failed("An address must be on one node only: %s and %s, which clients could both reach, had it for %s (%s to %s).",
					a.node, b.node, text.Short(both), text.When(b.from), text.When(min(a.to, b.to))).counted("2 nodes").Rests(b.from, min(a.to, b.to))
			}
		}
	}
	free, next := effect, ""
	var longest, moved time.Duration
	for _, h := range all {
		if h.to <= effect || h.from >= to {
			continue
		}
		longest = max(longest, text.Span(free, h.from))
		if free = max(free, h.to); next == "" || next == m.Fault.Node() && h.node != next {
			next, moved = h.node, text.Span(effect, h.from)
		}
	}
	longest = max(longest, text.Span(free, to))
	back := slices.ContainsFunc(m.Run.Backends, func(b record.Timed[record.Backend]) bool {
		return b.V.Name == m.Fault.Node() && b.At > healed && b.At < to
	})
	switch {
	case longest > m.Bound.Limit:
		return Failed("The address must be on another node within %s of the %s: for %s it was on no node that clients could reach.",
			m.Bound, m.Fault.What(), text.Short(longest)).Took(longest).Rests(effect, to)
	case next == "" || !back:
		return Inconclusive("the record ends before both nodes reported whether they had the address after the %s", m.Fault.What())
	}
	return Passed("The address was on %s %s after the %s, within %s, and on one node only, including after %s was back.",
		next, text.Short(moved), m.Fault.What(), m.Bound, m.Fault.Node()).Took(moved)
}

// holding is a time in which a node that clients could reach had the address.
type holding struct {
	node     string
	from, to record.Nanos
}

// holdings returns them in the order of their starts.
func holdings(m *facts.Case) (all []holding) {
	for _, n := range m.Run.Meta.Nodes {
		from := record.Nanos(-1)
		end := func(at record.Nanos) {
			if from >= 0 && at > from {
				all = append(all, inReach(m, holding{n.Name, from, at})...)
			}
			from = -1
		}
		for _, b := range m.Run.Backends {
			if b.V.Name != n.Name {
				continue
			}
			at := min(cmp.Or(b.V.Since, b.At), b.At)
			switch {
			case !b.V.Up:
				end(at)
			case from < 0:
				from = at
			}
		}
		end(m.Run.EndAt)
	}
	slices.SortFunc(all, func(a, b holding) int { return cmp.Compare(a.from, b.from) })
	return all
}

// inReach returns the rest of a holding without the times in which a fault had hit the whole
// node, and clients could not reach it. A node that lost power comes back without the address.
func inReach(m *facts.Case, h holding) []holding {
	parts := []holding{h}
	for _, f := range m.Faults {
		if f.Injected == nil || f.Injected.Component != "" || !slices.Contains(f.Nodes(), h.node) {
			continue
		}
		healed := m.Run.EndAt
		if f.Healed != nil {
			healed = f.HealEffect()
		}
		for _, lost := range beyondReach(m, f, h.node, healed) {
			says := saysAfter(m, h.node, lost.To, lost.To < healed || !f.KeepsAPIServerDown())
			parts = without(parts, lost, says)
		}
	}
	return parts
}

// without returns the parts of holdings that are outside of a time, those after it only if the
// node says that it still had the address.
func without(parts []holding, lost facts.Interval, says bool) (left []holding) {
	for _, p := range parts {
		if p.to <= lost.From || p.from >= lost.To {
			left = append(left, p)
			continue
		}
		if p.from < lost.From {
			left = append(left, holding{p.node, p.from, lost.From})
		}
		if p.to > lost.To && says {
			left = append(left, holding{p.node, lost.To, p.to})
		}
	}
	return left
}

// beyondReach returns the times in which clients could not reach a node because of a fault: all of
// it, unless it is one of links and leaves those to the clients. Then the API server of the node
// answers them.
func beyondReach(m *facts.Case, f *facts.Injection, node string, healed record.Nanos) (lost []facts.Interval) {
	in, from := f.Injected, f.Injected.Called
	if in.Has(record.EffectNetwork, record.EffectIsolated, record.EffectPartitioned) && !in.Has(record.EffectPower, record.EffectDown, record.EffectRestarted, record.EffectFrozen) {
		until := healed
		if f.Healed != nil {
			until = f.Healed.Called
		}
		for _, answered := range answeredTimes(m, node, f.Effect(), until) {
			lost = append(lost, facts.Interval{From: from, To: answered.From})
			from = answered.To
		}
	}
	return append(lost, facts.Interval{From: from, To: healed})
}

// answeredTimes returns the times between from and to in which an entrance answered each of two or
// more successive probes.
func answeredTimes(m *facts.Case, entrance string, from, to record.Nanos) (times []facts.Interval) {
	var probes []record.Probe
	for _, p := range m.Run.Probes {
		if p.V.Entrance == entrance && p.V.Start >= from && p.V.Start <= to {
			probes = append(probes, p.V)
		}
	}
	slices.SortStableFunc(probes, func(a, b record.Probe) int { return cmp.Compare(a.Start, b.Start) })
	for len(probes) > 0 {
		n, end := 0, record.Nanos(0)
		for n < len(probes) && probes[n].OK && probes[n].End <= to {
			end = max(end, probes[n].End)
			n++
		}
		if n < len(probes) {
			end = min(end, probes[n].Start)
		}
		if n > 1 && end > probes[0].Start {
			times = append(times, facts.Interval{From: probes[0].Start, To: end})
		}
		probes = probes[max(n, 1):]
	}
	return times
}

// saysAfter reports whether a node reports, when it answers again after a time, that it had the
// address throughout: until then, if it may have given it up after that time.
func saysAfter(m *facts.Case, node string, after record.Nanos, kept bool) bool {
	for _, b := range m.Run.Backends {
		if b.V.Name == node && b.At > after {
			return b.V.Up || kept
		}
	}
	return false
}
