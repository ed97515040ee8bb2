package fault

import (
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework/members"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// Compact makes etcd forget old revisions.
var Compact = onEtcd(&Fault{
	Name:    "compact",
	Summary: "makes etcd discard old revisions, so that watches and paged lists that lag behind fail; healing changes nothing",
	Params: []Param{
		intParam("keep", "number of revisions before the current one that stay readable", 0, 0, 1_000_000_000),
		boolParam("physical", "true: return once the discarded revisions are gone from the member's database too", false),
	},
	Example:   "etcd/any keep=100",
	permanent: true,
	Effects:   does(record.EffectCompacted),
}, func(r Request) (Inject, error) {
	return func(ctx context.Context) (Injection, error) { return injectCompact(ctx, r) }, nil
})

func injectCompact(ctx context.Context, r Request) (Injection, error) {
	t, keep := r.Target, Value[int](r, "keep")
	m, err := openMember(r.Cluster, t.Node)
	if err != nil {
		return nil, r.beforeFault(err)
	}
	defer m.Client.Close()
	// A read at the revision before the first that stays reports whether it was
	// forgotten: before the fault it must be readable.
	read := func(ctx context.Context, revision int64) (*clientv3.GetResponse, error) {
		ctx, cancel := context.WithTimeout(ctx, tryLimit)
		defer cancel()
		return m.Client.Get(ctx, probeKey, clientv3.WithRev(revision), clientv3.WithCountOnly())
	}
	now, err := read(ctx, 0)
	if err != nil {
		return nil, fmt.Errorf("fault compact: failed to ask etcd on %s for its revision: %w", t.Node, err)
	}
	to := now.Header.Revision - int64(keep)
	if to < 2 {
		return notInjected(t, "no revision to compact: etcd is at %d and keep is %d", now.Header.Revision, keep), nil
	}
	switch _, err := read(ctx, to-1); {
	case members.RefusedWith(err, rpctypes.ErrCompacted):
		return notInjected(t, "revision %d was already compacted", to-1), nil
	case err != nil:
		return nil, fmt.Errorf("fault compact: failed to read from etcd on %s at revision %d before the fault: %w", t.Node, to-1, err)
	}
	return attempt{
		target: t,
		what:   fmt.Sprintf("compacting etcd through %s to revision %d", t.Node, to),
		ask: func(ctx context.Context) error {
			var options []clientv3.CompactOption
			if Value[bool](r, "physical") {
				options = append(options, clientv3.WithCompactPhysical())
			}
			return m.Compact(ctx, to, options...)
		},
		effect: func(ctx context.Context) (bool, string) {
			_, err := read(ctx, to-1)
			if err == nil {
				return false, fmt.Sprintf("etcd on %s still reads at revision %d", t.Node, to-1)
			}
			return members.RefusedWith(err, rpctypes.ErrCompacted), fmt.Sprintf("a read from etcd on %s at revision %d: %v", t.Node, to-1, err)
		},
	}.nothingToUndo("compacted revisions do not come back").injection(ctx)
}
