package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// NewEtcd returns a client for the one etcd member on a node. It connects on first use,
// reconnects soon after a connection broke, retries nothing and writes no log.
func NewEtcd(access framework.EtcdAccess, node string) (*clientv3.Client, error) {
	cfg, err := access.EtcdConfig(node)
	if err != nil {
		return nil, fmt.Errorf("etcd client for %s: %w", node, err)
	}
	cfg.Logger = zap.NewNop()
	cfg.MaxUnaryRetries = 1
	// gRPC does not accept less than 10 s. It also sets TCP_USER_TIMEOUT, which closes a
	// connection on which nothing was acknowledged for the timeout.
	cfg.DialKeepAliveTime, cfg.DialKeepAliveTimeout = 10*time.Second, 3*time.Second
	cfg.DialOptions = append(cfg.DialOptions[:len(cfg.DialOptions):len(cfg.DialOptions)], grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.5, Jitter: 0.2, MaxDelay: 500 * time.Millisecond},
		MinConnectTimeout: 2 * time.Second,
	}))
	c, err := clientv3.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("etcd client for %s: %w", node, err)
	}
	return c, nil
}

// AskEtcd calls ask with a client of the one etcd member on a node, and with a context that ends
// after limit at the latest.
func AskEtcd(ctx context.Context, access framework.EtcdAccess, node string, limit time.Duration, ask func(context.Context, *clientv3.Client) error) error {
	etcd, err := NewEtcd(access, node)
	if err != nil {
		return err
	}
	defer etcd.Close()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return ask(ctx, etcd)
}

// etcdRefusals are the errors with which etcd reports that a request was not even proposed, or
// that applying it stopped before it changed anything (go.etcd.io/etcd/server/v3,
// etcdserver/apply). ErrNoSpace is not among them: etcd applies the write that exhausts the
// quota, and answers with that error (quotaApplierV3).
var etcdRefusals = []error{
	rpctypes.ErrEmptyKey, rpctypes.ErrRequestTooLarge, rpctypes.ErrTooManyRequests,
	rpctypes.ErrPermissionDenied, rpctypes.ErrInvalidAuthToken, rpctypes.ErrUserEmpty,
	rpctypes.ErrCompacted, rpctypes.ErrFutureRev, rpctypes.ErrLeaseNotFound, rpctypes.ErrLeaseExist,
	rpctypes.ErrTooManyOps, rpctypes.ErrDuplicateKey,
}

// EtcdOutcome reports what the client knows of the effect of a request to etcd that returned err.
// It is Refused only if etcd answered that the request changed nothing, since gRPC does not
// distinguish a request that was not sent from one that was.
func EtcdOutcome(err error) record.Outcome {
	if err == nil {
		return record.OK
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return record.Unknown
	}
	for _, refusal := range etcdRefusals {
		if errors.Is(rpctypes.Error(err), refusal) {
			return record.Refused
		}
	}
	return record.Unknown
}
