package selftest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

const (
	// watchedPrefix is where etcdWatches keeps its keys.
	watchedPrefix = "/holdfast/selftest/"
	// watchLimit is how long etcdWatches may take; it stops a watch that misses its event then.
	watchLimit = 8 * time.Second
)

// etcdWatches runs a short history of one etcd member, always the same: a watch sees keys come,
// change together and go; the revision of the last deletion is compacted, and watches are opened
// at that revision and before it (as in etcd issue 18089). Each watch continues until it has seen
// the last write.
func etcdWatches(ctx context.Context, c framework.Cluster, w *record.Writer) error {
	access, ok := c.(framework.EtcdAccess)
	if !ok {
		return fmt.Errorf("cluster %s gives no access to its etcd members", c.Name())
	}
	node := c.Nodes()[0].Name()
	etcd, err := client.NewEtcd(access, node)
	if err != nil {
		return err
	}
	defer etcd.Close()
	ctx, cancel := context.WithTimeout(ctx, watchLimit)
	defer cancel()
	collection := fmt.Sprintf("selftest-%d", time.Now().UnixNano())
	h := &etcdHistory{etcd: etcd, w: w, node: node, collection: collection, prefix: watchedPrefix + collection + "/"}
	defer h.watches.Wait()

	h.watch(ctx, 0)
	h.write(ctx, "a=1")
	h.write(ctx, "b=2")
	both := h.write(ctx, "a=3", "b=4")
	h.write(ctx, "b=5")
	gone := h.write(ctx, "a")
	if err := h.err; err != nil {
		return err
	}
	// A watch that lags behind the compaction no longer receives previous values.
	for began := time.Now(); h.newest.Load() < gone && time.Since(began) < watchLimit/4; {
		client.Pause(ctx, 10*time.Millisecond)
	}
	if _, err := etcd.Compact(ctx, gone); err != nil {
		return fmt.Errorf("failed to compact etcd at revision %d: %w", gone, err)
	}
	// A member that hides deletions from watches cannot hide them from a read; without it, no
	// client could detect that a watch started too late.
	if err := h.readGone(ctx, both); err != nil {
		return err
	}
	h.watch(ctx, gone)
	h.watch(ctx, both)
	h.write(ctx, "a=6")
	h.write(ctx, "b=7", "c=8")
	h.write(ctx, "last=9")
	return h.err
}

// etcdHistory is one recorded client of one member.
type etcdHistory struct {
	etcd               *clientv3.Client
	w                  *record.Writer
	node               string
	collection, prefix string
	err                error // the first error of a write
	opened             int
	newest             atomic.Int64 // newest revision that a watch has seen
	watches            sync.WaitGroup
}

func (h *etcdHistory) name() string { return "selftest/" + h.node }

// write runs one transaction of puts ("key=value") and deletions ("key"), and returns its
// revision.
func (h *etcdHistory) write(ctx context.Context, changes ...string) int64 {
	if h.err != nil {
		return 0
	}
	var ops []clientv3.Op
	var recorded []record.Op
	for _, change := range changes {
		key, value, put := strings.Cut(change, "=")
		op := record.Op{Client: h.name(), Entrance: h.node, API: "etcd", Type: record.OpDelete, Key: h.prefix + key, Collection: h.collection}
		if put {
			op.Type, op.Value = record.OpPut, value
			ops = append(ops, clientv3.OpPut(op.Key, value))
		} else {
			ops = append(ops, clientv3.OpDelete(op.Key))
		}
		if len(changes) > 1 {
			op.Transaction = h.collection + "/" + changes[0]
		}
		recorded = append(recorded, op)
	}
	call := h.w.Now()
	a, err := h.etcd.Txn(ctx).Then(ops...).Commit()
	for _, op := range recorded {
		op.Call, op.Return, op.Outcome = call, h.w.Now(), client.EtcdOutcome(err)
		if err != nil {
			op.Error = client.Shorten(err.Error())
		} else {
			op.Revision = revision(a.Header.Revision)
		}
		_ = h.w.Append(record.KindOp, op)
	}
	if err != nil {
		h.err = fmt.Errorf("failed to write %v through etcd on %s: %w", changes, h.node, err)
		return 0
	}
	return a.Header.Revision
}

// readGone reads all keys at a compacted revision with another client, and records the result as
// a list.
func (h *etcdHistory) readGone(ctx context.Context, at int64) error {
	l := record.List{Client: "selftest/reader", Entrance: h.node, API: "etcd", Collection: h.collection, Match: record.MatchExact,
		Asked: revision(at), Call: h.w.Now()}
	_, err := h.etcd.Get(ctx, h.prefix, clientv3.WithPrefix(), clientv3.WithRev(at))
	if err != rpctypes.ErrCompacted {
		return fmt.Errorf("a read from etcd on %s at revision %d, which was compacted, must be refused with %v, and returned %v", h.node, at, rpctypes.ErrCompacted, err)
	}
	l.Return, l.Outcome, l.Status, l.Error = h.w.Now(), record.Refused, 410, client.Shorten(err.Error())
	l.Pages = []record.Page{{Call: l.Call, Return: l.Return, Remaining: -1}}
	return h.w.Append(record.KindList, l)
}

func revision(n int64) string { return strconv.FormatInt(n, 10) }

// watch opens a watch of all keys, from a revision or, at 0, from now on, and records it until it
// has seen the last write or ctx is done. It returns once the member accepts or refuses the
// watch.
func (h *etcdHistory) watch(ctx context.Context, from int64) {
	h.opened++
	head := record.Watch{ID: fmt.Sprintf("%s/%d", h.collection, h.opened), Client: h.name(), Entrance: h.node, API: "etcd",
		Collection: h.collection, Bookmarks: true, Previous: true, Called: h.w.Now()}
	o := []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithPrevKV(), clientv3.WithProgressNotify(), clientv3.WithCreatedNotify()}
	if from > 0 {
		head.From = revision(from)
		o = append(o, clientv3.WithRev(from))
	}
	step := func(phase record.WatchPhase, r clientv3.WatchResponse) {
		s := head
		s.Phase, s.Seen = phase, h.w.Now()
		if r.CompactRevision > 0 {
			s.Status, s.Compacted = 410, revision(r.CompactRevision)
		}
		if err := r.Err(); err != nil && err != rpctypes.ErrCompacted {
			s.Error = client.Shorten(err.Error())
		}
		_ = h.w.Append(record.KindWatch, s)
	}
	ctx, cancel := context.WithCancel(ctx)
	responses := h.etcd.Watch(ctx, h.prefix, o...)
	r, ok := <-responses
	if !ok || r.Err() != nil {
		cancel()
		step(record.WatchRefused, r)
		return
	}
	step(record.WatchOpened, r)
	h.watches.Go(func() {
		defer cancel()
		var last clientv3.WatchResponse
		for batch := 1; ; batch++ {
			r, ok := <-responses
			if !ok {
				break
			}
			last = r
			if h.see(head.ID, batch, r) || r.Err() != nil {
				break
			}
		}
		step(record.WatchEnded, last)
	})
}

// see records the contents of a response, and reports whether it had the last write.
func (h *etcdHistory) see(watch string, batch int, r clientv3.WatchResponse) (last bool) {
	now := h.w.Now()
	if r.IsProgressNotify() {
		_ = h.w.Append(record.KindEvent, record.Event{Watch: watch, Type: record.EventBookmark, Revision: revision(r.Header.Revision), Seen: now, Batch: batch})
	}
	for _, e := range r.Events {
		v := record.Event{Watch: watch, Type: record.EventModified, Key: string(e.Kv.Key), Value: string(e.Kv.Value),
			Revision: revision(e.Kv.ModRevision), Seen: now, Batch: batch, Version: e.Kv.Version}
		switch {
		case e.Type == mvccpb.Event_DELETE:
			v.Type = record.EventDeleted
		case e.IsCreate():
			v.Type = record.EventAdded
		}
		if e.Kv.CreateRevision > 0 {
			v.CreateRevision = revision(e.Kv.CreateRevision)
		}
		if e.PrevKv != nil {
			v.PreviousValue, v.PreviousRevision = string(e.PrevKv.Value), revision(e.PrevKv.ModRevision)
		}
		_ = h.w.Append(record.KindEvent, v)
		h.newest.Store(e.Kv.ModRevision)
		last = last || v.Key == h.prefix+"last"
	}
	return last
}
