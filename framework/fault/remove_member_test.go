package fault

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-ha/holdfast/framework"
)

// supervisedEtcd has members whose supervisor always starts them with the same arguments.
type supervisedEtcd struct{ *operatedEtcd }

func (c supervisedEtcd) Nodes() (all []framework.Node) {
	for _, n := range c.operatedEtcd.Nodes() {
		all = append(all, supervisedNode{n.(*operatedNode)})
	}
	return all
}

type supervisedNode struct{ *operatedNode }

func (supervisedNode) CheckRejoin() error { return errors.New("its supervisor has the arguments") }

// A member that could not be started again is not removed.
func TestRemoveMemberRefused(t *testing.T) {
	c := supervisedEtcd{&operatedEtcd{etcdCluster: &etcdCluster{fakeCluster: newFake("etcd")}}}
	var missing *MissingAbility
	err := RemoveMember.Check(c, component("node-1", "etcd"), Params{TTL: ttl})
	if !errors.As(err, &missing) || missing.Ability != "EtcdOperator" || !strings.Contains(err.Error(), "node node-1 does not have: its supervisor has the arguments") {
		t.Errorf("a member that cannot be started again: %v", err)
	}
}

func TestRemoveMember(t *testing.T) {
	t.Parallel()
	c := operateEtcd(t)
	target := c.resolve(t, "etcd/leader")
	removes := func(method string, _ any) bool { return method == "MemberRemove" }
	i, err := RemoveMember.Inject(soon(t), numbEtcd{c, removes}, target, Params{TTL: ttl})
	if err != nil || i.Proof().Proven {
		t.Fatalf("a member that was not removed is proven gone: %v, %v", i, err)
	}
	i, err = RemoveMember.Inject(t.Context(), c, target, Params{TTL: ttl})
	if err != nil || !i.Proof().Proven {
		t.Fatalf("%v, %v", i, err)
	}
	t.Log(i.Proof().What)
	if again, err := RemoveMember.Inject(t.Context(), c, target, Params{TTL: ttl}); err != nil || again.Proof().Proven || !strings.Contains(again.Proof().What, "was not a member") {
		t.Errorf("removed twice: %v, %v", again, err)
	}
	c.numb = true
	short, cancel := withTimeout(t, 5*time.Second)
	defer cancel()
	if healed, err := i.Heal(short); err == nil && healed.Proven {
		t.Errorf("a member that was added and not started is proven healed: %+v", healed)
	}
	c.numb = false
	// It is a member without data now, which healing has to start.
	healed, err := i.Heal(t.Context())
	if err != nil || !healed.Proven || c.numbs == 0 {
		t.Fatalf("%+v, %v, %d orders ignored", healed, err, c.numbs)
	}
	t.Log(healed.What)
}

// forgetful is a cluster whose members' first answer to each method is lost.
type forgetful struct {
	*operatedEtcd
	lost *sync.Map
}

func (c forgetful) EtcdConfig(node string) (clientv3.Config, error) {
	config, err := c.operatedEtcd.EtcdConfig(node)
	config.DialOptions = append(config.DialOptions, grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			err := invoke(ctx, method, req, reply, cc, opts...)
			if _, again := c.lost.LoadOrStore(method, true); err == nil && !again && strings.Contains(method, "Cluster/Member") && !strings.HasSuffix(method, "List") {
				return status.Error(codes.Unavailable, "transport is closing")
			}
			return err
		}))
	return config, err
}

// A change of the member list whose answer was lost has been made all the same.
func TestRemoveMemberAnswerLost(t *testing.T) {
	t.Parallel()
	c := forgetful{operateEtcd(t), &sync.Map{}}
	i, err := RemoveMember.Inject(t.Context(), c, c.resolve(t, "etcd/follower"), Params{TTL: ttl})
	if err != nil || !i.Proof().Proven {
		t.Fatalf("%v, %v", i, err)
	}
	if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven {
		t.Errorf("%+v, %v", healed, err)
	}
	for _, method := range []string{"MemberRemove", "MemberAdd"} {
		if _, lost := c.lost.Load("/etcdserverpb.Cluster/" + method); !lost {
			t.Errorf("no answer to %s was lost", method)
		}
	}
}
