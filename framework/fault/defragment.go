package fault

import (
	"context"
	"fmt"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// defragCount is etcd's own count of finished defragmentations.
const defragCount = "etcd_disk_backend_defrag_duration_seconds_count"

// Defragment makes an etcd member rewrite its database, during which it serves no requests.
var Defragment = onEtcd(&Fault{
	Name:    "defragment",
	Summary: "makes an etcd member rewrite its database, during which it answers no requests; healing changes nothing",
	Example: "etcd/leader",
	Effects: does(record.EffectLoad),
}, func(r Request) (Inject, error) {
	return func(ctx context.Context) (Injection, error) { return injectDefragment(ctx, r) }, nil
})

func injectDefragment(ctx context.Context, r Request) (Injection, error) {
	c, t := r.Cluster, r.Target
	access := c.(framework.EtcdAccess)
	m, err := openMember(c, t.Node)
	if err != nil {
		return nil, r.beforeFault(err)
	}
	defer m.Client.Close()
	before, err := m.Status(ctx)
	if err != nil {
		return nil, r.beforeFault(err)
	}
	count, err := metric(ctx, m, access, defragCount)
	if err != nil {
		return nil, r.beforeFault(err)
	}
	return attempt{
		target: t,
		what:   "defragmenting etcd on " + t.Node,
		ask:    m.Defragment,
		// A database without free pages does not shrink, so its size alone
		// proves nothing.
		effect: func(ctx context.Context) (bool, string) {
			now, err := metric(ctx, m, access, defragCount)
			if err != nil {
				return false, err.Error()
			}
			after, err := m.Status(ctx)
			if err != nil {
				return false, err.Error()
			}
			return now > count, fmt.Sprintf("etcd on %s counts %.0f defragmentations, %.0f before; its database has %s, %s before",
				t.Node, now, count, mebibytes(after.DbSize), mebibytes(before.DbSize))
		},
	}.nothingToUndo("the database holds what it held before").injection(ctx)
}
