package fault

import (
	"context"
	"fmt"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/members"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// Alarm raises an etcd alarm without a reason.
var Alarm = onEtcd(&Fault{
	Name:     "alarm",
	Summary:  "raises an alarm for an etcd member: with NOSPACE no member takes writes; with CORRUPT none takes writes, leases or compactions and /health fails, while reads are still served",
	Params:   []Param{choiceParam("type", "which alarm to raise", pb.AlarmType_NOSPACE.String(), pb.AlarmType_CORRUPT.String())},
	Example:  "etcd/follower type=NOSPACE",
	Effects:  does(record.EffectAlarm),
	Promised: true,
}, func(r Request) (Inject, error) {
	kind := pb.AlarmType(pb.AlarmType_value[Value[string](r, "type")])
	return r.withMembers(func(ctx context.Context, all members.All) (Injection, error) { return raiseAlarm(ctx, r, all, kind) }), nil
})

func raiseAlarm(ctx context.Context, r Request, all members.All, kind pb.AlarmType) (Injection, error) {
	c, t := r.Cluster, r.Target
	m := all.On(t.Node)
	status, err := m.Status(ctx)
	if err != nil {
		return nil, r.beforeFault(err)
	}
	id := status.Header.MemberId
	raised := func(ctx context.Context, all members.All) (bool, []*pb.AlarmMember, error) {
		list, err := all.Alarms(ctx)
		return slices.ContainsFunc(list, func(a *pb.AlarmMember) bool { return a.MemberID == id && a.Alarm == kind }), list, err
	}
	switch already, _, err := raised(ctx, all); {
	case err != nil:
		return nil, r.beforeFault(err)
	case already:
		return notInjected(t, "alarm %s of etcd on %s was already raised", kind, t.Node), nil
	}
	refusal := rpctypes.ErrNoSpace
	if kind == pb.AlarmType_CORRUPT {
		refusal = rpctypes.ErrCorrupt
	}
	return attempt{
		target: t,
		what:   fmt.Sprintf("raising alarm %s of etcd on %s", kind, t.Node),
		ask: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, moveLimit)
			defer cancel()
			_, err := pb.NewMaintenanceClient(m.Client.ActiveConnection()).Alarm(ctx,
				&pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: id, Alarm: kind})
			return err
		},
		// The list is from the other members if there are any, and the effect of the alarm must
		// show.
		effect: func(ctx context.Context) (bool, string) {
			held, list, err := raised(ctx, slices.Concat(all.Without(t.Node), members.All{m}))
			if err != nil {
				return false, err.Error()
			}
			seen := fmt.Sprintf("etcd lists the alarms [%s]", alarmWords(list))
			return refuse(ctx, all, refusal, held, seen)
		},
		lasts: func(ctx context.Context) (bool, string) {
			still, list := false, []*pb.AlarmMember(nil)
			err := onMembers(c, func(all members.All) (err error) {
				still, list, err = raised(ctx, all)
				return err
			})
			return err != nil || still, fmt.Sprintf("etcd listed the alarms [%s]", alarmWords(list))
		},
		healed: func(ctx context.Context) (bool, string) {
			return lookAt(c, func(all members.All) (bool, string, error) {
				still, list, err := raised(ctx, all)
				if err != nil || still || len(list) > 0 {
					// Other members may have their own active alarms.
					return !still, fmt.Sprintf("etcd lists the alarms [%s]", alarmWords(list)), err
				}
				held, seen := takesWrites(ctx, all)
				return held, "etcd lists no alarm; " + seen, nil
			})
		},
	}.promised(r, framework.Undoing{Disarm: &framework.EtcdAlarm{Member: id, Type: kind.String()}}).injection(ctx)
}

// refuse checks whether a member refuses a write with this error, in addition to what was seen
// before.
func refuse(ctx context.Context, all members.All, refusal error, held bool, seen string) (bool, string) {
	var got error
	err := all.First(ctx, func(ctx context.Context, m members.Member) error {
		_, err := m.Client.Put(ctx, probeKey, "")
		if err == nil || members.RefusedWith(err, refusal) {
			got = err
			return nil
		}
		return err
	})
	if err != nil {
		got = err
	}
	if got == nil {
		_ = all.First(ctx, func(ctx context.Context, m members.Member) error {
			_, err := m.Client.Delete(ctx, probeKey)
			return err
		})
		return false, seen + ", but it accepts a write"
	}
	return held && members.RefusedWith(got, refusal), fmt.Sprintf("%s, and to a write: %v", seen, got)
}

func alarmWords(list []*pb.AlarmMember) string {
	return strings.Join(framework.Names(list, func(a *pb.AlarmMember) string { return fmt.Sprintf("%s of member %x", a.Alarm, a.MemberID) }), ", ")
}
