package fault

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/workload/etcdtest"
)

// etcdCluster is a fake cluster with real etcd members: they are reached as the state of the fake
// allows, and cuts of their peer traffic are real.
type etcdCluster struct {
	*fakeCluster
	members []*embed.Etcd
}

// startEtcd starts three members on loopback, each with a changed configuration.
func startEtcd(t *testing.T, changes ...func(*embed.Config)) *etcdCluster {
	t.Helper()
	c := &etcdCluster{fakeCluster: newFake(framework.Etcd, framework.APIServer)}
	urls := etcdtest.URLs(t, 6)
	t.Cleanup(c.close)
	var initial []string
	for i, n := range c.nodes {
		initial = append(initial, n.name+"="+urls[2*i].String())
	}
	for i, n := range c.nodes {
		config := embed.NewConfig()
		config.Name, config.Dir = n.name, t.TempDir()
		config.ListenPeerUrls, config.AdvertisePeerUrls = urls[2*i:2*i+1], urls[2*i:2*i+1]
		config.ListenClientUrls, config.AdvertiseClientUrls = urls[2*i+1:2*i+2], urls[2*i+1:2*i+2]
		config.InitialCluster = strings.Join(initial, ",")
		config.TickMs, config.ElectionMs = 20, 200
		config.UnsafeNoFsync = true
		for _, change := range changes {
			change(config)
		}
		config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
		member, err := embed.StartEtcd(config)
		if err != nil {
			t.Fatalf("etcd of %s: %v", n.name, err)
		}
		c.members = append(c.members, member)
	}
	for i, member := range c.members {
		select {
		case <-member.Server.ReadyNotify():
		case <-time.After(30 * time.Second):
			t.Fatalf("etcd of %s is not ready", c.nodes[i].name)
		}
	}
	c.onCut = c.cutPeers
	return c
}

// close stops all members in parallel, since each takes a second, and without a leadership
// transfer, for which no member would be left.
func (c *etcdCluster) close() {
	var all sync.WaitGroup
	for _, member := range c.members {
		if member == nil {
			continue
		}
		all.Go(func() {
			member.Server.HardStop()
			member.Close()
		})
	}
	all.Wait()
}

func (c *etcdCluster) index(node string) int {
	return slices.IndexFunc(c.nodes, func(n *fakeNode) bool { return n.name == node })
}

func (c *etcdCluster) EtcdConfig(node string) (clientv3.Config, error) {
	i := c.index(node)
	if i < 0 {
		return clientv3.Config{}, fmt.Errorf("there is no node %s", node)
	}
	dial := func(ctx context.Context, address string) (net.Conn, error) {
		if err := c.nodes[i].reach(ctx, framework.Etcd, 2379); err != nil {
			return nil, err
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
	return clientv3.Config{Endpoints: []string{c.members[i].Config().ListenClientUrls[0].Host},
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(dial)}}, nil
}

// cutPeers cuts or restores the traffic between members on these links.
func (c *etcdCluster) cutPeers(links []framework.Link, begins bool) {
	for _, l := range links {
		from, to := c.index(l.From), c.index(l.To)
		if from < 0 || to < 0 || len(l.Ports) > 0 && !slices.Contains(l.Ports, 2380) {
			continue
		}
		id := types.ID(c.members[to].Server.MemberID())
		if begins {
			c.members[from].Server.CutPeer(id)
		} else {
			c.members[from].Server.MendPeer(id)
		}
	}
}

// soon is a context for tests that expect no proof.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	t.Cleanup(cancel)
	return ctx
}

func (c *etcdCluster) resolve(t *testing.T, target string) Target {
	t.Helper()
	got, err := Resolve(t.Context(), c, target)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// Every fault on a node with a real etcd member heals when that member serves.
func TestEtcdHealing(t *testing.T) {
	t.Parallel()
	c := startEtcd(t)
	for _, f := range []*Fault{Kill, Stop, Freeze, IsolateEtcd, Isolate, PowerOff} {
		t.Run(f.Name, func(t *testing.T) {
			target := c.resolve(t, "etcd/follower")
			if f == Isolate || f == PowerOff {
				target = c.resolve(t, "node/follower")
			}
			i, err := f.Inject(t.Context(), c, target, Params{TTL: ttl})
			if err != nil || !i.Proof().Proven {
				t.Fatalf("%v, %v", i, err)
			}
			c.stubborn = true
			if healed, err := i.Heal(soon(t)); err != nil || healed.Proven {
				t.Errorf("healing that did nothing is proven: %+v, %v", healed, err)
			} else {
				t.Log(healed.What)
			}
			c.stubborn = false
			healed, err := i.Heal(t.Context())
			if err != nil || !healed.Proven {
				t.Fatalf("%+v, %v", healed, err)
			}
			if !strings.Contains(healed.What, "etcd on "+target.Node) {
				t.Errorf("etcd was not asked: %s", healed.What)
			}
			t.Logf("%s / %s", i.Proof().What, healed.What)
		})
	}
}
