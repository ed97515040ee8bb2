package fault

import (
	"context"
	"errors"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestMoveLeader(t *testing.T) {
	t.Parallel()
	c := startEtcd(t)
	leader := c.resolve(t, "etcd/leader")

	i, err := MoveLeader.Inject(soon(t), idleMover{c}, leader, Params{TTL: ttl})
	if err != nil || i.Proof().Proven {
		t.Fatalf("a move that did nothing is proven: %v, %v", i, err)
	}

	i, err = MoveLeader.Inject(t.Context(), c, leader, Params{TTL: ttl})
	if err != nil || !i.Proof().Proven {
		t.Fatalf("%v, %v", i, err)
	}
	next := c.nodes[(c.index(leader.Node)+1)%3].name
	if now := c.resolve(t, "etcd/leader").Node; now != next {
		t.Errorf("leader on %s, want the next node, %s", now, next)
	}
	t.Log(i.Proof().What, "in", i.Proof().Effect.Sub(i.Proof().Called))
	healed, err := i.Heal(t.Context())
	if err != nil || !healed.Proven || !strings.Contains(healed.What, "nothing to undo") {
		t.Errorf("%+v, %v", healed, err)
	}

	refuses := promisingEtcd{operatedEtcd: &operatedEtcd{etcdCluster: c}, nodesPromise: &nodesPromise{fails: errRefuses}}
	for _, f := range []*Fault{MoveLeader, Defragment} {
		if err := f.Check(refuses, c.resolve(t, "etcd/leader"), Params{TTL: ttl}); !errors.As(err, new(*MissingAbility)) || !strings.Contains(err.Error(), errRefuses.Error()) {
			t.Errorf("%s against the will of the cluster's owner: %v", f.Name, err)
		}
	}

	// The old leader no longer leads, so there is nothing to move from it.
	if i, err = MoveLeader.Inject(t.Context(), c, leader, Params{TTL: ttl}); err != nil || i.Proof().Proven {
		t.Errorf("moved from a follower: %v, %v", i, err)
	}
	now := c.resolve(t, "etcd/leader")
	i, err = MoveLeader.Inject(t.Context(), c, now, Params{TTL: ttl, Values: map[string]string{"to": leader.Node}})
	if err != nil || !i.Proof().Proven || c.resolve(t, "etcd/leader").Node != leader.Node {
		t.Errorf("back to %s: %v, %v", leader.Node, i, err)
	}
}

// idleMover answers a request to move the leader without doing so.
type idleMover struct{ *etcdCluster }

func (c idleMover) EtcdConfig(node string) (clientv3.Config, error) {
	config, err := c.etcdCluster.EtcdConfig(node)
	config.DialOptions = append(config.DialOptions, grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if strings.HasSuffix(method, "/MoveLeader") {
				return nil
			}
			return invoke(ctx, method, req, reply, cc, opts...)
		}))
	return config, err
}

func TestMoveLeaderCheck(t *testing.T) {
	c := &etcdCluster{fakeCluster: newFake(framework.Etcd)}
	leader := component("node-1", framework.Etcd)
	for to, want := range map[string]string{"node-1": "node-2, node-3", "node-9": "node-2, node-3"} {
		if err := MoveLeader.Check(c, leader, Params{TTL: ttl, Values: map[string]string{"to": to}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("to=%s: %v", to, err)
		}
	}
	if err := MoveLeader.Check(c, leader, Params{}); err == nil {
		t.Error("no time to live: accepted")
	}
	if err := MoveLeader.Check(c, wholeTarget("node-1"), Params{TTL: ttl}); err == nil {
		t.Error("a whole node: accepted")
	}
	if err := MoveLeader.Check(c.fakeCluster, leader, Params{TTL: ttl}); err == nil || !strings.Contains(err.Error(), "EtcdAccess") {
		t.Errorf("without access to etcd: %v", err)
	}
	c.nodes = c.nodes[:1]
	if err := MoveLeader.Check(c, leader, Params{TTL: ttl}); err == nil || !strings.Contains(err.Error(), "only etcd member") {
		t.Errorf("one member: %v", err)
	}
}
