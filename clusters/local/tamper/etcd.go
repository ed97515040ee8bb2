package tamper

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"k8s.io/client-go/util/cert"
)

// EtcdConfig says where the proxy in front of an etcd member listens, and where
// the member is. The certificate serves clients and is shown to the member; CA
// is the CA of both.
type EtcdConfig struct {
	Listen string `json:"listen"`
	Member string `json:"member"`
	Cert   string `json:"cert"`
	Key    string `json:"key"`
	CA     string `json:"ca"`
}

// etcdProxy passes etcd's gRPC on, message by message.
type etcdProxy struct {
	desk   *desk
	addr   net.Addr
	server *grpc.Server
	member *grpc.ClientConn
	// last is the header of the newest answer that was seen.
	last atomic.Pointer[pb.ResponseHeader]
	// answered is the member's last status.
	answered atomic.Pointer[pb.StatusResponse]
}

// frames is the codec of gRPC, which also leaves messages as they are.
type frames struct{}

func (frames) Name() string { return "proto" }

func (frames) Marshal(v any) ([]byte, error) {
	if frame, ok := v.(*[]byte); ok {
		return *frame, nil
	}
	return proto.Marshal(v.(proto.Message))
}

func (frames) Unmarshal(data []byte, v any) error {
	if frame, ok := v.(*[]byte); ok {
		*frame = slices.Clone(data)
		return nil
	}
	return proto.Unmarshal(data, v.(proto.Message))
}

func startEtcd(c EtcdConfig) (*etcdProxy, error) {
	pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, fmt.Errorf("failed to read the certificate of the etcd proxy: %w", err)
	}
	pool, err := cert.NewPool(c.CA)
	if err != nil {
		return nil, fmt.Errorf("failed to read the CA of the etcd proxy: %w", err)
	}
	p := &etcdProxy{desk: &desk{modes: etcdModes}}
	p.member, err = grpc.NewClient("passthrough:///"+c.Member,
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, MinVersion: tls.VersionTLS12})),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(frames{}), grpc.MaxCallRecvMsgSize(math.MaxInt32)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 3 * time.Second}),
		// A member that is back must be reached immediately, as without a proxy.
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: 2 * time.Second,
			Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, MaxDelay: 250 * time.Millisecond}}))
	if err != nil {
		return nil, fmt.Errorf("the etcd proxy cannot reach its member %s: %w", c.Member, err)
	}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return nil, fmt.Errorf("the etcd proxy failed to listen: %w", err)
	}
	p.addr = l.Addr()
	p.server = grpc.NewServer(
		grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12})),
		grpc.ForceServerCodec(frames{}), grpc.MaxRecvMsgSize(math.MaxInt32), grpc.UnknownServiceHandler(p.serve),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}))
	go func() { _ = p.server.Serve(l) }()
	return p, nil
}

// serve handles every call.
func (p *etcdProxy) serve(_ any, client grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(client)
	ctx, cancel := context.WithCancel(client.Context())
	defer cancel()
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		ctx = metadata.NewOutgoingContext(ctx, md)
	}
	switch method {
	case "/etcdserverpb.KV/Range":
		return unary(p, ctx, client, method, p.ranged)
	case "/etcdserverpb.KV/Put":
		return unary(p, ctx, client, method, p.put)
	case "/etcdserverpb.KV/Txn":
		return unary(p, ctx, client, method, p.txn)
	case "/etcdserverpb.Maintenance/Status":
		return unary(p, ctx, client, method, p.status)
	case "/etcdserverpb.Maintenance/HashKV":
		return unary(p, ctx, client, method, p.hash)
	case "/etcdserverpb.Maintenance/Alarm":
		return unary(p, ctx, client, method, p.alarm)
	}
	member, err := p.member.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		return err
	}
	if method == "/etcdserverpb.Watch/Watch" {
		return p.watch(ctx, client, member)
	}
	if method == "/etcdserverpb.Maintenance/Snapshot" {
		return relay(client, member, send, p.snapshot)
	}
	return relay(client, member, send, send)
}

// snapshot passes a part of a snapshot on.
func (p *etcdProxy) snapshot(to sender, frame []byte) error {
	var part pb.SnapshotResponse
	if err := proto.Unmarshal(frame, &part); err != nil {
		return err
	}
	if n := len(part.Blob); n > 0 {
		if _, ok := p.desk.act(SpoiltSnapshot, ""); ok {
			part.Blob[n/2] ^= 1
		}
	}
	return to.SendMsg(&part)
}

// receiver and sender are the two halves of a stream.
type (
	receiver interface{ RecvMsg(any) error }
	sender   interface{ SendMsg(any) error }
)

// send forwards a message unchanged.
func send(to sender, frame []byte) error { return to.SendMsg(&frame) }

// relay forwards messages in both directions until the member ends the call.
func relay(client grpc.ServerStream, member grpc.ClientStream, up, down func(sender, []byte) error) error {
	go func() {
		if pump(client, member, up) == io.EOF {
			_ = member.CloseSend()
		}
		// Any other error ends the call's context, and with it the member's side.
	}()
	if err := pump(member, client, down); err != io.EOF {
		return err
	}
	return nil
}

func pump(from receiver, to sender, pass func(sender, []byte) error) error {
	for {
		var frame []byte
		if err := from.RecvMsg(&frame); err != nil {
			return err
		}
		if err := pass(to, frame); err != nil {
			return err
		}
	}
}

// message is a pointer to a protobuf message.
type message[T any] interface {
	*T
	proto.Message
}

// unary answers a call with one request and one answer.
func unary[Q, A any, PQ message[Q], PA message[A]](p *etcdProxy, ctx context.Context, client grpc.ServerStream, method string,
	answer func(context.Context, PQ, func(PQ) (PA, error)) (PA, error)) error {
	q := PQ(new(Q))
	if err := client.RecvMsg(q); err != nil {
		return err
	}
	ask := func(q PQ) (PA, error) {
		a := PA(new(A))
		if err := p.member.Invoke(ctx, method, q, a); err != nil {
			return nil, err
		}
		if h, ok := any(a).(interface{ GetHeader() *pb.ResponseHeader }); ok {
			p.saw(h.GetHeader())
		}
		return a, nil
	}
	a, err := answer(ctx, q, ask)
	if err != nil {
		return err
	}
	return client.SendMsg(a)
}

// saw keeps the newest header.
func (p *etcdProxy) saw(h *pb.ResponseHeader) {
	for h != nil && h.Revision > 0 {
		last := p.last.Load()
		if last != nil && last.Revision >= h.Revision || p.last.CompareAndSwap(last, h) {
			return
		}
	}
}

var errNothingSeen = errors.New("tampering: no answer of the member has been seen yet")
