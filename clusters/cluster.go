package clusters

import (
	"cmp"
	"maps"
	"strconv"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/yamlfile"
)

// apiVersion and kind of a cluster file.
const (
	APIVersion = yamlfile.APIVersion
	Kind       = "Cluster"
)

// DefaultKubernetesVersion is the Kubernetes version of a cluster that does not specify one.
const DefaultKubernetesVersion = "v1.37.1"

// Cluster describes a control plane.
type Cluster struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	Spec       Spec     `json:"spec"`
}

// Metadata names a cluster.
type Metadata struct {
	// Name is a DNS label, unique among the clusters of a machine.
	Name string `json:"name"`
}

// Spec specifies a cluster.
type Spec struct {
	// Nodes are the control-plane nodes, in the order in which they join.
	// Their number is 1, 3, 5 or 7.
	Nodes []NodeSpec `json:"nodes"`
	// KubernetesVersion is the version of the API servers, controller
	// managers, schedulers and kubectl, with the leading v.
	KubernetesVersion string `json:"kubernetesVersion"`
	// EtcdVersion is the version of etcd, with the leading v. Empty means the one in holdfast's
	// own binary.
	EtcdVersion string `json:"etcdVersion,omitempty"`
	// LoadBalancer stands in front of the API servers.
	LoadBalancer LoadBalancer `json:"loadBalancer"`
	// EtcdBalancer balances clients other than the API servers over the etcd members, on the
	// load balancer's machine; empty for none.
	EtcdBalancer EtcdBalancer `json:"etcdBalancer,omitempty"`
	// Workers is the number of nodes that kwok simulates.
	Workers int `json:"workers"`
	// RegisterNodes also registers the initial control-plane nodes as Nodes in the API; they
	// send their own heartbeats. Nodes with kubelets are always registered.
	RegisterNodes bool `json:"registerNodes,omitempty"`
	// ExtraArgs are arguments of components on every node.
	ExtraArgs ExtraArgs `json:"extraArgs,omitempty"`
	// Sysctls are kernel settings of every machine of the cluster, by name, such as
	// net.ipv4.tcp_rto_max_ms. They must belong to a network namespace. A setting that the
	// kernel does not have is skipped.
	Sysctls map[string]string `json:"sysctls,omitempty"`
	// Election is how each elected component is elected; lease if it is not listed.
	Election map[framework.Component]Election `json:"election,omitempty"`
	// Leases are the leases, in kube-system, of additional elected components that run in the
	// cluster but are not holdfast's, such as cluster-autoscaler, with their election times.
	Leases map[framework.Component]framework.Election `json:"leases,omitempty"`
	// Data is where the nodes keep their data.
	Data Data `json:"data"`
	// Disk is the layer under etcd's data on every node.
	Disk Disk `json:"disk"`
	// UID identifies an existing cluster among those of its name; empty if it is not known.
	UID string `json:"uid,omitempty" file:"-"`
	// Inventory describes a cluster that holdfast did not create; nil for one that it creates.
	// It is not part of a cluster file.
	Inventory *Inventory `json:"inventory,omitempty" file:"-"`
}

// NodeSpec overrides settings of one control-plane node. With its zero value the node uses the
// cluster's.
type NodeSpec struct {
	// Name defaults to node-1, node-2 and so on.
	Name string `json:"name,omitempty"`
	// Zone is the fault domain; nodes are spread over a, b and c by default.
	Zone              string    `json:"zone,omitempty"`
	KubernetesVersion string    `json:"kubernetesVersion,omitempty"`
	EtcdVersion       string    `json:"etcdVersion,omitempty"`
	ExtraArgs         ExtraArgs `json:"extraArgs,omitempty"`
	// Disk is as in Spec, for this node only.
	Disk Disk `json:"disk,omitempty"`
}

// ExtraArgs are command-line arguments by component and by flag, the flag
// without its dashes. An empty value is passed too (--flag=).
type ExtraArgs map[framework.Component]map[string]string

// Merge returns the arguments overridden by those of over.
func (a ExtraArgs) Merge(over ExtraArgs) ExtraArgs {
	merged := ExtraArgs{}
	for _, args := range []ExtraArgs{a, over} {
		for component, flags := range args {
			if merged[component] == nil {
				merged[component] = map[string]string{}
			}
			maps.Copy(merged[component], flags)
		}
	}
	return merged
}

// BalancerKind is a way to spread clients over the API servers.
type BalancerKind string

const (
	BalancerBuiltin BalancerKind = "builtin" // holdfast's own, at the transport layer
	BalancerHAProxy BalancerKind = "haproxy" // HAProxy, which must be installed
	BalancerNGINX   BalancerKind = "nginx"   // NGINX with its stream module, which must be installed
	BalancerDNS     BalancerKind = "dns"     // a DNS name with the addresses of the ready API servers
	BalancerVIP     BalancerKind = "vip"     // an address that moves to a node whose API server is ready
	BalancerNone    BalancerKind = "none"    // no balancer: clients know each API server
	// BalancerOnDemand is the built-in one while the cluster has two or more control-plane
	// nodes; with one, no balancer runs, and that node has its address.
	BalancerOnDemand BalancerKind = "on-demand"
	// BalancerExternal is the balancer of a cluster that holdfast did not create.
	BalancerExternal BalancerKind = "external"
)

// EtcdBalancer is how clients of etcd are spread over the members.
type EtcdBalancer string

const (
	// EtcdBalancerAffinity keeps each client, by its address, on one member while that member
	// is up.
	EtcdBalancerAffinity EtcdBalancer = "affinity"
	// EtcdBalancerRoundRobin sends each connection to the next member.
	EtcdBalancerRoundRobin EtcdBalancer = "round-robin"
)

// Machine reports whether the balancer has a machine of its own.
func (b LoadBalancer) Machine() bool { return b.Kind != BalancerNone && b.Kind != BalancerVIP }

// LoadBalancer is what stands in front of the API servers.
type LoadBalancer struct {
	Kind        BalancerKind `json:"kind"`
	HealthCheck HealthCheck  `json:"healthCheck"`
}

// HealthCheck is how the balancer finds out which API servers it can use: by requesting /readyz
// from each, over TLS. NGINX does not send requests but uses its clients' connections: if Fall
// of them fail within Fall × Interval (in whole seconds), it does not use the API server for as
// long. Timeout is how long it waits for a connection; it does not use Rise.
type HealthCheck struct {
	// Disabled turns the checks off: the balancer also sends clients to dead API servers. Use
	// it to plant a violation.
	Disabled bool `json:"disabled,omitempty"`
	// Interval is the time from the start of one check to that of the next, 1 s by default; with
	// HAProxy, from the end of one.
	Interval time.Duration `json:"interval"`
	// Timeout is how long one check may take; at most Interval, 1 s by default.
	Timeout time.Duration `json:"timeout"`
	// Fall is the number of consecutive failed checks after which an API server is down, Rise
	// that of successful ones after which it is up again.
	Fall int `json:"fall"`
	Rise int `json:"rise"`
}

// Detection is the longest time from when an API server stops answering until the checks mark
// it down: the interval before each check that has to fail, and the timeout of the last one.
func (h HealthCheck) Detection() time.Duration {
	return time.Duration(h.Fall)*h.Interval + h.Timeout
}

// FailTimeout is NGINX's fail_timeout, which has whole seconds.
func (h HealthCheck) FailTimeout() time.Duration {
	return (time.Duration(h.Fall)*h.Interval + time.Second - 1).Truncate(time.Second)
}

// NameTTL is the TTL of the DNS records with which clients are balanced.
const NameTTL = time.Second

// Detection is the longest time from when an API server stops answering until clients are no
// longer sent to it. That of an external balancer is as long as HAProxy's.
func (b LoadBalancer) Detection() time.Duration {
	switch b.Kind {
	case BalancerHAProxy, BalancerExternal:
		// It counts the interval from the end of a check (process_chk_conn).
		return time.Duration(b.HealthCheck.Fall) * (b.HealthCheck.Interval + b.HealthCheck.Timeout)
	case BalancerNone:
		return 0
	case BalancerNGINX:
		return b.HealthCheck.FailTimeout() + b.HealthCheck.Timeout
	case BalancerDNS:
		return b.HealthCheck.Detection() + NameTTL
	case BalancerVIP:
		// The standby nodes take the address in order, all within one interval.
		return b.HealthCheck.Detection() + b.HealthCheck.Interval
	}
	return b.HealthCheck.Detection()
}

// Data is where the nodes keep their data.
type Data string

const (
	DataMemory Data = "memory" // tmpfs: fast, and deleted with the cluster
	DataDisk   Data = "disk"   // the disk that holds the cluster's state
)

// Disk is the layer between etcd's data and where they are stored.
type Disk string

const (
	// DiskNone adds no layer: disk faults are not applicable.
	DiskNone Disk = "none"
	// DiskFUSE is a file system of holdfast's own that can fail. It costs etcd some tens of
	// microseconds per write and per sync.
	DiskFUSE Disk = "fuse"
)

// Default returns the cluster without a cluster file: three nodes, the built-in balancer and
// two simulated workers.
func Default() *Cluster {
	return &Cluster{
		APIVersion: APIVersion,
		Kind:       Kind,
		Metadata:   Metadata{Name: "holdfast"},
		Spec: Spec{
			Nodes:             make([]NodeSpec, 3),
			KubernetesVersion: DefaultKubernetesVersion,
			LoadBalancer: LoadBalancer{
				Kind: BalancerBuiltin,
				HealthCheck: HealthCheck{
					Interval: time.Second,
					Timeout:  time.Second,
					Fall:     2,
					Rise:     1,
				},
			},
			Workers: 2,
			Data:    DataMemory,
			Disk:    DiskNone,
		},
	}
}

// SetNodes gives the cluster n control-plane nodes. It keeps the overrides of the first n.
func (c *Cluster) SetNodes(n int) {
	nodes := make([]NodeSpec, max(n, 0))
	copy(nodes, c.Spec.Nodes)
	c.Spec.Nodes = nodes
}

// Node is a control-plane node with everything resolved.
type Node struct {
	// Index counts from 0.
	Index int
	Name  string
	Zone  string
	// KubernetesVersion and EtcdVersion are as in Spec.
	KubernetesVersion string
	EtcdVersion       string
	// ExtraArgs are the cluster's and the node's, merged.
	ExtraArgs ExtraArgs
	Disk      Disk
}

// Node returns the node with index i, from 0 to len(c.Spec.Nodes)-1.
func (c *Cluster) Node(i int) Node {
	spec := c.Spec.Nodes[i]
	node := Node{
		Index:             i,
		Name:              cmp.Or(spec.Name, NodeName(i)),
		Zone:              spec.Zone,
		KubernetesVersion: cmp.Or(spec.KubernetesVersion, c.Spec.KubernetesVersion),
		EtcdVersion:       cmp.Or(spec.EtcdVersion, c.Spec.EtcdVersion),
		ExtraArgs:         c.Spec.ExtraArgs.Merge(spec.ExtraArgs),
		Disk:              cmp.Or(spec.Disk, c.Spec.Disk),
	}
	if node.Zone == "" && c.Spec.Inventory == nil {
		node.Zone = string("abc"[i%3])
	}
	return node
}

// Nodes returns all nodes, resolved.
func (c *Cluster) Nodes() []Node {
	nodes := make([]Node, len(c.Spec.Nodes))
	for i := range nodes {
		nodes[i] = c.Node(i)
	}
	return nodes
}

// Runs reports whether a node may run a component. Only in an inventory do nodes differ: hosts of
// an external etcd run nothing else, and the others no member.
func (c *Cluster) Runs(node int, component framework.Component) bool {
	i := c.Spec.Inventory
	if i == nil || !i.ExternalEtcd() || node >= len(i.Spec.Nodes) {
		return true
	}
	return i.Spec.Nodes[node].EtcdOnly() == (component == framework.Etcd)
}

// Size returns the number of nodes by which scenarios are chosen: with an external etcd, that of
// its hosts or of the other nodes, whichever is greater.
func (c *Cluster) Size() int {
	hosts := 0
	for i := range c.Spec.Nodes {
		if !c.Runs(i, framework.APIServer) {
			hosts++
		}
	}
	return max(hosts, len(c.Spec.Nodes)-hosts)
}

// NodeName is the default name of the node with index i.
func NodeName(i int) string { return "node-" + strconv.Itoa(i+1) }
