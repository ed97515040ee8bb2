package workload

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/backup"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/etcdtest"
)

func TestSnapshot(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, 3)
	etcd := openEtcd(t, c)
	if _, err := etcd.Put(t.Context(), "a", "b"); err != nil {
		t.Fatal(err)
	}
	c.Stop(2)
	w, read := recording(t)
	if err := Snapshot(t.Context(), c, "node-3", w); err != nil {
		t.Fatal(err)
	}
	run := read()
	if len(run.Ops) != 2 {
		t.Fatalf("%+v", run.Ops)
	}
	for _, o := range run.Ops {
		if op := o.V; op.Outcome != record.OK || !op.Found || op.Revision != "2" || op.Header != "2" || !strings.HasPrefix(op.Value, "1 keys, ") {
			t.Errorf("%+v", op)
		}
	}
}

// intercepted is a cluster of one etcd member whose answers are changed on their way.
type intercepted struct {
	*etcdtest.Cluster
	node  string // on which it seems to run
	unary grpc.UnaryClientInterceptor
	// message is called with the number of each message of a stream, from 1, before the client
	// receives it.
	message func(n int, m any) error
	err     error // of access to it
}

func (c intercepted) Nodes() []framework.Node {
	return []framework.Node{snapshotNode{c.Cluster.Nodes()[0], c.node}}
}

func (c intercepted) EtcdConfig(string) (clientv3.Config, error) {
	cfg, err := c.Cluster.EtcdConfig("node-1")
	stream := func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := open(ctx, desc, cc, method, opts...)
		if err != nil {
			return nil, err
		}
		return &interceptedStream{ClientStream: s, message: c.message}, nil
	}
	cfg.DialOptions = []grpc.DialOption{grpc.WithChainUnaryInterceptor(c.unary), grpc.WithChainStreamInterceptor(stream)}
	return cfg, errors.Join(err, c.err)
}

type snapshotNode struct {
	framework.Node
	name string
}

func (n snapshotNode) Name() string { return n.name }

type interceptedStream struct {
	grpc.ClientStream
	n       int
	message func(n int, m any) error
}

func (s *interceptedStream) RecvMsg(m any) error {
	if err := s.ClientStream.RecvMsg(m); err != nil {
		return err
	}
	s.n++
	return s.message(s.n, m)
}

// What the harness could not do is not an answer of the member.
func TestSnapshotFails(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.New(t, 1)
	for _, tc := range []struct {
		name    string
		node    string // "node-1" if empty
		changes int32  // how often etcd answers first that its leader changed
		cut     bool   // the action's time ends while the snapshot is received
		spoilt  bool   // a byte of it is changed
		err     error  // of access to the member
		fails   error  // what the action returns
		want    record.Op
	}{
		{name: "the leader changes", changes: 2, want: record.Op{Outcome: record.OK, Found: true}},
		{name: "spoilt on its way", spoilt: true, want: record.Op{Outcome: record.OK, Error: "the checksum of the snapshot does not match its data"}},
		{name: "the member cannot be reached", err: errors.New("no route"), want: record.Op{Outcome: record.Unknown, Error: "etcd client for node-1: no route"}},
		{name: "cut off", cut: true, fails: backup.ErrCut},
		{name: "it cannot be stored", node: "missing/node-1", fails: fs.ErrNotExist},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var asked atomic.Int32
			c := intercepted{Cluster: etcd, node: cmp.Or(tc.node, "node-1"), err: tc.err}
			c.unary = func(ctx context.Context, method string, request, answer any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				if asked.Add(1) <= tc.changes {
					return rpctypes.ErrGRPCLeaderChanged
				}
				return invoke(ctx, method, request, answer, cc, opts...)
			}
			c.message = func(n int, m any) error {
				if tc.cut && n == 2 {
					cancel()
					return ctx.Err()
				}
				if tc.spoilt && n == 1 {
					m.(*etcdserverpb.SnapshotResponse).Blob[999] ^= 1
				}
				return nil
			}
			w, read := recording(t)
			err := Snapshot(ctx, c, "", w)
			ops := read().Ops
			if tc.fails != nil {
				if !errors.Is(err, tc.fails) || len(ops) > 0 {
					t.Fatalf("%v, operations: %+v", err, ops)
				}
				return
			}
			if err != nil || len(ops) != 1 {
				t.Fatalf("%v, operations: %+v", err, ops)
			}
			if op := ops[0].V; op.Outcome != tc.want.Outcome || op.Found != tc.want.Found || op.Error != tc.want.Error {
				t.Errorf("%+v, want %+v", op, tc.want)
			}
		})
	}
}
