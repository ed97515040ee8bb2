package fault

import (
	"context"
	"fmt"

	"github.com/holdfast-ha/holdfast/framework"
)

// Defragment makes an etcd member rewrite its database, during which it serves
// nobody.
var Defragment Fault = defragment{}

type defragment struct{}

// defragCount is etcd's own count of finished defragmentations.
const defragCount = "etcd_disk_backend_defrag_duration_seconds_count"

func (defragment) Name() string { return "defragment" }

func (defragment) Doc() Doc {
	return Doc{
		Summary: "makes an etcd member rewrite its database, during which it answers nobody; there is nothing to heal",
		Targets: []string{"etcd"},
		Needs:   []string{"EtcdAccess"},
		Example: "etcd/leader",
	}
}

func (f defragment) Check(c framework.Cluster, t Target, p Params) error {
	return checkEtcd(f, c, t, p)
}

func (f defragment) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	if err := f.Check(c, t, p); err != nil {
		return nil, err
	}
	access, err := ability[framework.EtcdAccess](c, "cluster "+c.Name(), "fault defragment")
	if err != nil {
		return nil, err
	}
	m, err := openMember(c, t.Node)
	if err != nil {
		return nil, fmt.Errorf("fault defragment: %w", err)
	}
	defer m.client.Close()
	before, err := m.status(ctx)
	if err != nil {
		return nil, fmt.Errorf("fault defragment: before the fault: %w", err)
	}
	count, err := m.metric(ctx, access, defragCount)
	if err != nil {
		return nil, fmt.Errorf("fault defragment: before the fault: %w", err)
	}
	return attempt{
		target: t,
		what:   "defragmenting etcd on " + t.Node,
		ask:    m.defragment,
		// A database without free pages does not shrink, so its size alone
		// proves nothing.
		effect: func(ctx context.Context) (bool, string) {
			now, err := m.metric(ctx, access, defragCount)
			if err != nil {
				return false, err.Error()
			}
			after, err := m.status(ctx)
			if err != nil {
				return false, err.Error()
			}
			return now > count, fmt.Sprintf("etcd on %s counts %.0f defragmentations, %.0f before; its database has %s, %s before",
				t.Node, now, count, mebibytes(after.DbSize), mebibytes(before.DbSize))
		},
	}.nothingToUndo("the database holds what it held before").injection(ctx)
}

func (m member) defragment(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, compactLimit)
	defer cancel()
	_, err := m.client.Defragment(ctx, m.client.Endpoints()[0])
	return err
}
