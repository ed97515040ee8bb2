package fault

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/members"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// MoveLeader makes the etcd leader hand its leadership to another member.
var MoveLeader = onEtcd(&Fault{
	Name:    "move-leader",
	Summary: "makes the etcd leader hand its leadership to another member; healing leaves it there",
	Targets: []string{"etcd/leader"},
	Params:  []Param{partiesParam("to", "node of the member that is to lead").unless("the next node in the order of joining")},
	Example: "etcd/leader",
	Effects: does(record.EffectLeadership),
}, func(r Request) (Inject, error) {
	nodes := framework.NodeNames(framework.NodesWith(r.Cluster, framework.Etcd))
	if len(nodes) < 2 {
		return nil, fmt.Errorf("node %s has the only etcd member, so no other can lead", r.Target.Node)
	}
	at := slices.Index(nodes, r.Target.Node)
	others := slices.Delete(slices.Clone(nodes), at, at+1)
	to := cmp.Or(r.Values["to"], nodes[(at+1)%len(nodes)])
	if !slices.Contains(others, to) {
		return nil, r.bad("to", "one of %s", listed(others))
	}
	return r.withMembers(func(ctx context.Context, all members.All) (Injection, error) { return moveLeadership(ctx, r, all, to) }), nil
})

func moveLeadership(ctx context.Context, r Request, all members.All, to string) (Injection, error) {
	t := r.Target
	before, err := leadershipOf(ctx, all)
	if err != nil {
		return nil, r.beforeFault(err)
	}
	if before.leader != t.Node {
		return notInjected(t, "etcd on %s was not the leader any more: %s", t.Node, before), nil
	}
	target, ok := before.ids[to]
	if !ok { // the majority that answered first was without it
		s, err := all.On(to).Status(ctx)
		if err != nil {
			return nil, r.beforeFault(err)
		}
		target = s.Header.MemberId
	}
	return attempt{
		target: t,
		what:   fmt.Sprintf("moving etcd's leadership from %s to %s", t.Node, to),
		ask: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, moveLimit)
			defer cancel()
			_, err := all.On(t.Node).Client.MoveLeader(ctx, target)
			return err
		},
		effect: func(ctx context.Context) (bool, string) {
			now, err := leadershipOf(ctx, all)
			if err != nil {
				return false, err.Error()
			}
			return now.leader == to && now.term > before.term, fmt.Sprintf("%s, after %s in term %d", now, before.leader, before.term)
		},
	}.nothingToUndo("leadership stays where the members have it").injection(ctx)
}

// moveLimit is how long a transfer may take. etcd itself gives up after an
// election timeout.
const moveLimit = 10 * time.Second
