// Package members asks and changes the members of an etcd cluster, each through a client of its
// own.
package members

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/holdfast-ha/holdfast/framework"
)

const (
	// TryLimit is how long a member may take to answer one request from memory.
	TryLimit = 3 * time.Second
	// CompactLimit is how long a compaction or a defragmentation may take. Both grow with the
	// database, which may have 8 GiB.
	CompactLimit = time.Minute
	// dialLimit is short because a packet lost to a cut that has just healed is only retransmitted
	// after a second; a new attempt succeeds sooner.
	dialLimit = 500 * time.Millisecond
	// dialPause is the longest pause between two attempts to connect.
	dialPause = 50 * time.Millisecond
)

// Member is one etcd member.
type Member struct {
	Node   string
	Client *clientv3.Client
}

// Open returns the member on a node. The caller closes its client.
func Open(access framework.EtcdAccess, node string) (Member, error) {
	config, err := access.EtcdConfig(node)
	if err != nil {
		return Member{}, fmt.Errorf("client configuration for etcd on %s: %w", node, err)
	}
	if config.Logger == nil {
		config.Logger = zap.NewNop() // a stopped member is expected here
	}
	// gRPC waits at least a second before it dials again, and 20 s for one attempt, which would
	// count as the cluster's recovery time.
	config.DialOptions = append(slices.Clone(config.DialOptions), grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 5 * time.Millisecond, Multiplier: 1.5, MaxDelay: dialPause},
		MinConnectTimeout: dialLimit,
	}))
	client, err := clientv3.New(config)
	if err != nil {
		return Member{}, fmt.Errorf("client for etcd on %s: %w", node, err)
	}
	return Member{Node: node, Client: client}, nil
}

// Status asks the member, and no other, for its status.
func (m Member) Status(ctx context.Context) (*clientv3.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, TryLimit)
	defer cancel()
	s, err := m.Client.Status(ctx, m.Client.Endpoints()[0])
	if err != nil {
		return nil, fmt.Errorf("status of etcd on %s: %w", m.Node, err)
	}
	return s, nil
}

// Compact discards the revisions before this one on all members.
func (m Member) Compact(ctx context.Context, revision int64, options ...clientv3.CompactOption) error {
	ctx, cancel := context.WithTimeout(ctx, CompactLimit)
	defer cancel()
	_, err := m.Client.Compact(ctx, revision, options...)
	return err
}

// Defragment makes the member rewrite its database.
func (m Member) Defragment(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, CompactLimit)
	defer cancel()
	_, err := m.Client.Defragment(ctx, m.Client.Endpoints()[0])
	return err
}

// shrink removes what was discarded before a revision from the member's database. All members
// compact together, but each in its own time: a member refuses a revision that is already
// compacted only when its own compaction is done.
func (m Member) shrink(ctx context.Context, revision int64) error {
	if err := m.Compact(ctx, revision, clientv3.WithCompactPhysical()); err != nil && !RefusedWith(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("failed to compact etcd to revision %d: %w", revision, err)
	}
	if err := m.Defragment(ctx); err != nil {
		return fmt.Errorf("failed to defragment etcd: %w", err)
	}
	return nil
}

// RefusedWith reports whether etcd answered with this error.
func RefusedWith(err, refusal error) bool {
	return err != nil && errors.Is(rpctypes.Error(err), refusal)
}
