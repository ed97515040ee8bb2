package judges

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var isolatedMember = Definition{Doc{
	Name:       "isolated-member",
	Guarantee:  "The API server on an isolated etcd member serves no stale quorum read and acknowledges no write, while the majority side continues to serve within the bound, and 2E more for each election that ends in a split vote (two at most).",
	Source:     "API server HA proposal, section 1, case 1; raft, section 5.2",
	Lasting:    true,
	NeedsFault: true, NeedsBound: true,
	Params: map[string]string{
		"attempts": "how many writes, and how many quorum reads, must have been sent to the API server on the isolated member during the fault (default 10, the minimum)",
	},
}, judgeIsolatedMember}

func judgeIsolatedMember(m *facts.Case) Finding {
	from, to := m.Fault.Effect(), m.Fault.Healed.Called
	node := m.Fault.Node()
	if !m.IsNode(node) {
		return Inconclusive("the fault hit %q, which is not a control-plane node", m.Fault.Injected.Target)
	}
	if m.EtcdAlone(node) {
		return noneBeside(node)
	}
	if outside := m.Run.Meta.OutsideEtcd; outside != "" {
		return notApplicable("API servers reach etcd at %s as well, which is not on a control-plane node: what isolates a member does not isolate the API server beside it.", outside)
	}
	if !alone(m.Fault.Injected) {
		return Inconclusive("the %s may leave the etcd member on %s a quorum, for some of the time at least", m.Fault.What(), node)
	}
	cut := []string{node}

	ack, _ := facts.AcknowledgedWithin(m.Run, cut, from, to)
	if ack != nil {
		return Failed("The API server on an isolated etcd member must acknowledge no write: %s acknowledged one %s, while the %s lasted (%s to %s).",
			node, text.At(ack.Ret), m.Fault.What(), text.When(from), text.When(to)).Shows(ack.What).exhibits(ack.Exhibit())
	}
	read, newer := facts.StaleRead(m.Run, cut, from, to)
	if read != nil {
		return failStale(m, read, newer)
	}
	counts, problem := attempts(m, cut, from, to)
	if problem != nil {
		return *problem
	}

	others := m.APIServers(m.HitBetween(from, to)...)
	if len(others) == 0 {
		return Inconclusive("the record names no API server on the majority side")
	}
	m = withSplitVotes(m, from, to)
	worst, problem := judgeGaps(m, others, from, to)
	if problem != nil {
		return bounded(*m.Bound)(*problem)
	}
	return bounded(*m.Bound)(Passed("While %s was isolated (sent: %s), no write was acknowledged and no read was stale; through %s the longest time without an acknowledged write was %s, within %s.",
		node, counts, text.And(others), text.Short(worst.Length()), m.Bound).Took(worst.Length()))
}

// alone reports whether the target of a partition has no quorum of etcd on its side throughout: it
// reaches no peer, or too few of them.
func alone(f *record.Fault) bool {
	if f.Has(record.EffectIsolated) {
		return true
	}
	if f.Params["flap"] != "" || f.Params["keep"] != "" || f.Params["port"] != "" && f.Params["port"] != "all" ||
		strings.Contains(f.Params["groups"], "/") { // a zone, of any number of nodes
		return false
	}
	var sizes []int // of the groups, that of the target first
	for size := range strings.SplitSeq(cmp.Or(f.Params["shape"], "1-2"), "-") {
		n, err := strconv.Atoi(size)
		if err != nil {
			return false // a bridge
		}
		sizes = append(sizes, n)
	}
	if groups := f.Params["groups"]; groups != "" {
		sizes = nil
		for group := range strings.SplitSeq(groups, ",") {
			sizes = append(sizes, strings.Count(group, "+")+1)
		}
	}
	all := 0
	for _, n := range sizes {
		all += n
	}
	return sizes[0] < all/2+1
}
