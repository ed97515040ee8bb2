package fault

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/members"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// RemoveMember removes an etcd member behind the cluster's back.
var RemoveMember = onEtcd(&Fault{
	Name:     "remove-member",
	Summary:  "removes an etcd member from the list of members, which makes it exit; healing adds it again with the same peer URL and without its old data",
	Needs:    []string{"EtcdOperator (remote provider: etcd as a static pod)"},
	Example:  "etcd/follower",
	Effects:  does(record.EffectRemoved),
	Promised: true,
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
	return r.withMembers(func(ctx context.Context, all members.All) (Injection, error) { return removeMember(ctx, r, all) }), err
})

func removeMember(ctx context.Context, r Request, all members.All) (Injection, error) {
	c, t := r.Cluster, r.Target
	others := all.Without(t.Node)
	list, err := others.List(ctx)
	if err != nil {
		return nil, r.beforeFault(err)
	}
	at := slices.IndexFunc(list, func(m *pb.Member) bool { return m.Name == t.Node })
	if at < 0 {
		return notInjected(t, "etcd on %s was not a member: %s", t.Node, memberWords(list)), nil
	}
	removed := list[at]
	return attempt{
		target: t,
		what:   fmt.Sprintf("removing etcd on %s from the members", t.Node),
		ask: func(ctx context.Context) error {
			return others.Insist(ctx, func(ctx context.Context, m members.Member) error {
				_, err := m.Client.MemberRemove(ctx, removed.ID)
				if members.RefusedWith(err, rpctypes.ErrMemberNotFound) {
					return nil // an earlier try has removed it
				}
				return err
			})
		},
		effect: func(ctx context.Context) (bool, string) {
			list, err := others.List(ctx)
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
			return lookAt(c, func(all members.All) (bool, string, error) {
				list, err := all.Without(t.Node).List(ctx)
				seen := "the members are " + memberWords(list)
				if err != nil || !slices.ContainsFunc(list, func(m *pb.Member) bool { return m.Name == t.Node }) {
					return false, seen, err
				}
				serves, said := etcdReads(ctx, c, t.Node)
				return serves, seen + "; " + said, nil
			})
		},
	}.promised(r, framework.Undoing{Node: t.Node, Rejoin: removed.PeerURLs}).injection(ctx)
}

func memberWords(list []*pb.Member) string {
	return listed(framework.Names(list, func(m *pb.Member) string { return fmt.Sprintf("%s %x", cmp.Or(m.Name, "(not started)"), m.ID) }))
}
