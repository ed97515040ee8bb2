package judge

import (
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// enoughRequests is how many requests of such a client must have been made in vain
// to say that it cannot get on.
const enoughRequests = 3

func learnsAddresses() definition {
	return definition{Doc{
		Name:       "learns-addresses",
		Guarantee:  "A client that has a list of addresses learns those of new API servers from the kubernetes service: once all that it began with are gone, it gets on within the bound through one that joined later.",
		Source:     "API server HA proposal, section 4.1",
		NeedsFault: true, NeedsBound: true,
		Params: map[string]string{
			"faults": "injections that together take all API servers that there were at the start, separated by commas (default: the check's fault)",
		},
	}, judgeLearnsAddresses}
}

func judgeLearnsAddresses(m *matter) finding {
	if _, problem := m.changesOf(nil); problem != nil {
		return *problem
	}
	from, to := m.fault.effect(), m.fault.healed.Called
	hit := []string{m.fault.node()}
	for _, id := range splitList(m.check.Params["faults"]) {
		inj := m.faults[id]
		from, to = max(from, inj.effect()), min(to, inj.healed.Called)
		hit = append(hit, inj.node())
	}
	if from >= to {
		return inconclusive("the faults were never in force together: the last took effect %s, the first was healed %s", at(from), at(to))
	}
	var known []string // addresses that the client began with
	for _, n := range m.nodesWith("kube-apiserver") {
		known = append(known, n.Address)
		if !slices.Contains(hit, n.Name) && leftAt(m.run, n.Name) > from {
			return inconclusive("no fault hit %s, so that nothing shows whether the client needed another address", n.Name)
		}
	}
	var others []nodeLife
	for _, n := range nodeLives(m.run) {
		if !slices.Contains(known, n.Address) && n.from < from && n.until >= to && slices.Contains(n.Components, "kube-apiserver") {
			others = append(others, n)
		}
	}
	if len(others) == 0 {
		return inconclusive("no API server had joined that was there while the others were gone")
	}
	var first, lastFailed *record.Op
	asked, through := 0, ""
	for i := range m.run.Ops {
		op := &m.run.Ops[i].V
		if op.Purpose != purposeFailover || op.Call < from || op.Call >= to {
			continue
		}
		asked++
		if op.Outcome != record.OK {
			lastFailed = op
			continue
		}
		i := slices.IndexFunc(others, func(n nodeLife) bool { return op.Address[:max(0, strings.LastIndexByte(op.Address, ':'))] == n.Address })
		if i >= 0 && (first == nil || op.Return < first.Return) {
			first, through = op, others[i].Name
		}
	}
	limit := from + record.Nanos(m.bound.Limit)
	if first != nil {
		took := span(from, first.Return)
		if first.Return > limit {
			return failed("A client with a list of addresses must get on within %s through an API server that joined later: it did after %s, through %s.",
				m.bound, short(took), through).took(took).rests(from, first.Return)
		}
		return passed("%s after all API servers that it began with were gone, the client got on through %s (%s), which it had learnt from the kubernetes service.",
			short(took), through, first.Address).took(took)
	}
	switch served := m.servedAfter(others, limit, to); {
	case lastFailed == nil || asked < enoughRequests || lastFailed.Call < limit:
		return inconclusive("the client made %d requests while all API servers that it began with were gone, the last of them not %s after that", asked, m.bound)
	case served == "":
		return inconclusive("none of the API servers that joined later was seen to answer anybody %s after the others were gone", m.bound)
	default:
		return failed("A client with a list of addresses must learn new ones from the kubernetes service: once all API servers that it began with were gone, none of its %d requests was answered for %s, though the one on %s answered others.",
			asked, short(span(from, lastFailed.Return)), served).took(span(from, lastFailed.Return)).rests(from, lastFailed.Return).
			shows(describe(*lastFailed))
	}
}

// servedAfter returns the first of the nodes whose API server answered a quorum read
// of a prober between two moments, empty for none.
func (m *matter) servedAfter(nodes []nodeLife, from, to record.Nanos) string {
	for _, p := range m.run.Probes {
		pr := p.V
		if pr.OK && pr.Kind == record.ProbeQuorumRead && pr.Start >= from && pr.End <= to &&
			slices.ContainsFunc(nodes, func(n nodeLife) bool { return n.Name == pr.Entrance }) {
			return pr.Entrance
		}
	}
	return ""
}
