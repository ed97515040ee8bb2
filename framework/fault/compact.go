package fault

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework"
)

// Compact makes etcd forget old revisions.
var Compact Fault = compact{}

type compact struct{}

func (compact) Name() string { return "compact" }

func (compact) Doc() Doc {
	return Doc{
		Summary: "makes etcd forget old revisions, so that watches and paged lists that are behind break off; there is nothing to heal",
		Targets: []string{"etcd"},
		Params: map[string]string{
			"keep":     "number of revisions before the current one that stay readable, 0 to 1000000000; default 0",
			"physical": "true: return once the forgotten revisions are gone from the member's database too; default false",
		},
		Needs:   []string{"EtcdAccess"},
		Example: "etcd/any keep=100",
	}
}

func (f compact) Check(c framework.Cluster, t Target, p Params) error {
	_, _, err := f.params(c, t, p)
	return err
}

func (f compact) params(c framework.Cluster, t Target, p Params) (keep int, physical bool, err error) {
	if err = checkEtcd(f, c, t, p); err != nil {
		return
	}
	if keep, err = intParam(f, p, "keep", 0, 0, 1_000_000_000); err != nil {
		return
	}
	physical, err = boolParam(f, p, "physical")
	return
}

func (f compact) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	keep, physical, err := f.params(c, t, p)
	if err != nil {
		return nil, err
	}
	m, err := openMember(c, t.Node)
	if err != nil {
		return nil, fmt.Errorf("fault compact: %w", err)
	}
	defer m.client.Close()
	// A read at the revision before the first that stays tells whether it was
	// forgotten: before the fault it must be readable.
	read := func(ctx context.Context, revision int64) (*clientv3.GetResponse, error) {
		ctx, cancel := context.WithTimeout(ctx, tryLimit)
		defer cancel()
		return m.client.Get(ctx, probeKey, clientv3.WithRev(revision), clientv3.WithCountOnly())
	}
	now, err := read(ctx, 0)
	if err != nil {
		return nil, fmt.Errorf("fault compact: asking etcd on %s for its revision: %w", t.Node, err)
	}
	to := now.Header.Revision - int64(keep)
	if to < 2 {
		return notInjected(t, "there is no revision to forget: etcd is at %d and %d are to be kept", now.Header.Revision, keep), nil
	}
	switch _, err := read(ctx, to-1); {
	case refusedWith(err, rpctypes.ErrCompacted):
		return notInjected(t, "revision %d was forgotten already", to-1), nil
	case err != nil:
		return nil, fmt.Errorf("fault compact: reading from etcd on %s at revision %d before the fault: %w", t.Node, to-1, err)
	}
	return attempt{
		target: t,
		what:   fmt.Sprintf("compacting etcd through %s to revision %d", t.Node, to),
		ask: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, compactLimit)
			defer cancel()
			var options []clientv3.CompactOption
			if physical {
				options = append(options, clientv3.WithCompactPhysical())
			}
			_, err := m.client.Compact(ctx, to, options...)
			return err
		},
		effect: func(ctx context.Context) (bool, string) {
			_, err := read(ctx, to-1)
			if err == nil {
				return false, fmt.Sprintf("etcd on %s still reads at revision %d", t.Node, to-1)
			}
			return refusedWith(err, rpctypes.ErrCompacted), fmt.Sprintf("a read from etcd on %s at revision %d: %v", t.Node, to-1, err)
		},
	}.nothingToUndo("revisions that were forgotten do not come back").injection(ctx)
}

// compactLimit is how long a compaction or a defragmentation may take. Both
// grow with the database, which may have 8 GiB.
const compactLimit = time.Minute
