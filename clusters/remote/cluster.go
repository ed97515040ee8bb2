package remote

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/framework"
)

// Observed is a cluster that is reached with only a kubeconfig.
type Observed struct {
	access   *access
	spec     *clusters.Cluster
	settings framework.Settings
	pods     mirrors
	released map[string]map[framework.Component]string // versions, as the programs report them
	nodes    []framework.Node
	harmless bool   // nothing is injected
	alone    string // why nodes are left alone, if they are
}

var (
	_ framework.Cluster         = (*Observed)(nil)
	_ framework.BackendReporter = (*Observed)(nil)
	_ clusters.Permitted        = (*Observed)(nil)
)

// Permitted implements clusters.Permitted.
func (c *Observed) Permitted(ctx context.Context) error {
	_, err := c.access.permitted(ctx, c.harmless)
	return err
}

// Name implements framework.Cluster.
func (c *Observed) Name() string { return c.spec.Metadata.Name }

// Nodes implements framework.Cluster.
func (c *Observed) Nodes() []framework.Node { return c.nodes }

// Entrances implements framework.Cluster.
func (c *Observed) Entrances() []framework.Entrance { return c.access.entrances }

// Settings implements framework.Cluster.
func (c *Observed) Settings() framework.Settings { return c.settings }

// Versions implements framework.Cluster: those of the API servers, and of the components
// that are upgraded with them.
func (c *Observed) Versions() map[string]map[framework.Component]string {
	all := map[string]map[framework.Component]string{}
	for i, n := range c.spec.Nodes() {
		if !c.spec.Runs(i, framework.APIServer) {
			continue
		}
		all[n.Name] = map[framework.Component]string{}
		if v := c.reported(i); v != "" {
			all[n.Name][framework.APIServer] = v
		}
		for _, component := range []framework.Component{framework.ControllerManager, framework.Scheduler} {
			if v := cmp.Or(c.released[n.Name][component], c.pods.version(n.Name, component)); v != "" {
				all[n.Name][component] = v
			}
		}
	}
	return all
}

// reported returns the version that the API server on a node reported; empty if it was silent.
func (c *Observed) reported(node int) string { return c.spec.Spec.Nodes[node].KubernetesVersion }

// Backends implements framework.BackendReporter.
func (c *Observed) Backends(context.Context) ([]framework.Backend, error) {
	if !c.access.balanced() {
		return nil, nil
	}
	return nil, fmt.Errorf("holdfast cannot ask a load balancer that it did not create for its backends: %w", errors.ErrUnsupported)
}

// Close implements clusters.Made: nothing was installed in the cluster.
func (c *Observed) Close(context.Context) error { return nil }

// plain is a node that cannot be reached.
type plain struct {
	spec       clusters.Node
	address    netip.Addr
	server     framework.Entrance
	components []framework.Component
	alone      string // why it is left alone, if it is
}

var (
	_ framework.Zoner          = (*plain)(nil)
	_ framework.EndpointLister = (*plain)(nil)
)

// Name implements framework.Node.
func (n *plain) Name() string { return n.spec.Name }

// Address implements framework.Node.
func (n *plain) Address() netip.Addr { return n.address }

// Zone implements framework.Zoner.
func (n *plain) Zone() string { return n.spec.Zone }

// ServingEndpoints implements framework.EndpointLister: those of API servers, whose CA is in
// the kubeconfig.
func (n *plain) ServingEndpoints(c framework.Component) ([]framework.ServingEndpoint, error) {
	if c != framework.APIServer || n.server.Config == nil {
		return nil, fmt.Errorf("the address of %s on %s is unknown", c, n.Name())
	}
	config, err := rest.TLSConfigFor(n.server.Config)
	if err != nil {
		return nil, err
	}
	config.Certificates, config.GetClientCertificate = nil, nil
	return []framework.ServingEndpoint{{Name: "https", Address: strings.TrimPrefix(n.server.Config.Host, "https://"), TLS: config,
		Names: []string{n.address.String()}, Path: "/livez"}}, nil
}

// Components implements framework.Node.
func (n *plain) Components() []framework.Component { return n.components }

// Cluster is a cluster whose nodes are reached over SSH.
type Cluster struct {
	*Observed
	*agent.Network
	shells  map[string]shell
	done    func() // closes the connections
	reached []*node
	lost    []*node            // nothing is known of them; see found.lost
	stop    context.CancelFunc // of the pings
	pings   sync.WaitGroup
	broken  broken
	once    sync.Once
	program func() ([]byte, error) // see packProgram; packed once, for all nodes
	onNode  error                  // is ErrOnNode if this process runs on a node

	consentMu sync.Mutex
	consent   Consent // guarded by consentMu; see allowed
}

var (
	_ framework.Cluster        = (*Cluster)(nil)
	_ framework.EtcdTunnel     = (*Cluster)(nil)
	_ framework.EtcdAccess     = (*Cluster)(nil)
	_ framework.NetworkFaulter = (*Cluster)(nil)
	_ framework.Promiser       = (*Cluster)(nil)
	_ framework.Lapser         = (*Cluster)(nil)
	_ framework.PowerChecker   = (*Cluster)(nil)
)

// Permitted implements clusters.Permitted. Afterwards the cluster refuses what the owner has withdrawn.
// What a consent adds during a run counts from the next one, which takes the snapshot that it may need.
func (c *Cluster) Permitted(ctx context.Context) error {
	now, err := c.access.permitted(ctx, c.harmless)
	if err != nil {
		return err
	}
	c.consentMu.Lock()
	defer c.consentMu.Unlock()
	now.Levels = slices.DeleteFunc(now.Levels, func(l Level) bool { return !c.consent.allows(l) })
	c.consent = now
	return nil
}

// allowed returns the consent of the owner, as last read.
func (c *Cluster) allowed() Consent {
	c.consentMu.Lock()
	defer c.consentMu.Unlock()
	return c.consent
}

// EtcdConfig implements framework.EtcdAccess: the member is reached through the node's agent.
func (c *Cluster) EtcdConfig(name string) (clientv3.Config, error) {
	n, err := c.withEtcd(name)
	if err != nil {
		return clientv3.Config{}, err
	}
	return clientv3.Config{Endpoints: []string{"http://" + net.JoinHostPort(n.Address().String(), "2379")}, DialTimeout: etcdDialLimit,
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return n.DialEtcd(ctx) })}}, nil
}

// DialEtcd implements framework.EtcdTunnel.
func (c *Cluster) DialEtcd(ctx context.Context, name string) (net.Conn, error) {
	n, err := c.withEtcd(name)
	if err != nil {
		return nil, err
	}
	return n.DialEtcd(ctx)
}

func (c *Cluster) withEtcd(name string) (*node, error) {
	for _, n := range slices.Concat(c.reached, c.lost) {
		if n.Name() == name {
			return n, nil
		}
	}
	return nil, fmt.Errorf("cluster %s has no node %q", c.Name(), name)
}

// etcdDialLimit is how long opening a connection to etcd may take.
const etcdDialLimit = 5 * time.Second

// Impair implements framework.NetworkFaulter, if the owner has consented.
func (c *Cluster) Impair(ctx context.Context, links []framework.Link, imp framework.Impairment, ttl time.Duration) (string, error) {
	if err := c.impairs(); err != nil {
		return "", err
	}
	return c.counts(rand.Text(), cutOff(links, imp, c.nodeNames()), ttl, func() (string, error) { return c.Network.Impair(ctx, links, imp, ttl) })
}

// Restore implements framework.NetworkFaulter.
func (c *Cluster) Restore(ctx context.Context, handle string) error {
	return c.broken.mendUnless(handle, c.Network.Restore(ctx, handle))
}

// CheckImpairment implements framework.ImpairmentChecker.
func (c *Cluster) CheckImpairment(ctx context.Context, links []framework.Link, imp framework.Impairment) error {
	if err := c.impairs(); err != nil {
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	return c.Network.CheckImpairment(ctx, links, imp)
}

// CheckPromise implements framework.Promiser. A cluster that holdfast did not create refuses
// promises that could lose data permanently.
func (c *Cluster) CheckPromise(u framework.Undoing) error {
	if u.Lossy {
		return fmt.Errorf("cluster %s was not created by holdfast, and data that %s loses cannot be recovered", c.Name(), u.Fault)
	}
	if u.Quorum {
		if err := c.permits(QuorumLoss, "do that"); err != nil {
			return err
		}
	}
	level := Data
	if u.Nothing {
		level = Processes
	}
	return c.permits(level, "do that")
}

// Promise implements framework.Promiser: the agents of all nodes promise it.
func (c *Cluster) Promise(ctx context.Context, u framework.Undoing, ttl time.Duration) (string, error) {
	if err := c.CheckPromise(u); err != nil {
		return "", err
	}
	var hit []string
	if u.Node != "" {
		hit = append(hit, u.Node)
	}
	key := rand.Text()
	if err := c.breaks(key, hit, ttl); err != nil {
		return "", err
	}
	members := map[string][]string{}
	for _, n := range c.reached {
		if !slices.Contains(n.Components(), framework.Etcd) {
			continue
		}
		members[n.Name()] = []string{peerView(memberURL(n.found.processes[framework.Etcd], n.Address()), n.Address())}
	}
	handle, err := agent.Promise(ctx, c.agents(), u, members, ttl)
	if err != nil {
		c.broken.mend(key) // what was promised to be undone is not done then
		return "", err
	}
	c.broken.rename(key, handle)
	return handle, nil
}

// Withdraw implements framework.Promiser.
func (c *Cluster) Withdraw(ctx context.Context, handle string) error {
	return c.broken.mendUnless(handle, agent.Withdraw(ctx, c.agents(), handle))
}

// breaks records under a key that nodes are broken for ttl, unless that needs consent to the
// loss of quorum that the owner has not given.
func (c *Cluster) breaks(key string, nodes []string, ttl time.Duration) error {
	return c.broken.add(c.Name(), key, nodes, max(ttl, momentary), c.allowed().allows(QuorumLoss))
}

// counts calls do, which breaks nodes for ttl. They count as broken under key until do returns, then
// under its handle.
func (c *Cluster) counts(key string, nodes []string, ttl time.Duration, do func() (handle string, err error)) (string, error) {
	if err := c.breaks(key, nodes, ttl); err != nil {
		return "", err
	}
	handle, err := do()
	if untouched(err) {
		c.broken.mend(key)
	}
	if err != nil {
		return "", err
	}
	c.broken.rename(key, handle)
	return handle, nil
}

func (c *Cluster) agents() (all []*agent.Client) {
	for _, n := range c.reached {
		all = append(all, n.Client)
	}
	return all
}

// Lapsed implements framework.Lapser: it asks the agents whether they have healed everything.
func (c *Cluster) Lapsed(ctx context.Context, since time.Time) string {
	var mu sync.Mutex
	var early, unknown []string
	_ = c.each(func(n *node) error {
		if n.off() {
			return nil // nothing is left on it that could be healed early
		}
		ago, err := n.Client.Lapsed(ctx)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			unknown = append(unknown, n.Name())
		} else if ago > 0 && ago < time.Since(since) {
			early = append(early, n.Name())
		}
		return err
	})
	switch {
	case len(early) == 0 && len(unknown) == 0:
		return ""
	case len(early) == 0:
		slices.Sort(unknown)
		return fmt.Sprintf("whether the agent on %s healed it early is not known: it does not answer", strings.Join(unknown, ", "))
	}
	slices.Sort(early)
	return fmt.Sprintf("the agent on %s healed it early: its node had restarted, it had received no request for %s, or another run had it heal everything", strings.Join(early, ", "), Leash)
}

// each calls do for all nodes concurrently.
func (c *Cluster) each(do func(*node) error) error {
	return framework.Each(c.reached, do)
}

func (c *Cluster) nodeNames() []string { return framework.NodeNames(c.reached) }

// nodesWith returns the nodes with a component.
func (c *Cluster) nodesWith(component framework.Component) (names []string) {
	for _, n := range c.reached {
		if slices.Contains(n.Components(), component) {
			names = append(names, n.Name())
		}
	}
	return names
}

// permits returns an error unless the owner has consented to a level.
func (c *Cluster) permits(l Level, what string) error {
	consent := c.allowed()
	if time.Now().After(consent.Expires) {
		return refused(c.Name(), what, fmt.Errorf("%w: the consent expired at %s", ErrNoConsent, consent.Expires.Format(time.RFC3339)))
	}
	if !consent.allows(l) {
		return refused(c.Name(), what, fmt.Errorf("%w to the level %q", ErrNoConsent, l))
	}
	return nil
}
