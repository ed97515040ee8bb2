package judge

import (
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/judges"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
)

// silenced turns a missed bound into inconclusive if a member that API servers of other nodes use
// may have been silent meanwhile. Bounds are those of API servers that use the members of their own
// nodes, so that a fault on one node spares the others; here each API server waits for the silent
// member. A bound that counts on remote members holds with one on a node that it shares with an API
// server.
func silenced(m *facts.Case, f judges.Finding) judges.Finding {
	if f.Verdict != Fail || m.Fault == nil && !f.Timed || f.MissedBy(m.Bound) == 0 {
		return f
	}
	from, to := f.From, f.To
	if !f.Timed {
		from, to = m.Fault.Injected.Called, m.Fault.HealEffect()
	}
	nodes := m.SilentMembers(from, to)
	if f.Bound != nil && f.Bound.Inputs[facts.RemoteEtcd] > 0 {
		nodes = slices.DeleteFunc(nodes, func(n string) bool { return !m.EtcdAlone(n) })
	}
	if len(nodes) == 0 {
		return f
	}
	slices.Sort(nodes)
	held := f
	f = judges.Inconclusive("every API server uses the etcd member on %s as well, which may have been silent: an API server sends it requests until it closes the connection, even if the other members answer.",
		text.And(slices.Compact(nodes)))
	f.Bound, f.Measured, f.Value = held.Bound, held.Measured, held.Value
	return f.Shows("the original finding: " + held.Sentence).Shows(held.Evidence...)
}
