package judges

import (
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var endpointRemoved = Definition{Doc{
	Name:       "endpoint-removed",
	Guarantee:  "The address of an API server that is gone leaves the Endpoints and EndpointSlice of default/kubernetes within the bound, or within E more of the election of another etcd leader, which renews its lease, and stays away until it is back.",
	Source:     "API server HA proposal, section 3; apiserver-count fix proposal; etcd (lessor.Promote)",
	NeedsFault: true, NeedsBound: true, Coarser: true, Killed: true,
	Params: map[string]string{
		"since": "where the bound starts: effect (default), the proof that the fault acted, or call, for a fault that takes effect slowly, such as stop",
	},
	Values: map[string][]string{"since": {"effect", "call"}},
}, judgeEndpointRemoved}

func judgeEndpointRemoved(m *facts.Case) Finding {
	node := m.Fault.Node()
	address := m.Address(node)
	if address == "" {
		return Inconclusive("the fault hit %q, which is not a control-plane node", m.Fault.Injected.Target)
	}
	if m.EtcdAlone(node) {
		return noneBeside(node)
	}
	from, to := m.Fault.Effect(), m.Fault.Healed.Called
	switch since := m.Param("since", "effect"); since {
	case "effect":
	case "call":
		from = m.Fault.Injected.Called
	default:
		return Inconclusive("parameter since is %q: want call or effect", since)
	}
	listed := map[string]bool{}
	var changes []facts.Change
	for _, c := range facts.Chains(m.Run, append(m.Disturbed(from, to), node)...) {
		if was, _ := c.Lists(address, m.Fault.Injected.Called); was {
			listed[c.Source] = true
			changes = append(changes, c.Follow(address, false, from, to))
		}
	}
	for _, source := range facts.Sources {
		if !listed[source] {
			return Inconclusive("the %s of default/kubernetes did not list %s (%s) before the fault", source, node, address)
		}
	}
	return removedWithin(m, changes, from, *m.Bound, m.Fault.What())
}

// removedWithin judges how the address of the lost API server left the lists, against a bound that
// counts from the described event.
func removedWithin(m *facts.Case, changes []facts.Change, from record.Nanos, bound verdict.Bound, what string) Finding {
	node, to := m.Fault.Node(), m.Fault.Healed.Called
	address := m.Address(node)
	s := facts.Settle(changes, from, to, bound.Limit)
	if renewed := m.AddressesRenewed(from); s.Late != nil && renewed > 0 {
		longer, err := verdict.ParseBound(bound.Formula+" + E", m.Run.Meta.Settings)
		if err != nil {
			return Inconclusive("the check cannot be judged: %v", err)
		}
		return bounded(longer)(removedWithin(m, changes, renewed, longer, "election of another etcd leader, which renewed the leases of all addresses, under the "+what))
	}
	switch {
	case s.Late != nil && s.Late.Done:
		return Failed("The address of a lost API server must leave default/kubernetes within %s of the %s: %s (%s) left %s only after %s.",
			bound, what, node, address, s.Late.Chain, text.Short(s.Worst)).Took(s.Worst).Rests(from, s.Late.At)
	case s.Late != nil:
		return Failed("The address of a lost API server must leave default/kubernetes within %s of the %s: %s (%s) was still listed in %s after %s.",
			bound, what, node, address, s.Late.Chain, text.Short(s.Worst)).Took(s.Worst).Rests(from, s.Late.Last)
	case s.Undone != nil:
		return Failed("The address of a lost API server must stay out of default/kubernetes: %s (%s) left %s %s after the %s, and was listed again %s, before the fault was healed.",
			node, address, s.Undone.Chain, text.Short(time.Duration(s.Undone.At-from)), what, text.At(s.Undone.UndoneAt)).Rests(m.Lapse(s.Undone.UndoneAt, s.Undone.UndoneAt))
	case len(s.Missing) > 0:
		return Inconclusive("%s was not seen to drop %s (%s), but was not watched for the whole bound of %s before the fault was healed after %s",
			text.And(s.Missing), node, address, bound, text.Short(time.Duration(to-from)))
	case len(s.Unread) > 0:
		return Inconclusive("default/kubernetes was last seen with %s (%s) in %s, which were not read afterwards for more than %s",
			node, address, text.And(s.Unread), text.Short(facts.Blind))
	}
	return Passed("The address of %s (%s) left Endpoints and EndpointSlice %s after the %s, within %s, and was not listed again until the fault was healed.",
		node, address, text.Short(s.Worst), what, bound).Took(s.Worst)
}
