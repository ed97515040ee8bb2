// Package framework is the view that a scenario has: a Cluster with its Nodes and Entrances, and
// the abilities that a provider may implement on them.
//
// The packages below it are the parts of a run: fault breaks the cluster, workload puts traffic
// on it, observe watches it, record stores the observations, judge evaluates them, and engine
// combines them into one experiment. None of them depends on a provider.
package framework

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/rest"
)

// Component names a process of the control plane, as Kubernetes names it.
type Component string

const (
	APIServer         Component = "kube-apiserver"
	ControllerManager Component = "kube-controller-manager"
	Scheduler         Component = "kube-scheduler"
	Etcd              Component = "etcd"
	LoadBalancer      Component = "load-balancer"
	// VirtualIP is the process that holds the virtual IP, on every control-plane node of a
	// cluster that is balanced by one.
	VirtualIP Component = "virtual-ip"
	// EtcdBalancer balances the etcd members.
	EtcdBalancer Component = "etcd-balancer"
	Kwok         Component = "kwok"
	// NodeAgent is the process watcher of a node: it starts and restarts the node's components,
	// like a kubelet. It is not a member of Node.Components.
	NodeAgent Component = "node-agent"
	// ContainerRuntime is the runtime with which a kubelet starts containers.
	ContainerRuntime Component = "containerd"
	// Podmaster elects components of its node from outside; see LockReporter.
	Podmaster Component = "podmaster"
	// AddonManager applies the add-ons on its node's disk, regardless of those on other nodes.
	AddonManager Component = "addon-manager"
)

// Names of the hosts on the network that are not control-plane nodes.
const (
	BalancerHost = "balancer"
	WorkersHost  = "workers"
	HarnessHost  = "harness"
)

// Cluster is a control plane under test. Providers implement it; further features are abilities
// (see abilities.go), found by type assertion on the Cluster or on a Node.
type Cluster interface {
	// Name is unique among the clusters of a machine.
	Name() string
	// Nodes returns the control-plane nodes in the order in which they joined, and then the hosts of
	// an external etcd.
	Nodes() []Node
	// Entrances returns every entrance for an API client: the load balancer first, if there is
	// one, then each API server.
	Entrances() []Entrance
	// Settings returns the time settings from which bounds are computed,
	// read from the configuration of the components.
	Settings() Settings
	// Versions returns the version of each component by node name.
	Versions() map[string]map[Component]string
}

// Node is one control-plane machine, or one host of an external etcd.
type Node interface {
	Name() string
	Address() netip.Addr
	// Components returns what this node should run.
	Components() []Component
}

// NodesWith returns the nodes that are meant to run a component.
func NodesWith(c Cluster, component Component) []Node {
	return slices.DeleteFunc(slices.Clone(c.Nodes()), func(n Node) bool { return !slices.Contains(n.Components(), component) })
}

// EtcdAlone reports whether a node is a host of an external etcd: it runs a member and nothing else.
func EtcdAlone(n Node) bool { return slices.Equal(n.Components(), []Component{Etcd}) }

// NodeNames returns the names of nodes.
func NodeNames[N interface{ Name() string }](nodes []N) []string {
	return Names(nodes, N.Name)
}

// EntranceKind reports what is behind an entrance.
type EntranceKind string

const (
	EntranceBalancer  EntranceKind = "balancer"
	EntranceAPIServer EntranceKind = "apiserver"
)

// Entrance is an address at which an API client reaches the control plane.
type Entrance struct {
	// Name is "balancer" or the name of the API server's node.
	Name string
	Kind EntranceKind
	// Node is the API server's node, empty for a balancer.
	Node string
	// Config is an administrator's client configuration for this entrance. Callers copy it
	// (rest.CopyConfig) before they change it.
	Config *rest.Config
}

// Settings are the durations from which bounds are computed. The one-letter names of the
// catalogue are beside each.
type Settings struct {
	LeaseDuration     time.Duration `json:"leaseDuration"`     // L
	RenewDeadline     time.Duration `json:"renewDeadline"`     // R
	RetryPeriod       time.Duration `json:"retryPeriod"`       // P
	EndpointTTL       time.Duration `json:"endpointTTL"`       // T
	EndpointInterval  time.Duration `json:"endpointInterval"`  // I
	ElectionTimeout   time.Duration `json:"electionTimeout"`   // E
	BalancerDetection time.Duration `json:"balancerDetection"` // H
	Margin            time.Duration `json:"margin"`            // M
	// NodePeriod is how often the controller manager checks whether nodes are silent.
	NodePeriod time.Duration `json:"nodePeriod"` // N
	// NodeGrace is how long a node may be silent before it is considered lost.
	NodeGrace time.Duration `json:"nodeGrace"` // G
	// AddonInterval is the time between two passes of an add-on manager, if there are any.
	AddonInterval time.Duration `json:"addonInterval"` // A
	// RemoteEtcd is set if an API server has several etcd members configured, so that it uses
	// those of other nodes as well.
	RemoteEtcd bool `json:"remoteEtcd,omitempty"`
	// EtcdServers are the URLs at which API servers reach etcd, but for their own node's loopback
	// address.
	EtcdServers []string `json:"etcdServers,omitempty"`
	// GoawayChance is the probability with which an API server asks the client of a request to
	// close its HTTP/2 connection (--goaway-chance); the lowest one if they differ.
	GoawayChance float64 `json:"goawayChance,omitempty"`
	// Assumed are the symbols of those that could not be read from the cluster: they have the
	// components' defaults.
	Assumed []string `json:"assumed,omitempty"`
	// Origins say where the values come from, by symbol, for people.
	Origins map[string]string `json:"origins,omitempty"`
	// Elections are the times of each elected component's own election, if known: L, R and P of a
	// bound about that component. The fields above have the longest of each.
	Elections map[Component]Election `json:"elections,omitempty"`
}

// Election are the durations with which a component elects its active instance.
type Election struct {
	LeaseDuration time.Duration `json:"leaseDuration"` // L
	RenewDeadline time.Duration `json:"renewDeadline"` // R
	RetryPeriod   time.Duration `json:"retryPeriod"`   // P
}

// Symbols returns the durations under the catalogue's one-letter names.
func (e Election) Symbols() map[string]time.Duration {
	return map[string]time.Duration{"L": e.LeaseDuration, "R": e.RenewDeadline, "P": e.RetryPeriod}
}

// Symbols returns the settings under the catalogue's one-letter names.
func (s Settings) Symbols() map[string]time.Duration {
	return map[string]time.Duration{
		"L": s.LeaseDuration, "R": s.RenewDeadline, "P": s.RetryPeriod,
		"T": s.EndpointTTL, "I": s.EndpointInterval, "E": s.ElectionTimeout,
		"H": s.BalancerDetection, "M": s.Margin, "G": s.NodeGrace, "N": s.NodePeriod, "A": s.AddonInterval,
	}
}

// OutsideEtcd returns the first URL at which an API server reaches etcd that is not an address of
// a control-plane node, such as a load balancer's: cutting off a member does not cut off an API
// server that uses it. It is empty if they use the members on the nodes alone.
func OutsideEtcd(c Cluster) string {
	for _, server := range c.Settings().EtcdServers {
		u, err := url.Parse(server)
		if err != nil || !slices.ContainsFunc(c.Nodes(), func(n Node) bool {
			return u.Hostname() == n.Name() || u.Hostname() == n.Address().String()
		}) {
			return server
		}
	}
	return ""
}

// EtcdAccess is the ability of a cluster to give direct access to its etcd members, one client
// configuration per node.
type EtcdAccess interface {
	// EtcdConfig returns a client configuration whose only endpoint is the
	// member on the named node.
	EtcdConfig(node string) (clientv3.Config, error)
}

// EtcdTunnel is the ability of a cluster whose etcd members are reached through its nodes: the
// endpoints of EtcdConfig are names alone.
type EtcdTunnel interface {
	// DialEtcd opens a connection to the member on the named node, authenticated and ready for
	// HTTP/2 without TLS. Once it is open, it is not tied to ctx.
	DialEtcd(ctx context.Context, node string) (net.Conn, error)
}

// LockReporter is the ability of a cluster whose components run only where a lock in etcd is held
// (podmaster) instead of electing their active instance themselves.
type LockReporter interface {
	// Locks returns the key of the lock of each such component. Its value is the
	// name of the holder's node.
	Locks() map[Component]string
}

// EtcdBalanced is the ability of a cluster to give access to its etcd members through a
// balancer.
type EtcdBalanced interface {
	// EtcdBalancerConfig returns a client configuration whose only endpoint is the
	// balancer; false if none exists.
	EtcdBalancerConfig() (clientv3.Config, bool)
}

// ProcessReporter is the ability of a node to report what it runs.
type ProcessReporter interface {
	// Process returns the state of one component now.
	Process(ctx context.Context, c Component) (Process, error)
}

// Process is the state of one component's process.
type Process struct {
	Component Component `json:"component"`
	// PID is the one in the node's own PID namespace, 0 without a process.
	PID int `json:"pid"`
	// StartTicks is the start time from /proc/PID/stat; with PID it identifies a process
	// uniquely.
	StartTicks uint64 `json:"startTicks,omitempty"`
	// State is the letter of /proc/PID/stat (R, S, D, T, Z), empty without
	// a process.
	State string `json:"state,omitempty"`
	// Started is the wall time of the last start.
	Started time.Time `json:"started,omitzero"`
	// Restarts counts the starts after the first one.
	Restarts int `json:"restarts"`
	// LastExit says how the last process exited, for example "signal: killed".
	LastExit string `json:"lastExit,omitempty"`
	// Held reports that the watcher leaves it down on request.
	Held bool `json:"held,omitempty"`
	// Standby reports that it is down because it may run only where a lock is held, and another
	// node holds the lock.
	Standby bool `json:"standby,omitempty"`
	// CrashLooped reports that the watcher kills it after each start on request.
	CrashLooped bool `json:"crashLooped,omitempty"`
}

// Ended reports whether no process runs; a zombie has exited too.
func (p Process) Ended() bool { return p.PID == 0 || p.State == "Z" || p.State == "X" }

// ID identifies a process of a node uniquely.
func (p Process) ID() string {
	return fmt.Sprintf("process %d (started at tick %d)", p.PID, p.StartTicks)
}
