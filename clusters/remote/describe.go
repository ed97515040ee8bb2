package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"al.essio.dev/pkg/shellescape"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// access is how a cluster is reached.
type access struct {
	*clusters.Inventory
	entrances []framework.Entrance // the balancer first, if there is one
	answered  atomic.Int32         // the index of the one that answered last; see read
}

// open reads an inventory and its kubeconfig.
func open(path string) (*access, error) {
	i, err := clusters.LoadInventory(path)
	if err != nil {
		return nil, err
	}
	return reach(i)
}

// reach returns the entrances of a cluster.
func reach(i *clusters.Inventory) (*access, error) {
	if err := i.LoadPower(); err != nil {
		return nil, err
	}
	config, err := load(i.Spec.Kubeconfig, i.Spec.Context, "in spec.kubeconfig of the inventory")
	if err != nil {
		return nil, err
	}
	a := &access{Inventory: i}
	server := i.Spec.LoadBalancer.Server
	if server == "" {
		server = config.Host
		if u, err := url.Parse(server); err == nil && slices.ContainsFunc(i.Spec.Nodes, func(n clusters.InventoryNode) bool { return !n.EtcdOnly() && n.Server() == u.Host }) {
			server = "" // the kubeconfig leads to an API server
		}
	}
	at := func(host string) *rest.Config {
		c := rest.CopyConfig(config)
		c.Host = host
		return c
	}
	if server != "" {
		a.entrances = append(a.entrances, framework.Entrance{Name: framework.BalancerHost, Kind: framework.EntranceBalancer, Config: at(server)})
	}
	for _, n := range i.Spec.Nodes {
		if n.EtcdOnly() {
			continue
		}
		e := framework.Entrance{Name: n.Name, Kind: framework.EntranceAPIServer, Node: n.Name, Config: at("https://" + n.Server())}
		e.Config.ServerName = "" // a kubeconfig's is for the balancer
		a.entrances = append(a.entrances, e)
	}
	return a, nil
}

// load reads a kubeconfig; without a path, kubectl's. how says how the user names one. Its errors are
// a *clusters.InputError.
func load(path, kubeContext, how string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: kubeContext}).ClientConfig()
	switch {
	case path == "" && clientcmd.IsEmptyConfig(err):
		return nil, &clusters.InputError{Err: fmt.Errorf("no kubeconfig: name one %s, or set KUBECONFIG", how)}
	case path == "" && err != nil:
		return nil, &clusters.InputError{Err: fmt.Errorf("failed to read kubectl's kubeconfig: %w", err)}
	case err != nil:
		return nil, &clusters.InputError{Err: fmt.Errorf("failed to read the kubeconfig %s: %w", path, err)}
	}
	config.Timeout, config.QPS = 0, -1
	return config, nil
}

// balanced reports whether there is a balancer.
func (a *access) balanced() bool { return a.entrances[0].Kind == framework.EntranceBalancer }

const (
	// requestLimit is how long one request for a description may take, its repetitions included.
	requestLimit = 15 * time.Second
	// requestTries is how often a request is sent whose connection breaks, and requestPause how
	// long the next one waits.
	requestTries = 3
	requestPause = time.Second
)

// get requests a path.
func get(ctx context.Context, e framework.Entrance, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	httpClient, err := await.Client(e.Config)
	if err != nil {
		return nil, err
	}
	defer httpClient.CloseIdleConnections()
	for try := 1; ; try++ {
		body, err := await.Request(ctx, httpClient, http.MethodGet, e.Config.Host+path, "")
		if err == nil {
			return body, nil
		}
		// A connection that broke says nothing about the cluster: a balancer resets some while
		// the API server behind it stops.
		if answered := (await.StatusError{}); errors.As(err, &answered) || try == requestTries || !client.Pause(ctx, requestPause) {
			return nil, fmt.Errorf("%s %s: %w", e.Kind, e.Name, err)
		}
	}
}

func getInto(ctx context.Context, e framework.Entrance, path string, into any) error {
	body, err := get(ctx, e, path)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

// describe returns the description of the cluster, with the actual times from which bounds are
// computed: from the nodes if they can be reached, from static pods otherwise, and from leases where
// neither shows them.
func (a *access) describe(ctx context.Context) (*clusters.Cluster, error) {
	spec := clusters.Default()
	spec.Metadata.Name = a.Metadata.Name
	spec.Spec.Inventory, spec.Spec.Workers, spec.Spec.Leases = a.Inventory, 0, a.Spec.Leases
	spec.Spec.Nodes = make([]clusters.NodeSpec, len(a.Spec.Nodes))
	spec.Spec.LoadBalancer.Kind = clusters.BalancerNone
	if a.balanced() {
		spec.Spec.LoadBalancer.Kind = clusters.BalancerExternal
		if h := a.Spec.LoadBalancer.HealthCheck; h != (clusters.HealthCheck{}) {
			spec.Spec.LoadBalancer.HealthCheck = h
		}
	}
	zones, workers, err := a.zones(ctx)
	if err != nil {
		return nil, err
	}
	spec.Spec.Workers = workers
	if spec.Spec.UID, err = a.clusterUID(ctx); err != nil {
		return nil, err
	}
	released, err := a.serverVersions(ctx)
	if err != nil {
		return nil, err
	}
	leases, err := a.leaseDurations(ctx)
	if err != nil {
		return nil, err
	}
	pods, err := a.pods(ctx)
	if err != nil {
		return nil, err
	}
	var seen map[string]*found
	if a.Reachable() {
		all, done, err := shells(a.Inventory)
		if err != nil {
			return nil, err
		}
		defer done()
		if seen, err = a.find(ctx, all, true); err != nil { // Permit refuses faults while one is silent
			return nil, err
		}
	}
	for i, n := range a.Spec.Nodes {
		s := clusters.NodeSpec{Name: n.Name, Zone: cmp.Or(n.Zone, zones[n.Name])}
		if n.EtcdOnly() {
			if f := seen[n.Name]; f != nil {
				s.ExtraArgs = argsOf(f.processes)
			}
			spec.Spec.Nodes[i] = s
			continue
		}
		s.KubernetesVersion = released[n.Name]
		if f := seen[n.Name]; f.known() {
			s.ExtraArgs = withLeases(argsOf(f.processes), leases, f.shows)
		} else {
			s.ExtraArgs = withLeases(pods.args(n.Name), leases, pods.shows(n.Name))
		}
		spec.Spec.Nodes[i] = s
	}
	// Control-plane nodes come first, and one of them has answered.
	i := slices.IndexFunc(spec.Spec.Nodes, func(n clusters.NodeSpec) bool { return n.KubernetesVersion != "" })
	spec.Spec.KubernetesVersion = spec.Spec.Nodes[i].KubernetesVersion
	if err := spec.Validate(); err != nil {
		return nil, fmt.Errorf("cluster %s: %w", a.Metadata.Name, err)
	}
	return spec, nil
}

// serverVersions returns the versions of the API servers by node, without those that are silent,
// which other checks report. It fails if all are.
func (a *access) serverVersions(ctx context.Context) (map[string]string, error) {
	var mu sync.Mutex
	all := map[string]string{}
	err := framework.Each(a.entrances, func(e framework.Entrance) error {
		if e.Kind != framework.EntranceAPIServer {
			return nil
		}
		var v version.Info
		if err := getInto(ctx, e, "/version", &v); err != nil {
			return fmt.Errorf("failed to read the version of the API server on %s: %w", e.Node, err)
		}
		if v.GitVersion == "" {
			return fmt.Errorf("the API server on %s does not report its version", e.Node)
		}
		mu.Lock()
		defer mu.Unlock()
		all[e.Node] = v.GitVersion
		return nil
	})
	if len(all) == 0 {
		return nil, err
	}
	return all, nil
}

// server returns the entrance through a node's API server; a zero one if it has none.
func (a *access) server(node string) framework.Entrance {
	if i := slices.IndexFunc(a.entrances, func(e framework.Entrance) bool { return e.Node == node }); i >= 0 {
		return a.entrances[i]
	}
	return framework.Entrance{}
}

// zones returns the zones of nodes from their Node objects, and the number of Nodes that are
// not in the inventory.
func (a *access) zones(ctx context.Context) (zones map[string]string, others int, err error) {
	nodes, err := a.nodes(ctx)
	if err != nil {
		return nil, 0, err
	}
	zones = map[string]string{}
	for _, n := range nodes {
		if !a.has(n.Name) {
			others++
		}
		zones[n.Name] = n.Labels[corev1.LabelTopologyZone]
	}
	return zones, others, nil
}

// nodesPage is how many Nodes are requested at a time. With the images that it lists, one takes about
// 20 kB.
const nodesPage = 100

// nodes returns the Nodes of the API, under their names in the inventory.
func (a *access) nodes(ctx context.Context) (all []corev1.Node, err error) {
	for next := ""; ; {
		var page corev1.NodeList
		if err := a.read(ctx, fmt.Sprintf("/api/v1/nodes?limit=%d&continue=%s", nodesPage, url.QueryEscape(next)), &page); err != nil {
			return nil, fmt.Errorf("failed to list the nodes: %w", err)
		}
		all = append(all, page.Items...)
		if next = page.Continue; next == "" {
			break
		}
	}
	names := framework.Names(all, func(n corev1.Node) string { return n.Name })
	for i, n := range all {
		addresses := framework.Names(n.Status.Addresses, func(at corev1.NodeAddress) string { return at.Address })
		all[i].Name = a.named(n.Name, addresses, names)
	}
	return all, nil
}

// named returns the inventory's name of a Node, which has host names: by the Node's name or, unless the
// machine has another Node among all of these names, by its addresses. A Node that is not in the
// inventory keeps its name.
func (a *access) named(node string, addresses, all []string) string {
	if a.has(node) {
		return node
	}
	for _, n := range a.Spec.Nodes {
		if !slices.Contains(all, n.Name) && slices.Contains(addresses, n.Address.String()) {
			return n.Name
		}
	}
	return node
}

// has reports whether a node is one of the inventory.
func (a *access) has(node string) bool {
	return slices.ContainsFunc(a.Spec.Nodes, func(n clusters.InventoryNode) bool { return n.Name == node })
}

// versions asks the programs of controller managers and schedulers for their versions.
func (a *access) versions(ctx context.Context, all map[string]shell, seen map[string]*found) (map[string]map[framework.Component]string, error) {
	versions := map[string]map[framework.Component]string{}
	for name, f := range seen {
		versions[name] = map[framework.Component]string{}
		for _, c := range elected {
			p, ok := f.processes[c]
			if !ok || f.fused(c) {
				continue
			}
			out, err := all[name].run(ctx, agent.AskVersion(c, p.pid))
			if err != nil {
				return nil, fmt.Errorf("failed to read the version of %s: %w", c, err)
			}
			if v, err := agent.ParseVersion(out); err == nil {
				versions[name][c] = v
			}
		}
	}
	return versions, nil
}

// find inspects all nodes concurrently, and refuses machines of other nodes. For tolerant see lookAt.
func (a *access) find(ctx context.Context, all map[string]shell, tolerant bool) (map[string]*found, error) {
	seen, err := onEach(ctx, a, func(ctx context.Context, n clusters.InventoryNode) (*found, error) {
		return a.lookAt(ctx, all[n.Name], n, tolerant)
	})
	if err != nil {
		return nil, err
	}
	return seen, a.sameMachines(ctx, seen)
}

// onEach calls do for all nodes of the inventory concurrently, and returns the results by name. The
// first error cancels the other calls.
func onEach[T any](ctx context.Context, a *access, do func(context.Context, clusters.InventoryNode) (T, error)) (map[string]T, error) {
	g, ctx := errgroup.WithContext(ctx)
	var mu sync.Mutex
	all := map[string]T{}
	for _, n := range a.Spec.Nodes {
		g.Go(func() error {
			one, err := do(ctx, n)
			mu.Lock()
			defer mu.Unlock()
			all[n.Name] = one
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return all, nil
}

// readConfig reads the configuration files of etcd and of the scheduler, if they have one, and on a
// host of etcd which certificate it accepts.
func (f *found) readConfig(ctx context.Context, s shell) error {
	if path := f.file(framework.Scheduler, "config"); path != "" {
		// In a container the path may be another one.
		file, err := s.run(ctx, "cat -- "+shellescape.Quote(path))
		if err != nil {
			f.unread = framework.Scheduler
		} else if err := f.configureScheduler([]byte(file)); err != nil {
			return fmt.Errorf("failed to read the configuration of the scheduler: %w", err)
		}
	}
	if err := f.readEtcdConfig(ctx, s); err != nil || !f.node.EtcdOnly() {
		return err
	}
	return f.chooseClient(ctx, s)
}

// readEtcdConfig reads the configuration file of etcd, if it has one.
func (f *found) readEtcdConfig(ctx context.Context, s shell) error {
	if f.configFile() == "" {
		return nil
	}
	path := shellescape.Quote(f.configFile())
	script := "cat -- " + path
	if f.file(framework.Etcd, "config-file") == "" { // the path is in its profile
		script = "[ ! -e " + path + " ] || " + script
	}
	file, err := s.run(ctx, script)
	if err != nil {
		return fmt.Errorf("failed to read the configuration of etcd: %w", err)
	}
	return f.configure([]byte(file))
}
