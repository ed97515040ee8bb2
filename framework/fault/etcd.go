package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/holdfast-ha/holdfast/framework"
)

// member is a client of one etcd member.
type member struct {
	node   string
	client *clientv3.Client
}

// openMember returns a client of the member on a node. The caller closes it.
func openMember(c framework.Cluster, node string) (member, error) {
	access, err := Ability[framework.EtcdAccess](c, "cluster "+c.Name(), "talking to etcd")
	if err != nil {
		return member{}, err
	}
	config, err := access.EtcdConfig(node)
	if err != nil {
		return member{}, fmt.Errorf("client configuration for etcd on %s: %w", node, err)
	}
	if config.Logger == nil {
		config.Logger = zap.NewNop() // a stopped member is expected here
	}
	// gRPC waits at least a second before it dials again, and 20 s for one attempt, which would
	// count as the cluster's recovery time.
	config.DialOptions = append(slices.Clone(config.DialOptions), grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 5 * time.Millisecond, Multiplier: 1.5, MaxDelay: longestPause},
		MinConnectTimeout: dialLimit,
	}))
	client, err := clientv3.New(config)
	if err != nil {
		return member{}, fmt.Errorf("client for etcd on %s: %w", node, err)
	}
	return member{node: node, client: client}, nil
}

// status asks the member, and no other, for its status.
func (m member) status(ctx context.Context) (*clientv3.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	s, err := m.client.Status(ctx, m.client.Endpoints()[0])
	if err != nil {
		return nil, fmt.Errorf("status of etcd on %s: %w", m.node, err)
	}
	return s, nil
}

// etcdAnswers checks whether a member answers Status.
func etcdAnswers(ctx context.Context, c framework.Cluster, node string) (bool, string) {
	m, err := openMember(c, node)
	if err != nil {
		return false, err.Error()
	}
	defer m.client.Close()
	s, err := m.status(ctx)
	if err != nil {
		return false, err.Error()
	}
	return true, fmt.Sprintf("etcd on %s answers Status (term %d)", node, s.RaftTerm)
}

// etcdReads checks whether a member answers a linearizable read, which needs a majority of the
// members.
func etcdReads(ctx context.Context, c framework.Cluster, node string) (bool, string) {
	m, err := openMember(c, node)
	if err != nil {
		return false, err.Error()
	}
	defer m.client.Close()
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	// The key that etcd's own health check reads; it need not exist.
	if _, err := m.client.Get(ctx, "health"); err != nil {
		return false, fmt.Sprintf("linearizable read from etcd on %s: %v", node, err)
	}
	return true, fmt.Sprintf("etcd on %s answers a linearizable read", node)
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

// members are clients of every etcd member.
type members []member

// openMembers returns clients of every etcd member of the cluster, in the order
// of the nodes.
func openMembers(c framework.Cluster) (members, error) {
	var all members
	for _, n := range framework.NodesWith(c, framework.Etcd) {
		m, err := openMember(c, n.Name())
		if err != nil {
			all.close()
			return nil, err
		}
		all = append(all, m)
	}
	if len(all) == 0 {
		return nil, errors.New("no node of the cluster runs etcd")
	}
	return all, nil
}

func (all members) close() {
	for _, m := range all {
		_ = m.client.Close()
	}
}

// roundLimit is how long one round of queries to all members may take. A member answers from
// memory; during an election it pays to ask again soon.
const roundLimit = time.Second

// leadership queries all members in parallel and returns as soon as a majority names the same
// leader in the same term and the leader itself has answered, or no majority is possible any
// more, so that a silent member costs little time.
func (all members) leadership(ctx context.Context) (leadership, error) {
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
			s, err := m.status(ctx)
			answers <- answer{m.node, s, err}
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
