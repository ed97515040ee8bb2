package fault

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
)

// numbEtcd answers some requests to etcd without carrying them out.
type numbEtcd struct {
	*operatedEtcd
	numb func(method string, req any) bool
}

func (c numbEtcd) EtcdConfig(node string) (clientv3.Config, error) {
	config, err := c.operatedEtcd.EtcdConfig(node)
	config.DialOptions = append(config.DialOptions, grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if c.numb(method[strings.LastIndex(method, "/")+1:], req) {
				return nil
			}
			return invoke(ctx, method, req, reply, cc, opts...)
		}))
	return config, err
}

// operatedEtcd is a fake cluster with real etcd members whose data can be
// replaced.
type operatedEtcd struct {
	*etcdCluster
	mu    sync.Mutex
	dirs  []string
	numbs int // orders not carried out
	numb  bool
}

func operateEtcd(t *testing.T, changes ...func(*embed.Config)) *operatedEtcd {
	c := &operatedEtcd{etcdCluster: startEtcd(t, changes...)}
	for range c.members {
		c.dirs = append(c.dirs, t.TempDir())
	}
	return c
}

func (c *operatedEtcd) Nodes() []framework.Node {
	var all []framework.Node
	for i, n := range c.nodes {
		all = append(all, &operatedNode{fakeNode: n, c: c, i: i})
	}
	return all
}

type operatedNode struct {
	*fakeNode
	c *operatedEtcd
	i int
}

// replace starts the member again with another configuration, or leaves it to Start.
func (n *operatedNode) replace(members []framework.EtcdPeer, state, dir string) error {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	if n.c.numb {
		n.c.numbs++
		return nil
	}
	old := n.c.members[n.i]
	old.Server.HardStop()
	old.Close()
	config := old.Config()
	config.Dir, config.ClusterState = dir, state
	config.InitialCluster = ""
	for _, m := range members {
		config.InitialCluster += "," + m.Name + "=" + m.URLs[0]
	}
	config.InitialCluster = config.InitialCluster[1:]
	fresh := embed.NewConfig()
	fresh.Name, fresh.Dir, fresh.ClusterState, fresh.InitialCluster = config.Name, config.Dir, config.ClusterState, config.InitialCluster
	fresh.ListenPeerUrls, fresh.AdvertisePeerUrls = config.ListenPeerUrls, config.AdvertisePeerUrls
	fresh.ListenClientUrls, fresh.AdvertiseClientUrls = config.ListenClientUrls, config.AdvertiseClientUrls
	fresh.TickMs, fresh.ElectionMs, fresh.UnsafeNoFsync = config.TickMs, config.ElectionMs, true
	fresh.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	member, err := embed.StartEtcd(fresh)
	for began := time.Now(); err != nil && time.Since(began) < 5*time.Second; { // another socket may have its port
		time.Sleep(50 * time.Millisecond)
		member, err = embed.StartEtcd(fresh)
	}
	n.c.members[n.i] = member // nil if none runs
	return err
}

func (n *operatedNode) RejoinEtcd(_ context.Context, members []framework.EtcdPeer) error {
	return n.replace(members, embed.ClusterStateFlagExisting, filepath.Join(n.c.dirs[n.i], fmt.Sprint("join-", time.Now().UnixNano())))
}

func (n *operatedNode) EtcdPeer(context.Context) (framework.EtcdPeer, error) {
	return framework.EtcdPeer{Name: n.name, URLs: []string{n.c.members[n.i].Config().AdvertisePeerUrls[0].String()}}, nil
}

func (n *operatedNode) ReplaceEtcdData(ctx context.Context, data string) error {
	dir := filepath.Join(n.c.dirs[n.i], fmt.Sprint("restored-", time.Now().UnixNano()))
	if err := os.CopyFS(dir, os.DirFS(data)); err != nil {
		return err
	}
	own, err := n.EtcdPeer(ctx) // which its data know better
	if err != nil {
		return err
	}
	return n.replace([]framework.EtcdPeer{own}, embed.ClusterStateFlagNew, dir)
}

// activates reports whether a request raises an alarm.
func activates(method string, req any) bool {
	alarm, ok := req.(*pb.AlarmRequest)
	return ok && method == "Alarm" && alarm.Action == pb.AlarmRequest_ACTIVATE
}

func disarms(method string, req any) bool {
	alarm, ok := req.(*pb.AlarmRequest)
	return ok && method == "Alarm" && alarm.Action == pb.AlarmRequest_DEACTIVATE
}

// apiCluster has API servers that answer from one store.
type apiCluster struct {
	*apitest.Cluster
	nodes *fakeCluster
}

func newAPI(t *testing.T) apiCluster {
	return apiCluster{apitest.NewInMemory(t, 3), newFake(framework.APIServer, framework.ControllerManager, framework.Scheduler)}
}

func (c apiCluster) EndsWithProcess() {}

func (c apiCluster) Nodes() []framework.Node { return c.nodes.Nodes() }

// hookAll has all API servers answer with h first.
func (c apiCluster) hookAll(h func(http.ResponseWriter, *http.Request) bool) {
	for i := range 3 {
		c.Server(i).Hook(h)
	}
}

// swallow makes the API servers acknowledge requests without doing anything.
func (c apiCluster) swallow(methods ...string) {
	c.hookAll(func(w http.ResponseWriter, r *http.Request) bool {
		for _, m := range methods {
			if r.Method == m {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = w.Write([]byte("{}"))
				return true
			}
		}
		return false
	})
}

// callWebhook asks a webhook, as an API server does, and returns its answer.
func callWebhook(ctx context.Context, client *http.Client, to string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	u, err := url.Parse(to)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), strings.NewReader(`{"request":{"uid":"1"}}`))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var review struct {
		Response struct{ Allowed bool }
	}
	if err := json.NewDecoder(resp.Body).Decode(&review); err != nil || !review.Response.Allowed {
		return fmt.Errorf("not allowed: %v", err)
	}
	return nil
}

func withTimeout(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}
