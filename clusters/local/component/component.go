// Package component builds the command lines of control plane processes: pure functions from a
// node's configuration to a command line and its files.
//
// Everything speaks TLS. Each API server talks to its own node's etcd member
// only, the controller manager and the scheduler to their own node's API
// server, through which they elect a leader. Extra arguments replace the flags
// given here by name, or are added.
//
// The test TestControlPlane starts a real control plane when
// HOLDFAST_TEST_KUBERNETES_DIR names a directory that holds kube-apiserver,
// kube-controller-manager and kube-scheduler.
package component

import (
	"maps"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
)

// Ports of the components, the same on every node.
const (
	APIServerPort         = 6443
	EtcdClientPort        = 2379
	EtcdPeerPort          = 2380
	etcdMetricsPort       = 2381
	ControllerManagerPort = 10257
	SchedulerPort         = 10259
	kwokPort              = 10247
)

// auditLog is the name of the audit log in Node.Logs.
const auditLog = "audit.log"

// Command is a process to be run.
type Command struct {
	Component framework.Component
	// Binary is the name of the binary, without a directory: kube-apiserver.
	Binary string
	// Args are the arguments without the binary itself.
	Args []string
	// Files must be there before the start: absolute path to content. They
	// hold no keys.
	Files map[string][]byte
	// Dirs must be there before the start, with mode 0700.
	Dirs []string
	// StartAfter is a component of the same node; the first start waits for its Health; empty
	// for none. An elected component that starts before its API server is ready fails, and
	// retries only 2 to 4.4 s later (the retry period with its jitter). It only saves time:
	// after a while the component should be started anyway, and a restart need not wait.
	StartAfter framework.Component
	// Health is a URL on the node that answers 200, without a client
	// certificate, once the component does its work. An https one has a
	// certificate of the Kubernetes CA.
	Health string
}

// Member is an etcd member.
type Member struct {
	Name    string
	Address netip.Addr
}

// Node is a control-plane node as its command lines need it.
type Node struct {
	// Cluster is the cluster's name.
	Cluster string
	Name    string
	Address netip.Addr
	// PKI is the directory that pki.WriteNode filled.
	PKI string
	// Config is a directory for small configuration files.
	Config string
	// Data is etcd's data directory.
	Data string
	// Logs is the directory of the audit log.
	Logs string
	// Members are all etcd members that start the cluster, or, if Existing is set, all current
	// members; both include this node's.
	Members []Member
	// Existing says that etcd joins an existing cluster. An etcd that finds its data ignores
	// it, so a restart needs no change.
	Existing bool
	// ExtraArgs replace or add arguments.
	ExtraArgs clusters.ExtraArgs
	// OnlyNodeAddress makes everything listen on Address alone, so that
	// several nodes can share a network namespace.
	OnlyNodeAddress bool
}

// Commands returns all commands of a control-plane node, in start order.
func Commands(n Node) []Command {
	return []Command{etcd(n), apiServer(n), controllerManager(n), scheduler(n)}
}

// APIServerURL is the URL of a node's API server.
func APIServerURL(address netip.Addr) string { return url("https", address, APIServerPort) }

// EtcdURL is the client URL of a node's etcd member.
func EtcdURL(address netip.Addr) string { return url("https", address, EtcdClientPort) }

func url(scheme string, address netip.Addr, port int) string {
	return scheme + "://" + net.JoinHostPort(address.String(), strconv.Itoa(port))
}

func (n Node) pki(name string) string { return filepath.Join(n.PKI, name) }

// bind is the address that components listen on.
func (n Node) bind() string {
	switch {
	case n.OnlyNodeAddress:
		return n.Address.String()
	case n.Address.Is6():
		return "::"
	default:
		return "0.0.0.0"
	}
}

// loopback is the address of servers that only the node itself uses.
func (n Node) loopback() netip.Addr {
	switch {
	case n.OnlyNodeAddress:
		return n.Address
	case n.Address.Is6():
		return netip.IPv6Loopback()
	default:
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
}

// serviceCIDR is the range of service addresses.
const serviceCIDR = "10.96.0.0/16"

// flags are a component's arguments by name, sorted when they are written.
type flags map[string]string

// args merges extra arguments into the flags.
func (f flags) args(extra map[string]string) []string {
	merged := maps.Clone(f)
	maps.Copy(merged, extra)
	args := make([]string, 0, len(merged))
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		args = append(args, "--"+name+"="+merged[name])
	}
	return args
}
