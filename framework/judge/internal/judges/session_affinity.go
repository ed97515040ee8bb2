package judges

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var sessionAffinity = Definition{Doc{
	Name:      "session-affinity",
	Guarantee: "A client of the balancer in front of the etcd members stays on one member, from connection to connection, until that member dies; then it moves to another one.",
	Source:    "Control plane resilience overview",
	Params:    map[string]string{"faults": "the injections that may stop a member"},
}, judgeSessionAffinity}

func judgeSessionAffinity(m *facts.Case) Finding {
	nodes := map[string]string{} // by member ID
	for _, e := range m.Run.Etcd {
		if e.V.Member != "" {
			nodes[e.V.Member] = e.V.Node
		}
	}
	// By client, in the order of its requests; they are recorded at their ends.
	sessions := slices.Clone(m.Run.Sessions)
	slices.SortStableFunc(sessions, func(a, b record.Timed[record.Session]) int { return int(a.V.Start - b.V.Start) })
	last := map[string]record.Session{}
	answered, moves := 0, 0
	var slowest time.Duration
	for _, s := range record.Each(sessions) {
		if s.Member == "" {
			continue
		}
		answered++
		old, known := last[s.Client]
		last[s.Client] = s
		if !known || old.Member == s.Member {
			continue
		}
		died := diedBetween(m, nodes[old.Member], old.Start, s.End)
		if nodes[old.Member] == "" {
			return Inconclusive("the record does not show which node has member %s, which %s used until %s", old.Member, s.Client, text.When(old.End))
		}
		if died == nil {
			return Failed("A client must stay on its etcd member until that member dies: %s was on the member on %s at %s and moved to that on %s at %s, and no fault had stopped the first one.",
				s.Client, nodes[old.Member], text.When(old.Start), cmp.Or(nodes[s.Member], "another node"), text.When(s.Start)).Rests(old.Start, s.End)
		}
		moves++
		slowest = max(slowest, time.Duration(s.End-died.Effect()))
	}
	if answered == 0 {
		return Inconclusive("no request through a balancer in front of the etcd members was answered")
	}
	for _, inj := range endings(m) {
		if problem := stranded(m, inj, sessions, nodes); problem != nil {
			return *problem
		}
	}
	if moves == 0 {
		return Inconclusive("no member that a client was on died, in %d requests", answered)
	}
	return Passed("In %d requests through the balancer, each client stayed on its etcd member until that member died (%d times), and moved to another one within %s.",
		answered, moves, text.Short(slowest)).Took(slowest)
}

// diedBetween returns the injection that stopped etcd on a node and was active at any time
// between from and to, nil if there is none.
func diedBetween(m *facts.Case, node string, from, to record.Nanos) *facts.Injection {
	for _, inj := range endings(m) {
		if hits(inj.Injected, node) && inj.Injected.Called <= to && (inj.Healed == nil || inj.HealEffect() >= from) {
			return inj
		}
	}
	return nil
}

// endings returns the injections that stop an etcd member, or cut off or isolate its node: of
// those that the check names, or of all if it names none.
func endings(m *facts.Case) []*facts.Injection {
	ids := text.SplitList(m.Check.Params["faults"])
	if len(ids) == 0 {
		ids = slices.Sorted(maps.Keys(m.Faults))
	}
	var all []*facts.Injection
	for _, id := range ids {
		if inj := m.Faults[id]; inj != nil && inj.Injected != nil && inj.Injected.Hits("etcd") && inj.Injected.Has(deadly...) {
			all = append(all, inj)
		}
	}
	return all
}

// deadly are the effects of a fault on etcd, or on a whole node, during which the member there
// does not serve clients.
var deadly = []record.Effect{record.EffectDown, record.EffectRestarted, record.EffectFrozen, record.EffectPower,
	record.EffectRemoved, record.EffectIsolated, record.EffectPartitioned}

func hits(f *record.Fault, node string) bool { return f.Node == node || slices.Contains(f.Nodes, node) }

// fewRequests is how many failed requests show that a client does not reach another member.
const fewRequests = 2

// stranded returns which client did not switch from a member to another while the fault that
// stopped it lasted; nil for none. sessions are in the order of their starts.
func stranded(m *facts.Case, inj *facts.Injection, sessions []record.Timed[record.Session], nodes map[string]string) *Finding {
	limit, err := verdict.ParseBound("H + M", m.Run.Meta.Settings)
	if err != nil || inj.Healed == nil {
		return nil
	}
	effect, healed := inj.Effect(), inj.Healed.Called
	type state struct {
		on       string // the member before the fault
		moved    bool
		answered bool
		vain     int // failed requests for which the balancer had had enough time
	}
	clients := map[string]*state{}
	for _, s := range record.Each(sessions) {
		c := clients[s.Client]
		if c == nil {
			c = &state{}
			clients[s.Client] = c
		}
		switch late := s.Start >= effect+record.Nanos(limit.Limit); {
		case s.Start >= healed:
		case s.End < inj.Injected.Called:
			c.on = cmp.Or(s.Member, c.on)
		case s.Member != "" && s.Member != c.on:
			c.moved = true
		case late && s.Member != "":
			c.answered = true
		case late && s.End < healed:
			c.vain++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(clients)) {
		c := clients[name]
		switch {
		case c.moved || c.on == "" || !hits(inj.Injected, nodes[c.on]):
		case c.vain >= fewRequests && !c.answered:
			return Failed("A client must move to another etcd member when its own dies: %s was on the member on %s, and after the %s, %d requests, from %s later on, were not answered until that was healed.",
				name, nodes[c.on], inj.What(), c.vain, limit).Rests(effect, healed).problem()
		default:
			return Inconclusive("%s was on the member on %s, and was not seen to move to another one during the %s, and made too few requests more than %s after it to conclude that it cannot", name, nodes[c.on], inj.What(), limit).problem()
		}
	}
	return nil
}
