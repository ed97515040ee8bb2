package tamper

import (
	"context"
	"fmt"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

func (p *etcdProxy) ranged(_ context.Context, q *pb.RangeRequest, ask func(*pb.RangeRequest) (*pb.RangeResponse, error)) (*pb.RangeResponse, error) {
	key := string(q.Key)
	if !q.Serializable {
		if _, ok := p.desk.act(Serializable, key); ok {
			q.Serializable = true
		}
	} else if _, ok := p.desk.act(Linearizable, key); ok {
		q.Serializable = false
	}
	if last := p.last.Load(); last != nil && q.Revision == 0 {
		if r, ok := p.desk.act(OldRange, key); ok {
			q.Revision = max(1, last.Revision-r.By)
		}
	}
	return ask(q)
}

// write does what is common to all writes. Its answer is the header of one that
// is to be answered as done, nil where it is to be carried out.
func (p *etcdProxy) write(ctx context.Context, key string) (*pb.ResponseHeader, error) {
	if r, ok := p.desk.act(LateWrite, key); ok {
		if !client.Pause(ctx, r.For) {
			return nil, ctx.Err()
		}
	}
	if _, ok := p.desk.act(RefusedWrite, key); ok {
		return nil, status.Error(codes.Unavailable, "etcdserver: tampered with: refused")
	}
	if _, ok := p.desk.act(LostWrite, key); !ok {
		return nil, nil
	}
	return p.done()
}

// done is the header of a write that is answered as done.
func (p *etcdProxy) done() (*pb.ResponseHeader, error) {
	last := p.last.Load()
	if last == nil {
		return nil, errNothingSeen
	}
	return &pb.ResponseHeader{ClusterId: last.ClusterId, MemberId: last.MemberId, RaftTerm: last.RaftTerm, Revision: last.Revision + 1}, nil
}

// updates reports whether a transaction is carried out only where a key is there already.
func updates(compares []*pb.Compare) bool {
	return slices.ContainsFunc(compares, func(c *pb.Compare) bool {
		return c.Target == pb.Compare_MOD && c.Result == pb.Compare_EQUAL && c.GetModRevision() > 0
	})
}

func (p *etcdProxy) put(ctx context.Context, q *pb.PutRequest, ask func(*pb.PutRequest) (*pb.PutResponse, error)) (*pb.PutResponse, error) {
	done, err := p.write(ctx, string(q.Key))
	if err != nil {
		return nil, err
	}
	if done != nil {
		return &pb.PutResponse{Header: done}, nil
	}
	return ask(q)
}

func (p *etcdProxy) txn(ctx context.Context, q *pb.TxnRequest, ask func(*pb.TxnRequest) (*pb.TxnResponse, error)) (*pb.TxnResponse, error) {
	key, writes := written(q.Success)
	if !writes {
		return ask(q)
	}
	done, err := p.write(ctx, key)
	if err != nil {
		return nil, err
	}
	if done == nil && updates(q.Compare) {
		if _, ok := p.desk.act(LostUpdate, key); ok {
			if done, err = p.done(); err != nil {
				return nil, err
			}
		}
	}
	if done != nil {
		return &pb.TxnResponse{Header: done, Succeeded: true, Responses: asDone(q.Success, done)}, nil
	}
	if len(q.Compare) > 0 {
		if r, ok := p.desk.act(NoCompare, key); ok {
			if !client.Pause(ctx, r.For) {
				return nil, ctx.Err()
			}
			q.Compare = nil
		}
	}
	a, err := ask(q)
	if err == nil && a.Succeeded {
		if r, ok := p.desk.act(LowRevision, key); ok {
			a.Header.Revision = max(1, a.Header.Revision-r.By)
		}
	}
	return a, err
}

// written returns the first key that operations write.
func written(ops []*pb.RequestOp) (key string, ok bool) {
	for _, op := range ops {
		switch r := op.Request.(type) {
		case *pb.RequestOp_RequestPut:
			return string(r.RequestPut.Key), true
		case *pb.RequestOp_RequestDeleteRange:
			return string(r.RequestDeleteRange.Key), true
		}
	}
	return "", false
}

// asDone returns the answers to operations as if they had been carried out.
func asDone(ops []*pb.RequestOp, h *pb.ResponseHeader) (answers []*pb.ResponseOp) {
	for _, op := range ops {
		a := &pb.ResponseOp{}
		switch op.Request.(type) {
		case *pb.RequestOp_RequestPut:
			a.Response = &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{Header: h}}
		case *pb.RequestOp_RequestDeleteRange:
			a.Response = &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: &pb.DeleteRangeResponse{Header: h, Deleted: 1}}
		case *pb.RequestOp_RequestRange:
			a.Response = &pb.ResponseOp_ResponseRange{ResponseRange: &pb.RangeResponse{Header: h}}
		case *pb.RequestOp_RequestTxn:
			a.Response = &pb.ResponseOp_ResponseTxn{ResponseTxn: &pb.TxnResponse{Header: h, Succeeded: true}}
		}
		answers = append(answers, a)
	}
	return answers
}

func (p *etcdProxy) status(_ context.Context, q *pb.StatusRequest, ask func(*pb.StatusRequest) (*pb.StatusResponse, error)) (*pb.StatusResponse, error) {
	a, err := ask(q)
	if err == nil {
		p.answered.Store(a)
	} else if old := p.answered.Load(); old != nil {
		if _, ok := p.desk.act(OldStatus, ""); ok {
			return old, nil
		}
	}
	if err == nil {
		if _, ok := p.desk.act(FalseAlarm, ""); ok {
			// As etcd words it.
			a.Errors = append(a.Errors, fmt.Sprintf("memberID:%d alarm:CORRUPT ", a.Header.GetMemberId()))
		}
	}
	if err == nil {
		var major, minor int64
		if n, _ := fmt.Sscanf(a.Version, "%d.%d.", &major, &minor); n == 2 {
			if r, ok := p.desk.act(OlderRelease, ""); ok {
				a.Version = fmt.Sprintf("%d.%d.0", major, minor-r.By)
			}
		}
	}
	if err == nil && a.Leader != a.Header.GetMemberId() {
		if _, ok := p.desk.act(ClaimedLeader, ""); ok {
			a.Leader = a.Header.GetMemberId()
		}
	}
	return a, err
}

func (p *etcdProxy) hash(_ context.Context, q *pb.HashKVRequest, ask func(*pb.HashKVRequest) (*pb.HashKVResponse, error)) (*pb.HashKVResponse, error) {
	a, err := ask(q)
	if err == nil {
		if _, ok := p.desk.act(WrongHash, ""); ok {
			a.Hash++
		}
	}
	return a, err
}

func (p *etcdProxy) alarm(_ context.Context, q *pb.AlarmRequest, ask func(*pb.AlarmRequest) (*pb.AlarmResponse, error)) (*pb.AlarmResponse, error) {
	a, err := ask(q)
	if err == nil && q.Action == pb.AlarmRequest_GET {
		if _, ok := p.desk.act(FalseAlarm, ""); ok {
			a.Alarms = append(a.Alarms, &pb.AlarmMember{MemberID: a.Header.GetMemberId(), Alarm: pb.AlarmType_CORRUPT})
		}
	}
	return a, err
}
