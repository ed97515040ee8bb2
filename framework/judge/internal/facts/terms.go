package facts

import (
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// AddressesRenewed returns when the leases of the addresses of API servers were last renewed after
// from, although the servers may be gone; zero if they were not. A new leader of etcd gives every
// lease its whole time again, and E more (etcd, lessor.Promote). The record shows that by the term
// of what members apply.
func (m *Case) AddressesRenewed(from record.Nanos) (at record.Nanos) {
	s := m.Run.Meta.Settings
	held := s["T"] + s["E"] + s["M"] // statuses are read once a second
	var term uint64
	for _, e := range m.Run.Etcd {
		if !e.V.OK || e.V.Term <= term {
			continue
		}
		if term > 0 && e.At > from && text.Span(max(from, at), e.At) <= held {
			at = e.At
		}
		term = e.V.Term
	}
	return at
}

// SplitVotes returns how many elections of etcd ended without a leader before the first one after
// from that the record shows until to. Members that campaign at the same moment may split the vote;
// each then waits for another E to 2E, and tries again in the next term (raft, section 5.2).
func (m *Case) SplitVotes(from, to record.Nanos) int { return max(0, m.Elections(from, to)-1) }

// Elections returns how many elections of etcd it took, split votes included, until the first leader
// after from that the record shows until to; 0 if it shows none.
func (m *Case) Elections(from, to record.Nanos) int {
	var before uint64
	for _, e := range m.Run.Etcd {
		switch term := e.V.Term; {
		case !e.V.OK || e.At > to:
		case e.At <= from:
			before = max(before, term)
		case before > 0 && term > before:
			return int(term - before)
		}
	}
	return 0
}

// LastStatus returns the last status that the etcd member on a node reported up to a time; zero if
// it reported none. A member that replaces another on its node has another ID.
func LastStatus(run *record.Run, node string, to record.Nanos) (last record.EtcdStatus) {
	for _, e := range run.Etcd {
		if e.V.Node == node && e.V.OK && e.At <= to {
			last = e.V
		}
	}
	return last
}
