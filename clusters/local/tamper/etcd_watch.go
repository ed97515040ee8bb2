package tamper

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// watchStream is one stream of watches between a client and the member.
type watchStream struct {
	p   *etcdProxy
	ctx context.Context
	// values are the newest that were seen, for watches without previous ones.
	values map[watchedKey][]byte
	// held is an event that waits for the next one of its watch to pass it.
	held map[int64]*pb.WatchResponse
}

type watchedKey struct {
	watch int64
	key   string
}

func (p *etcdProxy) watch(ctx context.Context, client grpc.ServerStream, member grpc.ClientStream) error {
	w := &watchStream{p: p, ctx: ctx, values: map[watchedKey][]byte{}, held: map[int64]*pb.WatchResponse{}}
	return relay(client, member, w.request, w.response)
}

// request passes on what the client sends.
func (w *watchStream) request(to sender, frame []byte) error {
	var q pb.WatchRequest
	if !w.p.desk.has(SilentGap) {
		return send(to, frame)
	}
	if err := proto.Unmarshal(frame, &q); err != nil {
		return err
	}
	create := q.GetCreateRequest()
	if create == nil || create.StartRevision == 0 || !w.compacted(create.StartRevision) {
		return send(to, frame)
	}
	if _, ok := w.p.desk.act(SilentGap, string(create.Key)); !ok {
		return send(to, frame)
	}
	create.StartRevision = 0
	return to.SendMsg(&q)
}

// compacted reports whether the member has lost a revision.
func (w *watchStream) compacted(revision int64) bool {
	err := w.p.member.Invoke(w.ctx, "/etcdserverpb.KV/Range", &pb.RangeRequest{Key: []byte{0}, Revision: revision, Serializable: true}, &pb.RangeResponse{})
	return rpctypes.Error(err) == rpctypes.ErrCompacted
}

// response passes on what the member sends.
func (w *watchStream) response(to sender, frame []byte) error {
	a := &pb.WatchResponse{}
	if err := proto.Unmarshal(frame, a); err != nil {
		return err
	}
	w.p.saw(a.Header)
	if len(a.Events) == 0 {
		return send(to, frame)
	}
	all, err := w.tamper(a)
	if err != nil {
		return err
	}
	for _, a := range all {
		if err := to.SendMsg(a); err != nil {
			return err
		}
	}
	return nil
}

// part is a response of the same watch with other events.
func part(a *pb.WatchResponse, events ...*mvccpb.Event) *pb.WatchResponse {
	return &pb.WatchResponse{Header: a.Header, WatchId: a.WatchId, Events: events}
}

// tamper returns the responses that a client receives in place of one with events.
func (w *watchStream) tamper(a *pb.WatchResponse) (all []*pb.WatchResponse, err error) {
	d := w.p.desk
	var kept []*mvccpb.Event
	var before, after []*pb.WatchResponse
	swap := false
	for i, e := range a.Events {
		key := string(e.Kv.Key)
		if r, ok := d.act(LateEvent, key); ok {
			if err := pause(w.ctx, r.For); err != nil {
				return nil, err
			}
		}
		w.alter(a.WatchId, e)
		if _, ok := d.act(EarlyProgress, key); ok {
			before = append(before, &pb.WatchResponse{WatchId: a.WatchId, Header: &pb.ResponseHeader{ClusterId: a.Header.GetClusterId(),
				MemberId: a.Header.GetMemberId(), RaftTerm: a.Header.GetRaftTerm(), Revision: e.Kv.ModRevision}})
		}
		if _, ok := d.act(LostEvent, key); ok {
			continue
		}
		if _, ok := d.act(RepeatedEvent, key); ok {
			after = append(after, part(a, e))
		}
		if w.held[a.WatchId] == nil && !swap && i == len(a.Events)-1 {
			_, swap = d.act(SwappedEvents, key)
		}
		kept = append(kept, e)
	}
	held := w.held[a.WatchId]
	delete(w.held, a.WatchId)
	all = before
	if swap {
		// The last event waits for the next response.
		last := len(kept) - 1
		w.held[a.WatchId] = part(a, kept[last])
		kept = kept[:last]
	}
	switch at := splitAt(kept); {
	case len(kept) == 0:
	case at > 0 && split(d, string(kept[at].Kv.Key)):
		all = append(all, part(a, kept[:at]...), part(a, kept[at:]...))
	default:
		all = append(all, part(a, kept...))
	}
	if held != nil {
		all = append(all, held)
	}
	return append(all, after...), nil
}

func split(d *desk, key string) bool {
	_, ok := d.act(SplitRevision, key)
	return ok
}

// splitAt is the index of an event that has the revision of the one before it,
// 0 if none exists.
func splitAt(events []*mvccpb.Event) int {
	for i := 1; i < len(events); i++ {
		if events[i].Kv.ModRevision == events[i-1].Kv.ModRevision {
			return i
		}
	}
	return 0
}

// alter changes what an event says.
func (w *watchStream) alter(watch int64, e *mvccpb.Event) {
	d, key, at := w.p.desk, string(e.Kv.Key), watchedKey{watch, string(e.Kv.Key)}
	old := w.values[at]
	switch {
	case e.PrevKv != nil:
		old = e.PrevKv.Value
	case e.Type == mvccpb.Event_DELETE:
		delete(w.values, at)
	default:
		w.values[at] = e.Kv.Value
	}
	if e.Type == mvccpb.Event_PUT && old != nil {
		if _, ok := d.act(AlteredEvent, key); ok {
			e.Kv.Value = old
		}
	}
	if e.PrevKv != nil && e.Type == mvccpb.Event_PUT {
		if _, ok := d.act(WrongPrevious, key); ok {
			e.PrevKv.Value = e.Kv.Value
		}
	}
	if e.Type == mvccpb.Event_PUT && e.Kv.CreateRevision == e.Kv.ModRevision {
		if _, ok := d.act(CreateAsModify, key); ok {
			e.Kv.CreateRevision--
			e.Kv.Version++
		}
	}
}
