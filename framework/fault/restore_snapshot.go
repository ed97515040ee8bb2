package fault

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/backup"
	"github.com/holdfast-ha/holdfast/framework/members"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/scratch"
	"github.com/holdfast-ha/holdfast/framework/undo"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// afterSnapshotKey is written after the snapshot, so that it must be gone when
// the snapshot is restored.
const afterSnapshotKey = "holdfast/after-snapshot"

// RestoreSnapshot resets etcd to an earlier state.
var RestoreSnapshot = onEtcd(&Fault{
	Name:    "restore-snapshot",
	Summary: "takes a snapshot of etcd, waits, stops every member and restores the snapshot on all of them: what was written since is lost and, without bump, the revision goes back. Healing restarts the API servers, controller managers and schedulers, which have read what is lost; what was lost stays lost",
	Params: []Param{
		durationParam("down", "how long all members stay down, and etcd without a quorum, before their data is replaced", 0, 0, time.Minute),
		durationParam("age", "how old the snapshot is when it is restored", 5*time.Second, 0, 10*time.Minute),
		intParam("bump", "by how much the revision is raised above the snapshot's, with all earlier revisions compacted, as etcd's recovery guide recommends; 0: the revision goes back", 0, 0, 1_000_000_000),
		intParam("writes", "wait, beyond the age, until etcd has had this many more revisions", 0, 0, 1_000_000),
	},
	Needs:    []string{"EtcdOperator", "Killer", "Starter", "ProcessReporter"},
	Example:  "etcd/any age=10s",
	Effects:  does(record.EffectRestored),
	Promised: true,
	takes: func(r Request) time.Duration {
		return Value[time.Duration](r, "age") + Value[time.Duration](r, "down")
	},
	lossy: true,
}, func(r Request) (Inject, error) {
	x, err := rewindOf(r)
	return func(ctx context.Context) (Injection, error) { return x.inject(ctx, r) }, err
})

// rewind is the state of the fault.
type rewind struct {
	cluster framework.Cluster
	age     time.Duration
	down    time.Duration
	writes  int
	bump    uint64
	ttl     time.Duration
	nodes   []backup.Member
	// running are the processes that ran when healing began; nil before.
	running map[string]string
}

func rewindOf(r Request) (*rewind, error) {
	x := &rewind{cluster: r.Cluster, ttl: r.TTL,
		age: Value[time.Duration](r, "age"), down: Value[time.Duration](r, "down"), writes: Value[int](r, "writes"), bump: uint64(Value[int](r, "bump"))}
	for _, n := range framework.NodesWith(r.Cluster, framework.Etcd) {
		m := backup.Member{Name: n.Name()}
		var err error
		if m.EtcdOperator, err = onNode[framework.EtcdOperator](r, n); err != nil {
			return nil, err
		}
		if m.Killer, err = onNode[framework.Killer](r, n); err != nil {
			return nil, err
		}
		if m.Starter, err = onNode[framework.Starter](r, n); err != nil {
			return nil, err
		}
		x.nodes = append(x.nodes, m)
	}
	for _, component := range undo.CachingComponents {
		for _, n := range framework.NodesWith(r.Cluster, component) {
			if _, err := onNode[framework.Killer](r, n); err != nil {
				return nil, err
			}
			if _, err := onNode[framework.ProcessReporter](r, n); err != nil {
				return nil, err
			}
		}
	}
	return x, nil
}

func (r *rewind) inject(ctx context.Context, asked Request) (Injection, error) {
	c, t := asked.Cluster, asked.Target
	dir, remove, err := scratch.Dir("holdfast-snapshot-")
	if err != nil {
		return nil, asked.beforeFault(err)
	}
	defer func() { _ = remove() }()
	file := filepath.Join(dir, "snapshot.db")
	var revision, last int64
	var peers []framework.EtcdPeer
	err = onMember(c, t.Node, func(m members.Member) error {
		list, err := members.All{m}.List(ctx)
		if err != nil {
			return err
		}
		peers = members.PeersOf(list, "")
		// A key of an earlier run would be in the snapshot.
		if _, err := m.Client.Delete(ctx, afterSnapshotKey); err != nil {
			return err
		}
		before, err := backup.Save(ctx, c.(framework.EtcdAccess), t.Node, file)
		if err != nil {
			return err
		}
		if revision, err = strconv.ParseInt(before, 10, 64); err != nil {
			return err
		}
		last, err = r.wait(ctx, m, revision)
		return err
	})
	if err != nil {
		return nil, asked.beforeFault(fmt.Errorf("etcd on %s: %w", t.Node, err))
	}
	if len(peers) != len(r.nodes) {
		return notInjected(t, "etcd has %d members, and there are %d nodes with etcd", len(peers), len(r.nodes)), nil
	}
	before, err := undo.Caching(ctx, c.Nodes())
	if err != nil {
		return nil, asked.beforeFault(err)
	}
	return attempt{
		target: t,
		what:   fmt.Sprintf("restoring a snapshot of etcd at revision %d", revision),
		ask: func(ctx context.Context) error {
			// Halfway through, the cluster does not exist.
			return backup.Restoration{Members: r.nodes, Snapshot: file, Peers: peers, Bump: r.bump, Down: r.down, Hold: r.ttl}.Run(context.WithoutCancel(ctx))
		},
		effect:   func(ctx context.Context) (bool, string) { return r.back(ctx, last) },
		patience: healLimit, // the members start and elect a leader
		undo:     r.restart,
		healed:   r.serves,
	}.promised(asked, framework.Undoing{Restart: before}).injection(ctx)
}

// wait returns when the snapshot is old enough, with the revision at that time.
func (r *rewind) wait(ctx context.Context, m members.Member, snapshot int64) (int64, error) {
	if !client.Pause(ctx, r.age) {
		return 0, ctx.Err()
	}
	last := int64(0)
	_, held, seen := await(ctx, r.ttl, func(ctx context.Context) (bool, string) {
		ctx, cancel := context.WithTimeout(ctx, tryLimit)
		defer cancel()
		answer, err := m.Client.Put(ctx, afterSnapshotKey, "")
		if err != nil {
			return false, err.Error()
		}
		last = answer.Header.Revision
		return last-snapshot >= int64(r.writes), fmt.Sprintf("revision %d; the snapshot is at revision %d, and %d more are required", last, snapshot, r.writes)
	})
	if !held {
		return 0, errors.New(seen)
	}
	return last, nil
}

// back checks whether every member serves and has lost what was written after
// the snapshot.
func (r *rewind) back(ctx context.Context, last int64) (held bool, seen string) {
	return lookAt(r.cluster, func(all members.All) (held bool, seen string, err error) {
		for _, m := range all {
			ctx, cancel := context.WithTimeout(ctx, tryLimit)
			answer, err := m.Client.Get(ctx, afterSnapshotKey, clientv3.WithKeysOnly())
			cancel()
			if err != nil {
				return false, "", fmt.Errorf("linearizable read from etcd on %s: %w", m.Node, err)
			}
			seen = fmt.Sprintf("etcd on %s is at revision %d, %d before", m.Node, answer.Header.Revision, last)
			if answer.Count > 0 {
				return false, seen + ", and knows a key that was written after the snapshot", nil
			}
		}
		return true, seen + ", and no member knows a key that was written after the snapshot", nil
	})
}

// restart kills every process that runs when healing begins, once, however often it is tried. Those
// that were started since the fault count as well: they may have read from one that had not.
func (r *rewind) restart(ctx context.Context) (err error) {
	if r.running == nil {
		if r.running, err = undo.Caching(ctx, r.cluster.Nodes()); err != nil {
			return err
		}
	}
	return undo.Do(ctx, r.cluster.(undo.Cluster), framework.Undoing{Fault: "restore-snapshot", Restart: r.running})
}

// serves checks whether every member reads and every API server is ready.
func (r *rewind) serves(ctx context.Context) (bool, string) {
	var looks []look
	for _, n := range r.nodes {
		looks = append(looks, func(ctx context.Context) (bool, string) { return etcdReads(ctx, r.cluster, n.Name) })
	}
	for _, n := range framework.NodesWith(r.cluster, framework.APIServer) {
		if e, ok := entranceOf(r.cluster, n.Name(), framework.APIServer); ok {
			looks = append(looks, func(ctx context.Context) (bool, string) { return ready(ctx, e) })
		}
	}
	return all(looks...)(ctx)
}
