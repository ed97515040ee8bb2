package fault

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/members"
	"github.com/holdfast-ha/holdfast/framework/record"
)

const (
	// fillPrefix is the prefix of the keys that fill the database; Kubernetes does not use it.
	fillPrefix = "holdfast/fill/"
	// fillRate is the slowest at which a database is filled, in bytes per second.
	fillRate = 8 << 20
	// quotaMetric is the metric with which etcd before 3.6 reports the quota.
	quotaMetric = "etcd_server_quota_backend_bytes"
)

// FillQuota fills etcd's database until it accepts no more writes.
var FillQuota = onEtcd(&Fault{
	Name:    "fill-quota",
	Summary: "writes values to an etcd member until its database is as large as its quota and it raises the alarm NOSPACE; healing deletes them, compacts, defragments every member and disarms the alarm",
	Params: []Param{
		sizeParam("max", "largest quota to fill, in bytes. etcd's default quota is 2Gi: set quota-backend-bytes in the cluster's extraArgs for etcd", 256<<20, 16<<20, 8<<30),
		sizeParam("value", "size of each value, in bytes", 512<<10, 1<<10, 1<<20),
	},
	Example:  "etcd/any max=256Mi",
	Effects:  does(record.EffectAlarm),
	takes:    func(r Request) time.Duration { return time.Duration(Value[int64](r, "max")/fillRate) * time.Second },
	Promised: true,
}, func(r Request) (Inject, error) {
	return r.withMembers(func(ctx context.Context, all members.All) (Injection, error) { return injectFillQuota(ctx, r, all) }), nil
})

func injectFillQuota(ctx context.Context, r Request, all members.All) (Injection, error) {
	c, t, most, value := r.Cluster, r.Target, Value[int64](r, "max"), Value[int64](r, "value")
	m := all.On(t.Node)
	quota, err := quotaOf(ctx, m, c.(framework.EtcdAccess))
	if err != nil {
		return nil, fmt.Errorf("fault fill-quota: failed to ask for the quota of etcd on %s: %w", t.Node, err)
	}
	if quota > most {
		return nil, r.missing("quota of "+mebibytes(most)+" at most", "etcd on "+t.Node,
			fmt.Sprintf("its quota is %s: set quota-backend-bytes in the extraArgs of etcd in the cluster file, for example to %d, or raise max", mebibytes(quota), 64<<20))
	}
	noSpace := func(a *pb.AlarmMember) bool { return a.Alarm == pb.AlarmType_NOSPACE }
	switch list, err := all.Alarms(ctx); {
	case err != nil:
		return nil, r.beforeFault(err)
	case slices.ContainsFunc(list, noSpace):
		return notInjected(t, "etcd already had an alarm: %s", alarmWords(list)), nil
	}
	written := int64(0)
	return attempt{
		target: t,
		what:   fmt.Sprintf("filling the quota of etcd on %s (%s)", t.Node, mebibytes(quota)),
		ask: func(ctx context.Context) error {
			// Then the cluster's nodes undo it.
			ctx, cancel := context.WithTimeoutCause(ctx, r.TTL, fmt.Errorf("not full within %s, the time to live of the fault: set a longer one", r.TTL))
			defer cancel()
			bytes := make([]byte, value)
			for n := 0; written < 2*quota; n++ {
				full, err := putLarge(ctx, m.Client, fillPrefix+strconv.Itoa(n), bytes)
				if err != nil && ctx.Err() != nil {
					return fmt.Errorf("after %s were written: %w", mebibytes(written), context.Cause(ctx))
				}
				if full || err != nil {
					return err
				}
				written += value
			}
			return nil // without the alarm there is no proof
		},
		effect: func(ctx context.Context) (bool, string) {
			list, err := all.Alarms(ctx)
			if err != nil {
				return false, err.Error()
			}
			seen := fmt.Sprintf("after %s were written etcd lists the alarms [%s]", mebibytes(written), alarmWords(list))
			return refuse(ctx, all, rpctypes.ErrNoSpace, slices.ContainsFunc(list, noSpace), seen)
		},
		healed: func(ctx context.Context) (bool, string) {
			return lookAt(c, func(all members.All) (bool, string, error) {
				list, err := all.Alarms(ctx)
				if err != nil || slices.ContainsFunc(list, noSpace) {
					return false, fmt.Sprintf("etcd lists the alarms [%s]", alarmWords(list)), err
				}
				held, seen := etcdWrites(ctx, c, t.Node)
				return held, "etcd lists no alarm NOSPACE; " + seen, nil
			})
		},
	}.promised(r, framework.Undoing{FreeSpace: fillPrefix}).injection(ctx)
}

// quotaOf returns the size limit of the member's database.
func quotaOf(ctx context.Context, m members.Member, access framework.EtcdAccess) (int64, error) {
	s, err := m.Status(ctx)
	if err != nil {
		return 0, err
	}
	if s.DbSizeQuota > 0 {
		return s.DbSizeQuota, nil
	}
	bytes, err := metric(ctx, m, access, quotaMetric)
	return int64(bytes), err
}
