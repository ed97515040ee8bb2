package clusters

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/yamlfile"
)

// InventoryKind is the kind of an inventory file.
const InventoryKind = "Inventory"

// Inventory describes a control plane that holdfast did not create: where its nodes and API
// servers are, and how to reach them.
type Inventory struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"`
	Metadata   Metadata      `json:"metadata"`
	Spec       InventorySpec `json:"spec"`
}

// InventorySpec specifies an inventory.
type InventorySpec struct {
	// Kubeconfig is the path of an administrator's kubeconfig. A relative path in a file is
	// relative to the file's directory, and an empty one means kubectl's default.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// Context is the kubeconfig's context; empty for the current one.
	Context string `json:"context,omitempty"`
	// LoadBalancer is what stands in front of the API servers.
	LoadBalancer InventoryBalancer `json:"loadBalancer,omitzero"`
	// Leases are as in the Spec of a Cluster.
	Leases map[framework.Component]framework.Election `json:"leases,omitempty"`
	// Distribution is the name of a distribution profile, or the path of one; empty or
	// "auto" to detect it on each node.
	Distribution string `json:"distribution,omitempty"`
	// SSH are arguments of ssh that precede the destination, such as -F and a file.
	SSH []string `json:"ssh,omitempty"`
	// Nodes are the control-plane nodes, followed by the hosts of an external etcd.
	Nodes []InventoryNode `json:"nodes"`
	// PowerFile is the inventory's own file, if nodes have power commands: those may have
	// passwords, so that plans do not contain them. See LoadPower.
	PowerFile string `json:"powerFile,omitempty" file:"-"`
}

// InventoryBalancer is a load balancer that holdfast did not create.
type InventoryBalancer struct {
	// Server is its URL; empty for the kubeconfig's server, unless that is an API server of the
	// inventory.
	Server string `json:"server,omitempty"`
	// HealthCheck is how it checks the API servers. It cannot be read from outside, and bounds
	// depend on it. If empty, the default of a Cluster is used.
	HealthCheck HealthCheck `json:"healthCheck,omitzero"`
}

// Role is what a machine of an inventory is for.
type Role string

const (
	// RoleControlPlane is that of a node with an API server, which may have an etcd member beside it.
	RoleControlPlane Role = "control-plane"
	// RoleEtcd is that of a host with an etcd member and without an API server. It need not be a
	// Node, nor have a kubelet.
	RoleEtcd Role = "etcd"
)

// InventoryNode is one control-plane node, or one host of an external etcd.
type InventoryNode struct {
	// Name is the node's host name, which the holders of leases also contain.
	Name string `json:"name"`
	// Address is the node's IP address on the cluster's network.
	Address netip.Addr `json:"address"`
	// Roles has one role; empty for a control-plane node.
	Roles []Role `json:"roles,omitempty"`
	// APIServer is host:port of the API server; port 6443 of the address if empty.
	APIServer string `json:"apiServer,omitempty"`
	// Zone is the fault domain; empty for that of the Node object, if it has one.
	Zone string `json:"zone,omitempty"`
	// SSH is the destination for ssh, such as root@10.0.0.11; empty if the node cannot be
	// reached.
	SSH string `json:"ssh,omitempty"`
	// Power cuts and restores the node's power; nil if it stays on.
	Power *InventoryPower `json:"-" file:"power"`
}

// InventoryPower are the owner's commands for the power of a node. They run on this machine, by
// sh, with the node's name and address in HOLDFAST_NODE and HOLDFAST_ADDRESS.
type InventoryPower struct {
	// Off cuts the power: the node does not shut down first. On restores it. Both do nothing if
	// that is so already.
	Off string `json:"off"`
	On  string `json:"on"`
	// Status prints on or off in its first line, and changes nothing.
	Status string `json:"status"`
}

// EtcdOnly reports whether the machine has an etcd member and no API server.
func (n InventoryNode) EtcdOnly() bool { return slices.Contains(n.Roles, RoleEtcd) }

// ExternalEtcd reports whether etcd runs on hosts of its own.
func (i *Inventory) ExternalEtcd() bool {
	return slices.ContainsFunc(i.Spec.Nodes, InventoryNode.EtcdOnly)
}

func (i *Inventory) etcdHosts() []InventoryNode {
	return slices.DeleteFunc(slices.Clone(i.Spec.Nodes), func(n InventoryNode) bool { return !n.EtcdOnly() })
}

// apiServerPort is the API servers' port unless an inventory overrides it.
const apiServerPort = 6443

// Server returns host:port of the node's API server.
func (n InventoryNode) Server() string {
	if n.APIServer != "" {
		return n.APIServer
	}
	return net.JoinHostPort(n.Address.String(), strconv.Itoa(apiServerPort))
}

// On returns the node with its API server on a port of its address; 0 for the default port.
func (n InventoryNode) On(port int32) InventoryNode {
	if port != 0 && port != apiServerPort {
		n.APIServer = net.JoinHostPort(n.Address.String(), strconv.Itoa(int(port)))
	}
	return n
}

// Reachable reports whether the nodes can be reached over SSH.
func (i *Inventory) Reachable() bool { return i.Spec.Nodes[0].SSH != "" }

// InputError is the error for a name, an inventory or its kubeconfig that cannot be used: nothing
// was touched.
type InputError struct{ Err error }

func (e *InputError) Error() string { return e.Err.Error() }

func (e *InputError) Unwrap() error { return e.Err }

// LoadInventory reads an inventory file. Errors contain file, line, and the allowed values; those of
// the file are an *InputError.
func LoadInventory(path string) (*Inventory, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, &InputError{fmt.Errorf("failed to read the inventory: %w", err)}
	}
	i, err := ParseInventory(path, data)
	if err != nil {
		return nil, &InputError{err}
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("failed to find the directory of %s: %w", path, err)
	}
	for _, file := range []*string{&i.Spec.Kubeconfig, &i.Spec.Distribution} {
		if *file != "" && (file == &i.Spec.Kubeconfig || filepath.Base(*file) != *file) && !filepath.IsAbs(*file) {
			*file = filepath.Join(dir, *file)
		}
	}
	if slices.ContainsFunc(i.Spec.Nodes, InventoryNode.powered) {
		i.Spec.PowerFile = filepath.Join(dir, filepath.Base(path))
	}
	return i, nil
}

func (n InventoryNode) powered() bool { return n.Power != nil }

// LoadPower reads the power commands of the nodes again, if the inventory lacks them because it
// comes from a plan.
func (i *Inventory) LoadPower() error {
	if i.Spec.PowerFile == "" || slices.ContainsFunc(i.Spec.Nodes, InventoryNode.powered) {
		return nil
	}
	from, err := LoadInventory(i.Spec.PowerFile)
	if err != nil {
		return fmt.Errorf("failed to read the power commands: %w", err)
	}
	for j, n := range i.Spec.Nodes {
		if at := slices.IndexFunc(from.Spec.Nodes, func(o InventoryNode) bool { return o.Name == n.Name }); at >= 0 {
			i.Spec.Nodes[j].Power = from.Spec.Nodes[at].Power
		}
	}
	return nil
}

// ParseInventory reads an inventory from memory; errors call it name. The returned inventory is
// valid.
func ParseInventory(name string, data []byte) (*Inventory, error) {
	i := &Inventory{}
	where, err := parse(name, "an "+InventoryKind, data, i, map[string]yamlfile.Rule{
		"":                   {Required: []string{"apiVersion", "kind", "metadata", "spec"}},
		"metadata":           {Required: []string{"name"}},
		"spec":               {Required: []string{"nodes"}},
		"spec.nodes[]":       {Required: []string{"name", "address"}},
		"spec.nodes[].power": {Required: []string{"off", "on", "status"}},
	})
	if err != nil {
		return nil, err
	}
	v := &validator{where: where}
	v.inventory(i)
	// Numbers of nodes, as in node/1, count the control-plane nodes first.
	i.Spec.Nodes = append(slices.DeleteFunc(slices.Clone(i.Spec.Nodes), InventoryNode.EtcdOnly), i.etcdHosts()...)
	return i, errors.Join(v.found...)
}

// hostname is a DNS subdomain, like the names of Nodes.
var hostname = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)

// maxRemoteNodes bounds the nodes of an inventory, of either role: etcd is not meant for more
// members.
const maxRemoteNodes = 9

func (v *validator) inventory(i *Inventory) {
	if i.APIVersion != APIVersion {
		v.problem("apiVersion", "is %q: want %s", i.APIVersion, APIVersion)
	}
	if i.Kind != InventoryKind {
		v.problem("kind", "is %q: want %s", i.Kind, InventoryKind)
	}
	v.name("metadata.name", i.Metadata.Name)
	if server := i.Spec.LoadBalancer.Server; server != "" {
		if u, err := url.Parse(server); err != nil || u.Scheme != "https" || u.Host == "" {
			v.problem("spec.loadBalancer.server", "is %q: want a URL such as https://10.0.0.10:6443", server)
		}
	}
	if i.Spec.LoadBalancer.HealthCheck != (HealthCheck{}) {
		v.healthCheck("spec.loadBalancer.healthCheck", i.Spec.LoadBalancer.HealthCheck)
	}
	v.leases(i.Spec.Leases)
	hosts := len(i.etcdHosts())
	if n := len(i.Spec.Nodes) - hosts; n < 1 || n > maxRemoteNodes {
		v.problem("spec.nodes", "has %d nodes: want 1 to %d control-plane nodes", n, maxRemoteNodes)
	}
	if hosts > maxRemoteNodes {
		v.problem("spec.nodes", "has %d nodes with the role %s: want %d at most", hosts, RoleEtcd, maxRemoteNodes)
	}
	seen := map[string]string{}
	for j, n := range i.Spec.Nodes {
		path := fmt.Sprintf("spec.nodes[%d]", j)
		if !hostname.MatchString(n.Name) || len(n.Name) > 253 {
			v.problem(path+".name", "is %q: want a host name in lower case", n.Name)
		} else {
			v.notReserved(path+".name", n.Name)
		}
		if !n.Address.IsValid() {
			v.problem(path+".address", "is missing")
		}
		v.roles(path, n)
		if n.APIServer != "" {
			if host, port, err := net.SplitHostPort(n.APIServer); err != nil || host == "" || !isPort(port) {
				v.problem(path+".apiServer", "is %q: want HOST:PORT", n.APIServer)
			}
		}
		if (n.SSH == "") != (i.Spec.Nodes[0].SSH == "") {
			v.problem(path, "and nodes[0] differ in ssh: give all nodes a destination, or none")
		}
		if len(n.SSH) > 0 && n.SSH[0] == '-' {
			v.problem(path+".ssh", "is %q: want a destination such as root@10.0.0.11", n.SSH)
		}
		if n.Power != nil {
			v.power(path, n)
		}
		for _, unique := range []string{"name " + n.Name, "address " + n.Address.String(), "API server " + n.Server(), "ssh " + n.SSH} {
			if unique == "ssh " || n.EtcdOnly() && strings.HasPrefix(unique, "API") {
				continue
			}
			if first := seen[unique]; first != "" {
				v.problem(path, "and %s both have the %s", first, unique)
			} else {
				seen[unique] = path
			}
		}
	}
}

func (v *validator) roles(path string, n InventoryNode) {
	for _, r := range n.Roles {
		if r != RoleControlPlane && r != RoleEtcd {
			v.problem(path+".roles", "has %q: want %s or %s", r, RoleControlPlane, RoleEtcd)
			return
		}
	}
	switch {
	case len(n.Roles) > 1:
		v.problem(path+".roles", "has %d roles: want one, [%s] for a node with an API server, with or without a member of etcd, or [%s] for a host with a member alone", len(n.Roles), RoleControlPlane, RoleEtcd)
	case n.EtcdOnly() && n.APIServer != "":
		v.problem(path+".apiServer", "is %q, and the role of the node is %s: leave out one of them", n.APIServer, RoleEtcd)
	}
}

func (v *validator) power(path string, n InventoryNode) {
	if n.SSH == "" {
		v.problem(path+".power", "needs ssh: a run waits until the node answers again")
	}
	for _, one := range []struct{ name, command string }{{"off", n.Power.Off}, {"on", n.Power.On}, {"status", n.Power.Status}} {
		if strings.TrimSpace(one.command) == "" {
			v.problem(path+".power."+one.name, "is empty: want a command")
		}
	}
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}
