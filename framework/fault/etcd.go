package fault

import (
	"context"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/members"
)

// openMember returns a client of the member on a node. The caller closes it.
func openMember(c framework.Cluster, node string) (members.Member, error) {
	access, err := Ability[framework.EtcdAccess](c, "cluster "+c.Name(), "talking to etcd")
	if err != nil {
		return members.Member{}, err
	}
	return members.Open(access, node)
}

// openMembers returns clients of every etcd member of the cluster, in the order of the nodes.
func openMembers(c framework.Cluster) (members.All, error) {
	access, err := Ability[framework.EtcdAccess](c, "cluster "+c.Name(), "talking to etcd")
	if err != nil {
		return nil, err
	}
	return members.OpenAll(access, framework.NodeNames(framework.NodesWith(c, framework.Etcd)))
}

// etcdAnswers checks whether a member answers Status.
func etcdAnswers(ctx context.Context, c framework.Cluster, node string) (bool, string) {
	return lookOn(c, node, func(m members.Member) (bool, string) {
		s, err := m.Status(ctx)
		if err != nil {
			return false, err.Error()
		}
		return true, fmt.Sprintf("etcd on %s answers Status (term %d)", node, s.RaftTerm)
	})
}

// etcdReads checks whether a member answers a linearizable read, which needs a majority of the
// members.
func etcdReads(ctx context.Context, c framework.Cluster, node string) (bool, string) {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	return lookOn(c, node, func(m members.Member) (bool, string) {
		// The key that etcd's own health check reads; it need not exist.
		if _, err := m.Client.Get(ctx, "health"); err != nil {
			return false, fmt.Sprintf("linearizable read from etcd on %s: %v", node, err)
		}
		return true, fmt.Sprintf("etcd on %s answers a linearizable read", node)
	})
}

// leadership is what a majority of the members reports.
type leadership struct {
	leader  string            // node of the leader
	ids     map[string]uint64 // member IDs of those that answered, by node
	term    uint64
	agree   int // members that name the leader
	members int
}

func (l leadership) String() string {
	return fmt.Sprintf("%d of %d etcd members name the one on %s leader in term %d", l.agree, l.members, l.leader, l.term)
}

// roundLimit is how long one round of queries to all members may take. A member answers from
// memory; during an election it pays to ask again soon.
const roundLimit = time.Second

// leadershipOf queries all members in parallel and returns as soon as a majority names the same
// leader in the same term and the leader itself has answered, or no majority is possible any
// more, so that a silent member costs little time.
func leadershipOf(ctx context.Context, all members.All) (leadership, error) {
	ctx, cancel := context.WithTimeout(ctx, roundLimit)
	defer cancel()
	type answer struct {
		node   string
		status *clientv3.StatusResponse
		err    error
	}
	answers := make(chan answer, len(all))
	for _, m := range all {
		go func() {
			s, err := m.Status(ctx)
			answers <- answer{m.Node, s, err}
		}()
	}
	type view struct{ leader, term uint64 }
	votes := map[view]int{}
	nodes := map[uint64]string{}
	l := leadership{ids: map[string]uint64{}, members: len(all)}
	var seen []string
	most := 0 // members that name the most frequently named leader
	for left := len(all); left > 0 && most+left > len(all)/2; left-- {
		a := <-answers
		if a.err != nil {
			seen = append(seen, a.err.Error())
			continue
		}
		v := view{a.status.Leader, a.status.RaftTerm}
		seen = append(seen, fmt.Sprintf("etcd on %s names leader %x in term %d", a.node, v.leader, v.term))
		if votes[v]++; v.leader != 0 {
			most = max(most, votes[v])
		}
		nodes[a.status.Header.MemberId] = a.node
		l.ids[a.node] = a.status.Header.MemberId
		for v, n := range votes {
			if node, ok := nodes[v.leader]; ok && v.leader != 0 && n > len(all)/2 {
				l.leader, l.term, l.agree = node, v.term, n
				return l, nil
			}
		}
	}
	return l, fmt.Errorf("no majority of the %d etcd members agrees on a leader that answers: %s", len(all), strings.Join(seen, "; "))
}
