package kind

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"k8s.io/client-go/util/cert"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/kind/internal/docker"
)

// engineOfLeft is a docker with another tool's cluster of two control-plane nodes, and a third
// one whose addition was killed. Each container has a file in DIR, until it is removed.
const engineOfLeft = `case "$*" in
"ps "*cluster=y*) (cd $DIR && for f in *.json; do echo ${f%.json}; done);;
"container inspect "*)
	shift 2
	comma=
	echo "["
	for name in "$@"; do
		echo "$comma"
		cat $DIR/$name.json
		comma=,
	done
	echo "]";;
"inspect --format "*) echo control-plane;;
"network inspect kind") echo '[{"Name":"kind","IPAM":{"Config":[{"Subnet":"127.88.0.0/16"}]}}]';;
"exec y-control-plane3 "*) if [ -f $DIR/off ]; then echo "is not running" >&2; exit 1; fi;;
*"/etc/kubernetes/admin.conf") cat $DIR/admin.conf;;
*"/pki/etcd/ca.crt"|*"/pki/apiserver-etcd-client.crt") cat $DIR/crt;;
*"/pki/apiserver-etcd-client.key") cat $DIR/key;;
` + connectAgents + `"cp - "*) cat >/dev/null;;
"rm --force "*) rm $DIR/$4.json;;
esac`

// nodesOfLeft is what the API has of them: the third has not registered.
const nodesOfLeft = `{"items":[
{"metadata":{"name":"y-control-plane"},"spec":{"podCIDRs":["10.244.0.0/24"]},"status":{"conditions":[{"type":"Ready","status":"True"}]}},
{"metadata":{"name":"y-control-plane2"},"spec":{"podCIDRs":["10.244.1.0/24"]},"status":{"conditions":[{"type":"Ready","status":"True"}]}}]}`

// leftCluster serves what engineOfLeft does not: the API servers and the etcd members of the
// first two nodes, and the agents.
type leftCluster struct {
	pb.UnimplementedClusterServer
	pb.UnimplementedKVServer
	pb.UnimplementedMaintenanceServer

	dir string

	mu      sync.Mutex
	members []*pb.Member // guarded by mu
	deleted []string     // paths in the API; guarded by mu
	silent  bool         // the next request for the status of a member fails; guarded by mu
}

// serveLeft serves it until the end of the test. The container of the third node may be off.
func serveLeft(t *testing.T, off, silent bool) *leftCluster {
	t.Helper()
	y := &leftCluster{dir: fakeDocker(t, engineOfLeft), silent: silent}
	addresses := []string{"127.88.0.3", "127.88.0.4", "127.88.0.153"}
	var ips []net.IP
	for i, address := range addresses {
		name, labels, current := "y-control-plane", "", address
		if i > 0 {
			name = fmt.Sprintf("%s%d", name, i+1)
		}
		if i == 2 {
			labels = `,"dev.holdfast.added":"true"`
			if off {
				current = ""
				touch(t, y.dir, "off")
			}
		}
		y.write(t, name+".json", fmt.Sprintf(`{"Name":"/%s","Config":{"Labels":{"io.x-k8s.kind.role":"control-plane"%s}},"State":{"Running":%t},
"NetworkSettings":{"Networks":{"kind":{"IPAddress":"%s","IPAMConfig":{"IPv4Address":"%s"}}}}}`, name, labels, current != "", current, address))
		y.members = append(y.members, &pb.Member{ID: uint64(i + 1), PeerURLs: []string{"https://" + net.JoinHostPort(address, etcdPeerPort)}, IsLearner: i == 2})
		ips = append(ips, net.ParseIP(address))
	}
	crt, key, err := cert.GenerateSelfSignedCertKey("y", ips, nil)
	if err != nil {
		t.Fatal(err)
	}
	y.write(t, "crt", string(crt))
	y.write(t, "key", string(key))
	y.write(t, "admin.conf", fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: y
contexts: [{name: y, context: {cluster: y, user: y}}]
clusters: [{name: y, cluster: {server: "https://y:6443", certificate-authority-data: "%[1]s"}}]
users: [{name: y, user: {client-certificate-data: "%[1]s", client-key-data: "%[2]s"}}]
`, base64.StdEncoding.EncodeToString(crt), base64.StdEncoding.EncodeToString(key)))
	y.serve(t, addresses[:2], crt, key)
	serveAgents(t, y.dir, accept)
	return y
}

func (y *leftCluster) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(y.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// serve serves an API server and an etcd member at each address.
func (y *leftCluster) serve(t *testing.T, addresses []string, crt, key []byte) {
	t.Helper()
	pair, err := tls.X509KeyPair(crt, key)
	if err != nil {
		t.Fatal(err)
	}
	api := &http.Server{Handler: y, TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}}}
	etcd := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&pair)))
	pb.RegisterClusterServer(etcd, y)
	pb.RegisterKVServer(etcd, y)
	pb.RegisterMaintenanceServer(etcd, y)
	t.Cleanup(func() {
		etcd.Stop()
		_ = api.Close()
	})
	listen := func(address, port string) net.Listener {
		l, err := net.Listen("tcp", net.JoinHostPort(address, port))
		if errors.Is(err, syscall.EADDRINUSE) {
			t.Skipf("another process of this machine has the port: %v", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	for _, address := range addresses {
		go func(l net.Listener) { _ = api.ServeTLS(l, "", "") }(listen(address, apiServerPort))
		go func(l net.Listener) { _ = etcd.Serve(l) }(listen(address, etcdPort))
	}
}

// accept is an agent that accepts every request.
func accept(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "null\n") }

// connectAgents is the part of a fake docker that connects clients to what serveAgents serves.
const connectAgents = `"exec --interactive "*"` + agent.ConnectPath + `") exec $DIR/${4##*/} $DIR/agent;;
`

// serveAgents serves the agents of all nodes of a fake docker in dir.
func serveAgents(t *testing.T, dir string, agents http.HandlerFunc) {
	t.Helper()
	exe, err := os.Executable()
	if err == nil {
		err = os.Symlink(exe, filepath.Join(dir, filepath.Base(agent.ConnectPath)))
	}
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "agent"))
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	go func() { _ = agenthttp.Serve(ctx, l, agents) }()
}

func (y *leftCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	y.mu.Lock()
	defer y.mu.Unlock()
	answer := `{"spec":{"holderIdentity":"y"}}` // of a lease
	switch {
	case r.Method == http.MethodDelete:
		y.deleted = append(y.deleted, r.URL.Path)
	case r.URL.Path == "/api/v1/nodes":
		answer = nodesOfLeft
	case strings.HasSuffix(r.URL.Path, "/pods"):
		answer = `{"items":[{"status":{"phase":"Succeeded"}}]}`
	}
	_, _ = io.WriteString(w, answer)
}

func (y *leftCluster) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.silent {
		y.silent = false
		return nil, errors.New("it is starting")
	}
	return &pb.StatusResponse{Header: &pb.ResponseHeader{MemberId: 1}, Version: "3.7.0", Leader: 1}, nil
}

func (y *leftCluster) DeleteRange(context.Context, *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	return &pb.DeleteRangeResponse{}, nil
}

func (y *leftCluster) MemberList(context.Context, *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	return &pb.MemberListResponse{Members: slices.Clone(y.members)}, nil
}

func (y *leftCluster) MemberRemove(_ context.Context, r *pb.MemberRemoveRequest) (*pb.MemberRemoveResponse, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.members = slices.DeleteFunc(y.members, func(m *pb.Member) bool { return m.ID == r.ID })
	return &pb.MemberRemoveResponse{}, nil
}

// checkAdded checks that everything of the third node exists, or that all of it was removed. The
// others always stay.
func (y *leftCluster) checkAdded(t *testing.T, exists bool) {
	t.Helper()
	for name, want := range map[string]bool{"y-control-plane": true, "y-control-plane2": true, "y-control-plane3": exists} {
		if _, err := os.Stat(filepath.Join(y.dir, name+".json")); (err == nil) != want {
			t.Errorf("the container of %s exists: %t, want %t", name, err == nil, want)
		}
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	if third := slices.ContainsFunc(y.members, func(m *pb.Member) bool { return m.ID == 3 }); third != exists || len(y.members) < 2 {
		t.Errorf("etcd has %d members, and the added node's is one: %t, want %t", len(y.members), third, exists)
	}
	var want []string
	if !exists {
		want = []string{"/api/v1/nodes/y-control-plane3", "/api/v1/namespaces/kube-system/pods"}
	}
	if !slices.Equal(y.deleted, want) {
		t.Errorf("%q were deleted in the API, want %q", y.deleted, want)
	}
}

// A node whose addition was killed is removed, whatever its state. Nodes that the cluster had
// before have to work.
func TestRemoveLeft(t *testing.T) {
	for name, test := range map[string]struct {
		off, silent bool
		says        string
	}{
		"without etcd":                 {},
		"off":                          {off: true},
		"another node is without etcd": {silent: true, says: "cluster y: failed to ask etcd on y-control-plane for its version"},
	} {
		t.Run(name, func(t *testing.T) {
			y := serveLeft(t, test.off, test.silent)
			err := removeLeft(t.Context(), docker.CLI{}, "y")
			if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want %q", err, test.says)
			}
			y.checkAdded(t, test.says != "")
		})
	}
}

// Taking a cluster over removes such a node. If that fails before, its end removes the node.
func TestTakeOverLeft(t *testing.T) {
	for name, test := range map[string]struct {
		off, silent, noWait bool
		says                string
	}{
		"without etcd":                 {},
		"off":                          {off: true},
		"ready later":                  {noWait: true},
		"another node is without etcd": {silent: true, says: "failed to ask etcd on y-control-plane for its version"},
	} {
		t.Run(name, func(t *testing.T) {
			y := serveLeft(t, test.off, test.silent)
			t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
			held, err := hold("y")
			if err != nil {
				t.Fatal(err)
			}
			spec := clusters.Default()
			spec.Metadata.Name = "y"
			c := &attached{Cluster: newCluster(spec, Options{Dir: t.TempDir(), NoWait: test.noWait}), lock: held}
			c.foreign = true
			err = c.takeOver(t.Context())
			if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want %q", err, test.says)
			}
			y.checkAdded(t, test.says != "")
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
			y.checkAdded(t, false)
		})
	}
}
