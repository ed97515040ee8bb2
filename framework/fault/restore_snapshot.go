package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/backup"
)

// RestoreSnapshot takes etcd back in time.
var RestoreSnapshot Fault = restoreSnapshot{}

type restoreSnapshot struct{}

// afterSnapshotKey is written after the snapshot, so that it must be gone when
// the snapshot is restored.
const afterSnapshotKey = "holdfast/after-snapshot"

func (restoreSnapshot) Name() string { return "restore-snapshot" }

func (restoreSnapshot) Doc() Doc {
	return Doc{
		Summary: "takes a snapshot of etcd, waits, and restores it on every member: what was written since is lost and, without bump, the revision goes back. Healing restarts the API servers, controller managers and schedulers, which know of a future that is no more; what was lost stays lost",
		Targets: []string{"etcd"},
		Params: map[string]string{
			"age":    "how old the snapshot is when it is restored, a duration from 0s to 10m; default 5s",
			"bump":   "by how much the revision is raised above the snapshot's, with all before that compacted, as etcd's guide to recovery asks for; 0 to 1000000000, default 0: the revision goes back",
			"writes": "wait, beyond the age, until etcd has had this many more revisions, 0 to 1000000; default 0",
		},
		Needs:   []string{"EtcdAccess", "EtcdOperator", "Killer", "Starter", "ProcessReporter", promiserNeed},
		Example: "etcd/any age=10s",
	}
}

// rewind is what the fault needs.
type rewind struct {
	cluster framework.Cluster
	age     time.Duration
	writes  int
	bump    uint64
	ttl     time.Duration
	nodes   []backup.Member
	// restarted are the processes that knew of what was lost and know it no
	// more, by component and node.
	restarted map[string]bool
}

func (f restoreSnapshot) Check(c framework.Cluster, t Target, p Params) error {
	_, err := f.rewind(c, t, p)
	return err
}

func (f restoreSnapshot) rewind(c framework.Cluster, t Target, p Params) (*rewind, error) {
	if err := checkEtcd(f, c, t, p); err != nil {
		return nil, err
	}
	if err := keepable(f, c, true); err != nil {
		return nil, err
	}
	r := &rewind{cluster: c, ttl: p.TTL, restarted: map[string]bool{}}
	var err error
	if r.age, err = durationParam(f, p, "age", 5*time.Second, 0, 10*time.Minute); err != nil {
		return nil, err
	}
	if r.writes, err = intParam(f, p, "writes", 0, 0, 1_000_000); err != nil {
		return nil, err
	}
	bump, err := intParam(f, p, "bump", 0, 0, 1_000_000_000)
	if err != nil {
		return nil, err
	}
	r.bump = uint64(bump)
	for _, n := range nodesWith(c, framework.Etcd) {
		of, what := "node "+n.Name(), "fault restore-snapshot"
		x := backup.Member{Name: n.Name()}
		if x.EtcdOperator, err = ability[framework.EtcdOperator](n, of, what); err != nil {
			return nil, err
		}
		if x.Killer, err = ability[framework.Killer](n, of, what); err != nil {
			return nil, err
		}
		if x.Starter, err = ability[framework.Starter](n, of, what); err != nil {
			return nil, err
		}
		r.nodes = append(r.nodes, x)
	}
	for _, component := range stale {
		for _, n := range nodesWith(c, component) {
			if _, err := ability[framework.Killer](n, "node "+n.Name(), "fault restore-snapshot"); err != nil {
				return nil, err
			}
			if _, err := ability[framework.ProcessReporter](n, "node "+n.Name(), "fault restore-snapshot"); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

func (f restoreSnapshot) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	r, err := f.rewind(c, t, p)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "holdfast-snapshot-")
	if err != nil {
		return nil, fmt.Errorf("fault restore-snapshot: making a directory for the snapshot: %w", err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "snapshot.db")
	var revision, last int64
	var peers []framework.EtcdPeer
	err = onMember(c, t.Node, func(m member) error {
		list, err := members{m}.list(ctx)
		if err != nil {
			return err
		}
		peers = peersOf(list, "")
		if revision, err = m.snapshot(ctx, file); err != nil {
			return err
		}
		last, err = r.wait(ctx, m, revision)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("fault restore-snapshot: before the fault: etcd on %s: %w", t.Node, err)
	}
	if len(peers) != len(r.nodes) {
		return notInjected(t, "etcd has %d members, and there are %d nodes with etcd", len(peers), len(r.nodes)), nil
	}
	u := undoing(f, nil)
	u.Lossy = true
	return attempt{
		target: t,
		what:   fmt.Sprintf("restoring a snapshot of etcd at revision %d", revision),
		ask: func(ctx context.Context) error {
			// Halfway there is no cluster at all.
			return backup.RestoreMembers(context.WithoutCancel(ctx), r.nodes, file, peers, r.bump, r.ttl)
		},
		effect:   func(ctx context.Context) (bool, string) { return r.back(ctx, last) },
		patience: healLimit, // the members start and elect a leader
		undo:     r.restart,
		healed:   r.serves,
		ttl:      p.TTL,
	}.promised(c, u).injection(ctx)
}

// undoData implements undoer.
func (restoreSnapshot) undoData(ctx context.Context, c framework.Cluster, _ json.RawMessage) error {
	r := &rewind{cluster: c, restarted: map[string]bool{}}
	return r.restart(ctx)
}

// wait returns when the snapshot is old enough, and the revision by then.
func (r *rewind) wait(ctx context.Context, m member, snapshot int64) (int64, error) {
	select {
	case <-time.After(r.age):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	last := int64(0)
	_, held, seen := await(ctx, r.ttl, func(ctx context.Context) (bool, string) {
		ctx, cancel := context.WithTimeout(ctx, tryLimit)
		defer cancel()
		answer, err := m.client.Put(ctx, afterSnapshotKey, "")
		if err != nil {
			return false, err.Error()
		}
		last = answer.Header.Revision
		return last-snapshot >= int64(r.writes), fmt.Sprintf("revision %d, the snapshot is of %d and %d more are wanted", last, snapshot, r.writes)
	})
	if !held {
		return 0, errors.New(seen)
	}
	return last, nil
}

// snapshot saves the member's database and returns its revision at the least.
func (m member) snapshot(ctx context.Context, file string) (revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, compactLimit)
	defer cancel()
	s, err := m.status(ctx)
	if err != nil {
		return 0, err
	}
	// A key of an earlier run would be in the snapshot.
	if _, err := m.client.Delete(ctx, afterSnapshotKey); err != nil {
		return 0, err
	}
	r, err := m.client.Snapshot(ctx)
	if err != nil {
		return 0, fmt.Errorf("asking for a snapshot: %w", err)
	}
	defer r.Close()
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	if _, err = io.Copy(f, r); err != nil {
		err = fmt.Errorf("saving the snapshot: %w", err)
	}
	return s.Header.Revision, errors.Join(err, f.Close())
}

// back looks whether every member serves and has lost what was written after
// the snapshot.
func (r *rewind) back(ctx context.Context, last int64) (held bool, seen string) {
	err := onMembers(r.cluster, func(all members) error {
		for _, m := range all {
			ctx, cancel := context.WithTimeout(ctx, tryLimit)
			answer, err := m.client.Get(ctx, afterSnapshotKey, clientv3.WithKeysOnly())
			cancel()
			if err != nil {
				return fmt.Errorf("linearizable read from etcd on %s: %w", m.node, err)
			}
			seen = fmt.Sprintf("etcd on %s is at revision %d, %d before", m.node, answer.Header.Revision, last)
			if answer.Count > 0 {
				seen += ", and knows a key that was written after the snapshot"
				return nil
			}
		}
		held = true
		seen += ", and no member knows a key that was written after the snapshot"
		return nil
	})
	if err != nil {
		return false, err.Error()
	}
	return held, seen
}

// stale are the components that keep what they have read from etcd.
var stale = []framework.Component{framework.APIServer, framework.ControllerManager, framework.Scheduler}

// restart ends every process that may know of what was lost, once, however
// often healing is tried; the nodes' watchers start them again.
func (r *rewind) restart(ctx context.Context) error {
	var problems []error
	for _, component := range stale {
		for _, n := range nodesWith(r.cluster, component) {
			key := string(component) + "/" + n.Name()
			if _, ok := n.(framework.Killer); !ok || r.restarted[key] {
				continue // that of another node is for its own agent
			}
			if err := r.restartOne(ctx, n, Target{Asked: key, Node: n.Name(), Component: component}); err != nil {
				problems = append(problems, fmt.Errorf("restarting %s on %s: %w", component, n.Name(), err))
				continue
			}
			r.restarted[key] = true
		}
	}
	return errors.Join(problems...)
}

func (r *rewind) restartOne(ctx context.Context, n framework.Node, t Target) error {
	p, err := newProcess(RestoreSnapshot, r.cluster, t)
	if err != nil {
		return err
	}
	_, absent, err := p.before(ctx)
	if err != nil || absent != "" {
		return err // one that does not run knows nothing
	}
	return n.(framework.Killer).Kill(ctx, t.Component, 0)
}

// serves looks whether every member reads and every API server is ready.
func (r *rewind) serves(ctx context.Context) (bool, string) {
	var looks []look
	for _, n := range r.nodes {
		looks = append(looks, func(ctx context.Context) (bool, string) { return etcdReads(ctx, r.cluster, n.Name) })
	}
	for _, n := range nodesWith(r.cluster, framework.APIServer) {
		if e, ok := entranceOf(r.cluster, n.Name(), framework.APIServer); ok {
			looks = append(looks, func(ctx context.Context) (bool, string) { return ready(ctx, e) })
		}
	}
	return all(looks...)(ctx)
}
