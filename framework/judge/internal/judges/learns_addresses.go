package judges

import (
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// enoughRequests is how many failed requests of such a client show that it cannot continue.
const enoughRequests = 3

func learnsAddresses() Definition {
	return Definition{verdict.Doc{
		Name:       "learns-addresses",
		Guarantee:  "A client that has a list of addresses learns those of new API servers from the kubernetes service: once all that it started with are gone, its requests succeed within the bound through one that joined later.",
		Source:     "API server HA proposal, section 4.1",
		NeedsFault: true, NeedsBound: true,
		Params: map[string]string{
			"faults": "injections that together stop all API servers that existed at the start, separated by commas (default: the check's fault)",
		},
	}, judgeLearnsAddresses}
}

func judgeLearnsAddresses(m *facts.Matter) Finding {
	if _, problem := changesOf(m, nil); problem != nil {
		return *problem
	}
	from, to := m.Fault.Effect(), m.Fault.Healed.Called
	hit := []string{m.Fault.Node()}
	for _, id := range text.SplitList(m.Check.Params["faults"]) {
		inj := m.Faults[id]
		from, to = max(from, inj.Effect()), min(to, inj.Healed.Called)
		hit = append(hit, inj.Node())
	}
	if from >= to {
		return Inconclusive("the faults were never active together: the last took effect %s, the first was healed %s", text.At(from), text.At(to))
	}
	var known []string // addresses that the client started with
	for _, n := range m.NodesWith("kube-apiserver") {
		known = append(known, n.Address)
		if !slices.Contains(hit, n.Name) && facts.LeftAt(m.Run, n.Name) > from {
			return Inconclusive("no fault hit %s, so the client may not have needed another address", n.Name)
		}
	}
	var others []facts.NodeLife
	for _, n := range facts.NodeLives(m.Run) {
		if !slices.Contains(known, n.Address) && n.From < from && n.Until >= to && slices.Contains(n.Components, "kube-apiserver") {
			others = append(others, n)
		}
	}
	if len(others) == 0 {
		return Inconclusive("no API server that joined later was up while the others were gone")
	}
	var first, lastFailed *record.Op
	asked, through := 0, ""
	for i := range m.Run.Ops {
		op := &m.Run.Ops[i].V
		if op.Purpose != facts.PurposeFailover || op.Call < from || op.Call >= to {
			continue
		}
		asked++
		if op.Outcome != record.OK {
			lastFailed = op
			continue
		}
		i := slices.IndexFunc(others, func(n facts.NodeLife) bool {
			return op.Address[:max(0, strings.LastIndexByte(op.Address, ':'))] == n.Address
		})
		if i >= 0 && (first == nil || op.Return < first.Return) {
			first, through = op, others[i].Name
		}
	}
	limit := from + record.Nanos(m.Bound.Limit)
	if first != nil {
		took := text.Span(from, first.Return)
		if first.Return > limit {
			return Failed("A client with a list of addresses must succeed within %s through an API server that joined later: it did after %s, through %s.",
				m.Bound, text.Short(took), through).Took(took).Rests(from, first.Return)
		}
		return Passed("%s after all API servers that it started with were gone, the client succeeded through %s (%s), which it had learned from the kubernetes service.",
			text.Short(took), through, first.Address).Took(took)
	}
	switch served := servedAfter(m, others, limit, to); {
	case lastFailed == nil || asked < enoughRequests || lastFailed.Call < limit:
		return Inconclusive("the client made %d requests while all API servers that it started with were gone, the last of them less than %s after that", asked, m.Bound)
	case served == "":
		return Inconclusive("none of the API servers that joined later was seen to answer a client %s after the others were gone", m.Bound)
	default:
		return Failed("A client with a list of addresses must learn new ones from the kubernetes service: once all API servers that it started with were gone, none of its %d requests was answered for %s, though the one on %s answered others.",
			asked, text.Short(text.Span(from, lastFailed.Return)), served).Took(text.Span(from, lastFailed.Return)).Rests(from, lastFailed.Return).
			Shows(text.Describe(*lastFailed))
	}
}

// servedAfter returns the first of the nodes whose API server answered a quorum read
// of a prober between two moments, empty for none.
func servedAfter(m *facts.Matter, nodes []facts.NodeLife, from, to record.Nanos) string {
	for _, p := range m.Run.Probes {
		pr := p.V
		if pr.OK && pr.Kind == record.ProbeQuorumRead && pr.Start >= from && pr.End <= to &&
			slices.ContainsFunc(nodes, func(n facts.NodeLife) bool { return n.Name == pr.Entrance }) {
			return pr.Entrance
		}
	}
	return ""
}
