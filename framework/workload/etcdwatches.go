package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// progressEvery is how often a client that wants progress notifications requests them. Members
// also send them on their own, by default every ten minutes.
const progressEvery = time.Second

// startWatches starts the watches of the profile at the members of some nodes, or at all if there
// are none: of all keys, a group, or one; from the revision of a list, or from the next change on.
func (p *etcdTraffic) startWatches(nodes []string) error {
	for i := range p.settings.Watches {
		for at, node := range framework.NodeNames(framework.NodesWith(p.t.cfg.Cluster, framework.Etcd)) {
			if len(nodes) > 0 && !slices.Contains(nodes, node) {
				continue
			}
			w := &watcher{watches: p.watches, of: p.of, at: at, choose: (*watcher).chooseEtcd, random: p.t.random()}
			name := fmt.Sprintf("%s/watch-%d/%s", ProfileEtcd, p.rounds*p.settings.Watches+i, node)
			ways, err := openMembers(p.t.cfg.Cluster, p.t.w, name)
			if err != nil {
				return err
			}
			for _, other := range ways {
				other.name, other.of, other.left = name, p.of, p.t.leaving(other.node)
				w.ways = append(w.ways, other)
			}
			p.watches.watchers.Go(w.run)
		}
	}
	return nil
}

func (w *watcher) chooseEtcd() (q watching, listed bool) {
	q.bookmarks, q.previous = w.random.IntN(4) > 0, w.random.IntN(2) == 0
	switch dice := w.random.IntN(10); {
	case dice < 6: // all
	case dice < 8:
		q.group = groups[w.random.IntN(len(groups))]
	default:
		q.key = w.of.keys[w.random.IntN(len(w.of.keys))]
	}
	return q, w.random.IntN(3) > 0
}

func (m *member) listFrom(ctx context.Context, group string) (version uint64, from string) {
	l := m.list(ctx, "", listing{match: record.MatchUnset, group: group})
	if l.Outcome != record.OK {
		return 0, ""
	}
	version = record.Number(l.Pages[0].Revision)
	return version, strconv.FormatUint(version+1, 10)
}

// watch makes one watch, on a stream of its own, and records it until it ends on its own, until
// ctx ends, or until done returns true. It does not use clientv3's Watch, which resumes on its
// own.
func (m *member) watch(ctx context.Context, id string, q watching, seen *progress, done func() bool) watched {
	entry := record.Watch{
		ID: id, Client: m.name, Entrance: m.node, API: apiEtcd, Collection: m.of.name, Key: q.key, Group: q.group,
		From: q.from, Bookmarks: q.bookmarks, Previous: q.previous, Resumes: q.resumes, Called: m.w.Now(),
	}
	phase := func(p record.WatchPhase) {
		entry.Phase, entry.Seen = p, m.w.Now()
		_ = m.w.Append(record.KindWatch, entry)
	}
	result := watched{from: q.from}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	tooLong := time.AfterFunc(stepTimeout, func() { cancel(fmt.Errorf("not accepted in %s", stepTimeout)) })
	defer tooLong.Stop()
	// A member without a leader must report an error instead of staying silent.
	stream, err := etcdserverpb.NewWatchClient(m.ActiveConnection()).Watch(clientv3.WithRequireLeader(ctx))
	if err == nil {
		err = stream.Send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{CreateRequest: m.watchRequest(q)}})
	}
	for batch := 1; err == nil; batch++ {
		var res *etcdserverpb.WatchResponse
		if res, err = stream.Recv(); err != nil {
			break
		}
		if res.Created && result.id == "" {
			tooLong.Stop()
			phase(record.WatchOpened)
			result.id = id
			if q.from == "" {
				seen.begin(uint64(res.Header.Revision)) // later events are newer
			}
			if q.bookmarks {
				go askForProgress(ctx, stream)
			}
		}
		if res.Canceled {
			if res.CompactRevision > 0 {
				entry.Status, entry.Compacted = http.StatusGone, strconv.FormatInt(res.CompactRevision, 10)
			}
			err = errors.New(res.CancelReason)
			break
		}
		for _, e := range m.events(res) {
			e.Watch, e.Batch = id, batch
			_ = m.w.Append(record.KindEvent, e)
			m.of.saw(e.Revision)
			seen.add(e.Key, e.Revision, e.Type == record.EventBookmark)
			result.from = strconv.FormatUint(record.Number(e.Revision)+1, 10)
		}
		if done() {
			err = errLastWrite
		}
	}
	entry.Error = client.Shorten(why(ctx, err))
	if entry.Error == "" && errors.Is(err, io.EOF) {
		entry.Error = "the stream ended"
	}
	result.status = entry.Status
	if result.id == "" {
		phase(record.WatchRefused)
		return result
	}
	entry.Purpose = q.purpose(ctx, err)
	phase(record.WatchEnded)
	return result
}

func (m *member) watchRequest(q watching) *etcdserverpb.WatchCreateRequest {
	r := &etcdserverpb.WatchCreateRequest{StartRevision: int64(record.Number(q.from)), ProgressNotify: q.bookmarks, PrevKv: q.previous}
	if q.key != "" {
		r.Key = []byte(q.key)
		return r
	}
	prefix := groupPrefix(m.of, q.group)
	r.Key, r.RangeEnd = []byte(prefix), []byte(clientv3.GetPrefixRangeEnd(prefix))
	return r
}

// askForProgress requests progress on a stream until ctx ends.
func askForProgress(ctx context.Context, stream etcdserverpb.Watch_WatchClient) {
	for client.Pause(ctx, progressEvery) {
		err := stream.Send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_ProgressRequest{ProgressRequest: &etcdserverpb.WatchProgressRequest{}}})
		if err != nil {
			return // the receiver reports the error
		}
	}
}

func (m *member) events(res *etcdserverpb.WatchResponse) (all []record.Event) {
	now := m.w.Now()
	if len(res.Events) == 0 && !res.Created {
		return []record.Event{{Type: record.EventBookmark, Revision: strconv.FormatInt(res.Header.Revision, 10), Seen: now}}
	}
	for _, got := range res.Events {
		i := m.item(got.Kv)
		e := record.Event{
			Type: record.EventModified, Key: i.Key, Value: i.Value, Group: i.Group, Revision: i.Revision, Seen: now,
			CreateRevision: revisionText(got.Kv.CreateRevision), Version: got.Kv.Version,
		}
		switch {
		case got.Type == mvccpb.Event_DELETE:
			e.Type = record.EventDeleted
		case got.Kv.CreateRevision == got.Kv.ModRevision:
			e.Type = record.EventAdded
		}
		if got.PrevKv != nil {
			before := m.item(got.PrevKv)
			e.PreviousValue, e.PreviousRevision = before.Value, before.Revision
		}
		all = append(all, e)
	}
	return all
}

// item returns a key-value pair as the record has it.
func (m *member) item(kv *mvccpb.KeyValue) record.Item {
	return record.Item{
		Key: string(kv.Key), Value: valueOf(string(kv.Value)), Group: groupOf(m.of, string(kv.Key)), Revision: revisionText(kv.ModRevision),
	}
}

// revisionText is empty for 0.
func revisionText(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}
