package kind

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/kind/pkg/cluster"
	kindlog "sigs.k8s.io/kind/pkg/log"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/clusters/kind/internal/docker"
	proxy "github.com/holdfast-ha/holdfast/clusters/local/balancer"
	"github.com/holdfast-ha/holdfast/framework"
)

const (
	kubeconfigFile = "kubeconfig"
	apiServerPort  = "6443"
	etcdPort       = "2379"
	etcdPeerPort   = "2380"
	// balancerStatusPort is the port of Envoy's administration interface.
	balancerStatusPort = "10000"
)

// Cluster is a control plane on kind's nodes.
type Cluster struct {
	*agent.Network // impairs links

	spec     *clusters.Cluster
	o        Options
	cli      docker.CLI
	dir      string
	settings framework.Settings
	network  network
	// foreign reports that another tool created it.
	foreign bool
	// audit is the path of the audit log on control-plane nodes; empty if API servers write none.
	audit string

	// find sets these once: kind reads them from files of a node, which a fault may prevent
	// later.
	workers    []*node
	balancer   *node // nil if the cluster has one control-plane node
	kubeconfig string
	admin      *rest.Config // kind's kubeconfig, an administrator's
	etcdTLS    *tls.Config
	apiTLS     *tls.Config // trusts the CA of the API servers

	// scaling is held through every change of the nodes; made is the highest node number so
	// far.
	scaling sync.Mutex
	made    int // guarded by scaling
	// upgraded is the cluster's version as last passed to kubeadm; empty for that of its
	// description. Guarded by scaling.
	upgraded string

	mu        sync.Mutex
	nodes     []*node              // guarded by mu
	entrances []framework.Entrance // guarded by mu

	closeOnce sync.Once

	settled time.Duration // see settled
}

var (
	_ framework.Cluster         = (*Cluster)(nil)
	_ framework.EtcdAccess      = (*Cluster)(nil)
	_ framework.BackendReporter = (*Cluster)(nil)
	_ framework.NetworkFaulter  = (*Cluster)(nil)
	_ framework.LinkReporter    = (*Cluster)(nil)
	_ framework.ProcessReporter = (*Cluster)(nil)
	_ framework.Killer          = (*Cluster)(nil)
	_ framework.Stopper         = (*Cluster)(nil)
	_ framework.Starter         = (*Cluster)(nil)
	_ framework.Freezer         = (*Cluster)(nil)
	_ framework.Scaler          = (*Cluster)(nil)
	_ framework.Upgrader        = (*Cluster)(nil)
)

func newCluster(spec *clusters.Cluster, o Options) *Cluster {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	o.LogDir = cmp.Or(o.LogDir, filepath.Join(o.Dir, "logs"))
	return &Cluster{Network: agent.NewNetwork(spec.Metadata.Name, nil), spec: spec, o: o, settled: settled, audit: nodeAuditLog,
		cli: docker.CLI{Host: o.Engine}, dir: filepath.Join(o.Dir, "kind-"+spec.Metadata.Name)}
}

// balancerDetection is the detection time of kind's own balancer, whose health checks are
// fixed: every 2 s, down after the second failed check, which may take 3 s. Source:
// pkg/cluster/internal/loadbalancer/config.go of kind.
const balancerDetection = 2*2*time.Second + 3*time.Second

func settings(spec *clusters.Cluster) (framework.Settings, error) {
	s, err := clusters.Settings(spec)
	if err != nil {
		return s, err
	}
	s.BalancerDetection, s.Origins["H"] = balancerDetection, "constant of kind's load balancer"
	if len(spec.Spec.Nodes) == 1 {
		s.BalancerDetection = 0
		delete(s.Origins, "H")
	}
	return s, nil
}

// find reads the cluster's containers, how to reach each API server and each etcd member, and
// the credentials for them. It asks nothing of nodes that were added: they are removed next, and
// a killed addition leaves them in any state.
func (c *Cluster) find(ctx context.Context) error {
	all, err := machines(ctx, c.cli, c.Name())
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("cluster %s has no nodes", c.Name())
	}
	for _, container := range all {
		address, err := c.network.addressOf(container)
		if err != nil {
			return fmt.Errorf("failed to find the address of %s in the network %s: %w", container.Name, c.network.name, err)
		}
		n := c.newNode(container.Name, address, container.Config.Labels[roleLabel])
		switch n.role {
		case controlPlaneRole:
			number := nodeNumber(n.name)
			n.spec, n.added, c.made = c.nodeSpec(number), isAdded(container), max(c.made, number)
			c.nodes = append(c.nodes, n)
		case workerRole:
			c.workers = append(c.workers, n)
		case balancerRole:
			c.balancer = n
		}
	}
	if c.balancer != nil {
		for _, n := range c.containers() {
			n.Client.Balancer = c.balancer.name
		}
	}
	if err := c.findEntrances(); err != nil {
		return err
	}
	staying := slices.DeleteFunc(slices.Clone(c.nodes), func(n *node) bool { return n.added })
	if len(staying) == 0 {
		return fmt.Errorf("cluster %s has no control-plane nodes", c.Name())
	}
	if err := c.findEtcd(ctx, staying); err != nil {
		return err
	}
	parties, err := c.findParties(ctx, staying)
	c.Network.Replace(parties)
	return err
}

func (c *Cluster) newNode(name string, address netip.Addr, role string) *node {
	n := &node{cluster: c, name: name, address: address, role: role}
	n.Client = agent.NewClient(n.name, n.dial)
	return n
}

// controlPlane returns the existing control-plane nodes.
func (c *Cluster) controlPlane() []*node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes
}

// containers returns all of them.
func (c *Cluster) containers() []*node {
	all := slices.Concat(c.controlPlane(), c.workers)
	if c.balancer != nil {
		all = append(all, c.balancer)
	}
	return all
}

// findParties reports which hosts are on the network, and which addresses their packets carry:
// packets of pods leave a node with the pod's address.
func (c *Cluster) findParties(ctx context.Context, nodes []*node) ([]agent.Party, error) {
	// A node receives its pod CIDR some time after it has joined.
	var ranges map[string][]netip.Prefix
	if _, err := await.API(ctx, c.Entrances()[0], "/api/v1/nodes", func(body []byte) (err error) {
		ranges, err = podRanges(body, framework.NodeNames(slices.Concat(nodes, c.workers)))
		return err
	}); err != nil {
		return nil, fmt.Errorf("failed to find the addresses of pods in cluster %s: %w", c.Name(), err)
	}
	party := func(name string, nodes ...*node) agent.Party {
		p := agent.Party{Name: name}
		for _, n := range nodes {
			p.Prefixes = append(p.Prefixes, netip.PrefixFrom(n.address, n.address.BitLen()))
			p.Prefixes = append(p.Prefixes, ranges[n.name]...)
			p.Agents = append(p.Agents, n.Client)
		}
		return p
	}
	var all []agent.Party
	for _, n := range nodes {
		all = append(all, party(n.name, n))
	}
	if c.balancer != nil {
		all = append(all, party(framework.BalancerHost, c.balancer))
	}
	if len(c.workers) > 0 {
		all = append(all, party(framework.WorkersHost, c.workers...))
	}
	harness := c.network.gateway()
	all = append(all, agent.Party{Name: framework.HarnessHost, Prefixes: []netip.Prefix{netip.PrefixFrom(harness, harness.BitLen())}})
	return all, nil
}

// podRanges returns the pod CIDRs by node, once all of these nodes have some.
func podRanges(body []byte, nodes []string) (map[string][]netip.Prefix, error) {
	var list corev1.NodeList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("failed to read the list of nodes: %w", err)
	}
	ranges := map[string][]netip.Prefix{}
	for _, n := range list.Items {
		for _, cidr := range n.Spec.PodCIDRs {
			p, err := netip.ParsePrefix(cidr)
			if err != nil {
				return nil, fmt.Errorf("the addresses of pods on %s: %w", n.Name, err)
			}
			ranges[n.Name] = append(ranges[n.Name], p)
		}
	}
	for _, name := range nodes {
		if len(ranges[name]) == 0 {
			return nil, fmt.Errorf("node %s has no addresses for pods", name)
		}
	}
	return ranges, nil
}

// findEntrances reads an administrator's certificate from kind, and an address from each
// container.
func (c *Cluster) findEntrances() error {
	var kubeconfig string
	err := withKind(c.o.Engine, "", kindlog.NoopLogger{}, func(p *cluster.Provider) (err error) {
		kubeconfig, err = p.KubeConfig(c.Name(), true)
		return kindFailed(err)
	})
	if err != nil {
		return fmt.Errorf("failed to fetch an administrator's certificate for cluster %s: %w", c.Name(), err)
	}
	c.kubeconfig = kubeconfig
	if c.admin, err = clientcmd.RESTConfigFromKubeConfig([]byte(kubeconfig)); err != nil {
		return fmt.Errorf("failed to read kind's kubeconfig of cluster %s: %w", c.Name(), err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(c.admin.CAData) {
		return fmt.Errorf("failed to read kind's kubeconfig of cluster %s: it has no CA", c.Name())
	}
	c.apiTLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	if c.balancer != nil {
		e := c.entrance(c.balancer)
		e.Name, e.Kind, e.Node = framework.BalancerHost, framework.EntranceBalancer, ""
		if c.foreign { // its certificates do not contain the balancer's address
			e.Config.ServerName = c.balancer.name
		}
		c.entrances = append(c.entrances, e)
	}
	for _, n := range c.nodes {
		c.entrances = append(c.entrances, c.entrance(n))
	}
	return nil
}

// entrance returns the entrance through a node's API server.
func (c *Cluster) entrance(n *node) framework.Entrance {
	config := rest.CopyConfig(c.admin)
	config.Host = "https://" + net.JoinHostPort(n.address.String(), apiServerPort)
	config.Dial = dialer.DialContext
	return framework.Entrance{Name: n.name, Kind: framework.EntranceAPIServer, Node: n.name, Config: config}
}

// dialer notices a server that stopped responding, like that of the local provider.
var dialer = &net.Dialer{Timeout: 5 * time.Second, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: time.Second, Count: 5}}

// findEtcd reads the certificate that kubeadm configures for API servers, and the versions of
// the members on these nodes.
func (c *Cluster) findEtcd(ctx context.Context, nodes []*node) error {
	var parts [3][]byte
	for i, file := range []string{"etcd/ca.crt", "apiserver-etcd-client.crt", "apiserver-etcd-client.key"} {
		out, err := c.cli.Run(ctx, "exec", nodes[0].name, "cat", "/etc/kubernetes/pki/"+file)
		if err != nil {
			return fmt.Errorf("failed to fetch a client certificate for the etcd of cluster %s: %w", c.Name(), err)
		}
		parts[i] = []byte(out + "\n")
	}
	var err error
	c.etcdTLS, err = rest.TLSConfigFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: parts[0], CertData: parts[1], KeyData: parts[2]}})
	if err != nil {
		return fmt.Errorf("failed to read the CA or a client certificate for the etcd of cluster %s: %w", c.Name(), err)
	}
	for _, n := range nodes {
		if n.etcd, err = c.etcdVersion(ctx, n); err != nil {
			return fmt.Errorf("failed to ask etcd on %s for its version: %w", n.name, err)
		}
	}
	return nil
}

func (c *Cluster) etcdVersion(ctx context.Context, n *node) (string, error) {
	config := c.etcdAt(n)
	client, err := clientv3.New(config)
	if err != nil {
		return "", err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	status, err := client.Status(ctx, config.Endpoints[0])
	if err != nil {
		return "", err
	}
	return "v" + status.Version, nil
}

// Name implements framework.Cluster.
func (c *Cluster) Name() string { return c.spec.Metadata.Name }

// Nodes implements framework.Cluster.
func (c *Cluster) Nodes() []framework.Node {
	var all []framework.Node
	for _, n := range c.controlPlane() {
		all = append(all, n)
	}
	return all
}

// Entrances implements framework.Cluster.
func (c *Cluster) Entrances() []framework.Entrance {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entrances
}

// Settings implements framework.Cluster.
func (c *Cluster) Settings() framework.Settings { return c.settings }

// Versions implements framework.Cluster.
func (c *Cluster) Versions() map[string]map[framework.Component]string {
	all := map[string]map[framework.Component]string{}
	nodes := c.controlPlane()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range nodes {
		k := n.spec.KubernetesVersion
		all[n.name] = map[framework.Component]string{framework.APIServer: k, framework.ControllerManager: k, framework.Scheduler: k,
			framework.Etcd: n.etcd}
	}
	return all
}

// EtcdConfig implements framework.EtcdAccess.
func (c *Cluster) EtcdConfig(name string) (clientv3.Config, error) {
	for _, n := range c.controlPlane() {
		if n.name == name {
			return c.etcdAt(n), nil
		}
	}
	return clientv3.Config{}, fmt.Errorf("cluster %s has no node %q", c.Name(), name)
}

// etcdAt is how to reach a node's etcd member: like its API server, without a proxy from the
// environment.
func (c *Cluster) etcdAt(n *node) clientv3.Config {
	return clientv3.Config{Endpoints: []string{"https://" + net.JoinHostPort(n.address.String(), etcdPort)},
		TLS: c.etcdTLS.Clone(), DialTimeout: dialer.Timeout, DialOptions: []grpc.DialOption{grpc.WithNoProxy()}}
}

// Backends implements framework.BackendReporter. The Envoy that kind starts if its image is
// available reports in a format of its own.
func (c *Cluster) Backends(ctx context.Context) ([]framework.Backend, error) {
	if c.balancer == nil {
		return nil, nil
	}
	all, err := proxy.Backends(ctx, net.JoinHostPort(c.balancer.address.String(), balancerStatusPort))
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		err = fmt.Errorf("the status page of Envoy: %w", errors.ErrUnsupported)
	}
	if err != nil {
		return nil, fmt.Errorf("failed to ask the balancer of cluster %s for its backends: %w", c.Name(), err)
	}
	return all, nil
}

// Close deletes the cluster, after collecting its logs unless they are to be dropped.
func (c *Cluster) Close(ctx context.Context) error {
	var err error
	c.closeOnce.Do(func() {
		for _, n := range c.containers() {
			n.endGuards()
			n.Client.Close()
		}
		if !c.o.DropLogs {
			err = c.keepLogs(ctx)
		}
		err = errors.Join(err, Delete(ctx, c.Name(), c.o.Engine), os.RemoveAll(c.dir))
	})
	return err
}
