package observe

import (
	"context"
	"strconv"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// locks samples the lock of each component that a supervisor elects through each etcd member,
// with linearizable reads of purpose "lock". The value is the holder's node; the revision is that
// of the lock's creation, which distinguishes one holder's time from the next.
func (o *Observers) locks(context.Context) ([]func(context.Context), error) {
	reporter, ok := o.cfg.Cluster.(framework.LockReporter)
	if !ok || len(reporter.Locks()) == 0 {
		return nil, nil
	}
	members, err := openMembers(o.cfg.Cluster, o.nodes())
	if err != nil {
		return nil, err
	}
	o.closers = append(o.closers, func() { closeMembers(members) })
	var loops []func(context.Context)
	for _, m := range members {
		for component, key := range reporter.Locks() {
			loops = append(loops, o.while(m.node, func(ctx context.Context) {
				every(ctx, o.cfg.StatusInterval, func() {
					if op := m.lock(ctx, key, o.w.Now); ctx.Err() == nil {
						op.Client = "lock/" + string(component)
						_ = o.w.Append(record.KindOp, op)
					}
				})
			}))
		}
	}
	return loops, nil
}

func (m etcdMember) lock(ctx context.Context, key string, now func() record.Nanos) record.Op {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	op := record.Op{Entrance: m.node, API: "etcd", Type: record.OpGet, Consistency: "linearizable", Key: key, Purpose: "lock", Call: now()}
	res, err := m.Get(ctx, key)
	op.Return, op.Outcome = now(), client.EtcdOutcome(err)
	if err != nil {
		op.Error = client.Shorten(err.Error())
		return op
	}
	if len(res.Kvs) > 0 {
		op.Found, op.Value, op.Revision = true, string(res.Kvs[0].Value), strconv.FormatInt(res.Kvs[0].CreateRevision, 10)
	}
	return op
}
