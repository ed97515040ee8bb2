package backup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/members"
	"github.com/holdfast-ha/holdfast/framework/scratch"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// Member is a node with an etcd member whose data can be replaced.
type Member struct {
	Name string
	framework.EtcdOperator
	framework.Killer
	framework.Starter
}

// Restoration is the replacement of the data of all members by those of a snapshot.
type Restoration struct {
	Members []Member
	// Snapshot is the path of a file as etcd's Snapshot call writes it.
	Snapshot string
	// Peers are the members of the new cluster, those that Members report among them.
	Peers []framework.EtcdPeer
	// Bump is by how much the revision is raised, and everything before counts as compacted, so
	// that no client sees the revision go back; 0 leaves it as it was.
	Bump uint64
	// Down is how long all members stay down before their data are replaced.
	Down time.Duration
	// Hold is after what time, beyond Down, a member is started if this process does not get
	// that far.
	Hold time.Duration
}

// Run makes the data of every member, stops every member, gives each its data, and starts all. It
// stops none if the data cannot be made, with an error of type framework.Untouched, and replaces
// none before all have stopped, since members with and without the snapshot must not meet;
// whatever fails then, it starts all.
func (r Restoration) Run(ctx context.Context) error {
	dir, remove, err := scratch.Dir("holdfast-restore-")
	if err != nil {
		return framework.Untouched{Err: err}
	}
	defer func() { _ = remove() }()
	err = framework.DoStep(ctx, "", "make the data of etcd", func(ctx context.Context) (string, error) { return "from the snapshot", r.build(ctx, dir) })
	if err != nil {
		return framework.Untouched{Err: err}
	}
	return r.replace(ctx, dir)
}

// build makes the data of each member in a directory of its name.
func (r Restoration) build(ctx context.Context, dir string) error {
	// The new cluster has a unique identity: a member that still has the old data must not join it.
	token := "holdfast-" + rand.Text()
	cluster := members.InitialCluster(r.Peers)
	for _, m := range r.Members {
		own, err := m.EtcdPeer(ctx)
		if err != nil {
			return fmt.Errorf("etcd member of %s: %w", m.Name, err)
		}
		i := slices.IndexFunc(r.Peers, func(p framework.EtcdPeer) bool { return p.Name == own.Name })
		if i < 0 {
			return fmt.Errorf("etcd on %s is called %s, and the members are %s", m.Name, own.Name, cluster)
		}
		err = snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
			SnapshotPath:        r.Snapshot,
			Name:                own.Name,
			OutputDataDir:       filepath.Join(dir, m.Name),
			PeerURLs:            r.Peers[i].URLs,
			InitialCluster:      cluster,
			InitialClusterToken: token,
			RevisionBump:        r.Bump,
			MarkCompacted:       r.Bump > 0,
		})
		if err != nil {
			return fmt.Errorf("failed to restore the snapshot for %s: %w", m.Name, err)
		}
	}
	return ctx.Err()
}

// replace replaces the data of all members by those that build has made.
func (r Restoration) replace(ctx context.Context, dir string) error {
	each := func(step string, do func(context.Context, Member) (proof string, err error)) error {
		return framework.Each(r.Members, func(m Member) error {
			ctx, cancel := context.WithTimeout(ctx, memberLimit)
			defer cancel()
			return framework.DoStep(ctx, m.Name, step, func(ctx context.Context) (string, error) { return do(ctx, m) })
		})
	}
	err := each("stop etcd", func(ctx context.Context, m Member) (string, error) {
		err := m.Kill(ctx, framework.Etcd, r.Down+r.Hold)
		if errors.Is(err, framework.ErrNothingDone) {
			// Something else already holds it down, and may release it too early.
			if err = m.Start(ctx, framework.Etcd); err == nil {
				err = m.Kill(ctx, framework.Etcd, r.Down+r.Hold)
			}
		}
		return "its process exited", err
	})
	if err == nil && r.Down > 0 {
		err = framework.DoStep(ctx, "", "leave etcd down", func(ctx context.Context) (string, error) {
			if !client.Pause(ctx, r.Down) {
				return "", ctx.Err()
			}
			return fmt.Sprintf("no member ran for %s", r.Down), nil
		})
	}
	if err == nil {
		err = each("restore etcd", func(ctx context.Context, m Member) (string, error) {
			return "its data are those of the snapshot", m.ReplaceEtcdData(ctx, filepath.Join(dir, m.Name))
		})
	}
	return errors.Join(err, each("start etcd", func(ctx context.Context, m Member) (string, error) {
		return "it was started", m.Start(ctx, framework.Etcd)
	}))
}
