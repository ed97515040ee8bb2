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
}

func (p *etcdProxy) watch(ctx context.Context, client grpc.ServerStream, member grpc.ClientStream) error {
	w := &watchStream{p: p, ctx: ctx}
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
	for _, e := range a.Events {
		w.alter(e)
	}
	rest := a.Events
	if at := splitAt(rest); at > 0 {
		if _, ok := w.p.desk.act(SplitRevision, string(rest[at].Kv.Key)); ok {
			if err := to.SendMsg(part(a, rest[:at])); err != nil {
				return err
			}
			rest = rest[at:]
		}
	}
	return to.SendMsg(part(a, rest))
}

// part is a response of the same watch with other events.
func part(a *pb.WatchResponse, events []*mvccpb.Event) *pb.WatchResponse {
	return &pb.WatchResponse{Header: a.Header, WatchId: a.WatchId, Events: events}
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
func (w *watchStream) alter(e *mvccpb.Event) {
	d, key := w.p.desk, string(e.Kv.Key)
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
