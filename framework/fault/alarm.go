package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// Alarm raises an etcd alarm without a reason.
var Alarm = onEtcd(&Fault{
	Name:    "alarm",
	Summary: "raises an alarm for an etcd member: with NOSPACE no member takes writes; with CORRUPT none takes writes, leases or compactions and /health fails, while reads are still served",
	Params:  []Param{choiceParam("type", "which alarm to raise", pb.AlarmType_NOSPACE.String(), pb.AlarmType_CORRUPT.String())},
	Example: "etcd/follower type=NOSPACE",
	Effects: does(record.EffectAlarm),
	Undo: undoes(func(ctx context.Context, c framework.Cluster, a raisedAlarm) error {
		return onMembers(c, func(all members) error { return all.disarm(ctx, a.Member, a.Type) })
	}),
}, func(r Request) (Inject, error) {
	kind := pb.AlarmType(pb.AlarmType_value[Value[string](r, "type")])
	return r.withMembers(func(ctx context.Context, all members) (Injection, error) { return raiseAlarm(ctx, r, all, kind) }), nil
})

func raiseAlarm(ctx context.Context, r Request, all members, kind pb.AlarmType) (Injection, error) {
	c, t := r.Cluster, r.Target
	m := all.on(t.Node)
	status, err := m.status(ctx)
	if err != nil {
		return nil, r.beforeFault(err)
	}
	id := status.Header.MemberId
	raised := func(ctx context.Context, all members) (bool, []*pb.AlarmMember, error) {
		list, err := all.alarms(ctx)
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
			_, err := pb.NewMaintenanceClient(m.client.ActiveConnection()).Alarm(ctx,
				&pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: id, Alarm: kind})
			return err
		},
		// The list is from the other members if there are any, and the effect of the alarm must
		// show.
		effect: func(ctx context.Context) (bool, string) {
			held, list, err := raised(ctx, slices.Concat(all.without(t.Node), members{m}))
			if err != nil {
				return false, err.Error()
			}
			seen := fmt.Sprintf("etcd lists the alarms [%s]", alarmWords(list))
			return all.refuse(ctx, refusal, held, seen)
		},
		lasts: func(ctx context.Context) (bool, string) {
			still, list := false, []*pb.AlarmMember(nil)
			err := onMembers(c, func(all members) (err error) {
				still, list, err = raised(ctx, all)
				return err
			})
			return err != nil || still, fmt.Sprintf("etcd listed the alarms [%s]", alarmWords(list))
		},
		healed: func(ctx context.Context) (bool, string) {
			return lookAt(c, func(all members) (bool, string, error) {
				still, list, err := raised(ctx, all)
				if err != nil || still || len(list) > 0 {
					// Other members may have their own active alarms.
					return !still, fmt.Sprintf("etcd lists the alarms [%s]", alarmWords(list)), err
				}
				held, seen := all.takesWrites(ctx)
				return held, "etcd lists no alarm; " + seen, nil
			})
		},
	}.promised(r, r.undoing(raisedAlarm{id, kind})).injection(ctx)
}

// raisedAlarm is the alarm to undo.
type raisedAlarm struct {
	Member uint64       `json:"member"`
	Type   pb.AlarmType `json:"type"`
}

// refuse checks whether a member refuses a write with this error, in addition to what was seen
// before.
func (all members) refuse(ctx context.Context, refusal error, held bool, seen string) (bool, string) {
	var got error
	err := all.first(ctx, func(ctx context.Context, m member) error {
		_, err := m.client.Put(ctx, probeKey, "")
		if err == nil || refusedWith(err, refusal) {
			got = err
			return nil
		}
		return err
	})
	if err != nil {
		got = err
	}
	if got == nil {
		_ = all.first(ctx, func(ctx context.Context, m member) error {
			_, err := m.client.Delete(ctx, probeKey)
			return err
		})
		return false, seen + ", but it accepts a write"
	}
	return held && refusedWith(got, refusal), fmt.Sprintf("%s, and to a write: %v", seen, got)
}

// disarm removes an alarm of a member; 0 means every member. It does nothing if there is none.
func (all members) disarm(ctx context.Context, id uint64, kind pb.AlarmType) error {
	list, err := all.alarms(ctx)
	if err != nil {
		return err
	}
	var problems []error
	for _, a := range list {
		if a.Alarm != kind || id != 0 && a.MemberID != id {
			continue
		}
		err := all.first(ctx, func(ctx context.Context, m member) error {
			_, err := m.client.AlarmDisarm(ctx, &clientv3.AlarmMember{MemberID: a.MemberID, Alarm: a.Alarm})
			return err
		})
		if err != nil {
			problems = append(problems, fmt.Errorf("disarming alarm %s of member %x: %w", a.Alarm, a.MemberID, err))
		}
	}
	return errors.Join(problems...)
}

func alarmWords(list []*pb.AlarmMember) string {
	return strings.Join(framework.Names(list, func(a *pb.AlarmMember) string { return fmt.Sprintf("%s of member %x", a.Alarm, a.MemberID) }), ", ")
}
