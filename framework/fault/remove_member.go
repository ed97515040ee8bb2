package fault

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// RemoveMember removes an etcd member behind the cluster's back.
var RemoveMember = onEtcd(&Fault{
	Name:    "remove-member",
	Summary: "removes an etcd member from the list of members, which makes it exit; healing adds it again with the same peer URL and without its old data",
	Needs:   []string{"EtcdOperator (remote provider: etcd as a static pod)"},
	Example: "etcd/follower",
	Effects: does(record.EffectRemoved),
	Undo:    undoes(undoRemoveMember),
}, func(r Request) (Inject, error) {
	if all := framework.NodesWith(r.Cluster, framework.Etcd); len(all) < 3 {
		return nil, fmt.Errorf("cluster %s has %d etcd members: at least 3 are required, so that a majority is left to add the member again", r.Cluster.Name(), len(all))
	}
	operator, err := onTarget[framework.EtcdOperator](r)
	// A member that cannot be started again would stay removed.
	if checker, ok := operator.(framework.RejoinChecker); ok {
		if why := checker.CheckRejoin(); why != nil {
			return nil, r.missing("EtcdOperator", "node "+r.Target.Node, why.Error())
		}
	}
	return r.withMembers(func(ctx context.Context, all members) (Injection, error) { return removeMember(ctx, r, all) }), err
})

func removeMember(ctx context.Context, r Request, all members) (Injection, error) {
	c, t := r.Cluster, r.Target
	others := all.without(t.Node)
	list, err := others.list(ctx)
	if err != nil {
		return nil, r.beforeFault(err)
	}
	at := slices.IndexFunc(list, func(m *pb.Member) bool { return m.Name == t.Node })
	if at < 0 {
		return notInjected(t, "etcd on %s was not a member: %s", t.Node, memberWords(list)), nil
	}
	removed := list[at]
	u := r.undoing(removedMember{t.Node, removed.PeerURLs})
	u.Node = t.Node // which must start the member
	return attempt{
		target: t,
		what:   fmt.Sprintf("removing etcd on %s from the members", t.Node),
		ask: func(ctx context.Context) error {
			return others.insist(ctx, func(ctx context.Context, m member) error {
				_, err := m.client.MemberRemove(ctx, removed.ID)
				if refusedWith(err, rpctypes.ErrMemberNotFound) {
					return nil // an earlier try has removed it
				}
				return err
			})
		},
		effect: func(ctx context.Context) (bool, string) {
			list, err := others.list(ctx)
			if err != nil {
				return false, err.Error()
			}
			seen := "the members are " + memberWords(list)
			if slices.ContainsFunc(list, func(m *pb.Member) bool { return m.ID == removed.ID }) {
				return false, seen
			}
			serves, said := etcdReads(ctx, c, t.Node)
			return !serves, seen + "; " + said
		},
		patience: 2 * moveLimit, // a member that does not serve may not answer either
		healed: func(ctx context.Context) (bool, string) {
			return lookAt(c, func(all members) (bool, string, error) {
				list, err := all.without(t.Node).list(ctx)
				seen := "the members are " + memberWords(list)
				if err != nil || !slices.ContainsFunc(list, func(m *pb.Member) bool { return m.Name == t.Node }) {
					return false, seen, err
				}
				serves, said := etcdReads(ctx, c, t.Node)
				return serves, seen + "; " + said, nil
			})
		},
	}.promised(r, u).injection(ctx)
}

// removedMember is the member to add again.
type removedMember struct {
	Node string   `json:"node"`
	URLs []string `json:"urls"`
}

func undoRemoveMember(ctx context.Context, c framework.Cluster, m removedMember) error {
	n, err := nodeNamed(c, m.Node, m.Node)
	if err != nil {
		return err
	}
	operator, ok := n.(framework.EtcdOperator)
	if !ok {
		return nil
	}
	return onMembers(c, func(all members) error { return rejoin(ctx, all.without(m.Node), operator, m.Node, m.URLs) })
}

// rejoin adds the member on a node again, empty. It does nothing if a member with that peer URL
// exists and has started.
func rejoin(ctx context.Context, others members, operator framework.EtcdOperator, node string, urls []string) error {
	var list []*pb.Member
	at := -1
	err := others.insist(ctx, func(ctx context.Context, m member) (err error) {
		// An earlier try may have added it, although its answer was lost.
		if list, err = others.list(ctx); err != nil {
			return err
		}
		if at = slices.IndexFunc(list, func(m *pb.Member) bool { return slices.Equal(m.PeerURLs, urls) }); at >= 0 {
			return nil
		}
		answer, err := m.client.MemberAdd(ctx, urls)
		if err == nil {
			list = answer.Members
		}
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("adding the member with peer URL %s: %w", strings.Join(urls, ","), err)
	case at >= 0 && list[at].Name != "":
		return nil
	}
	if err := operator.RejoinEtcd(ctx, peersOf(list, node)); err != nil {
		return fmt.Errorf("starting the member that was added: %w", err)
	}
	return nil
}

// insist is first with retries for a while: members refuse to change the member list while one of
// them has been connected to the rest for less than 5 seconds.
func (all members) insist(ctx context.Context, ask func(context.Context, member) error) error {
	var refused error
	await(ctx, healLimit/2, func(ctx context.Context) (bool, string) {
		refused = all.first(ctx, ask)
		return refused == nil, ""
	})
	return refused
}

func memberWords(list []*pb.Member) string {
	var words []string
	for _, m := range list {
		name := cmp.Or(m.Name, "(not started)")
		words = append(words, fmt.Sprintf("%s %x", name, m.ID))
	}
	return strings.Join(words, ", ")
}
