package fault

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-ha/holdfast/framework"
)

// protocol is what components of the control plane speak on a port of its own.
type protocol struct {
	component framework.Component
	endpoint  string // its name among the component's framework.ServingEndpoints
	usual     uint16 // its port on a node that does not report another
}

// Protocols of the control plane.
var (
	etcdPeer   = protocol{framework.Etcd, "peer", 2380}
	etcdClient = protocol{framework.Etcd, "client", 2379}
	apiServer  = protocol{framework.APIServer, "https", 6443}
)

// EtcdPeerPort is the port on which the etcd member of a node serves the others.
func EtcdPeerPort(n framework.Node) uint16 { return etcdPeer.port(n) }

// on returns the ports on which nodes serve a protocol.
func (p protocol) on(nodes ...framework.Node) []uint16 {
	var ports []uint16
	for _, n := range nodes {
		if slices.Contains(n.Components(), p.component) {
			ports = append(ports, p.port(n))
		}
	}
	if len(ports) == 0 {
		return []uint16{p.usual}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

func (p protocol) port(n framework.Node) uint16 {
	lister, ok := n.(framework.EndpointLister)
	if !ok {
		return p.usual
	}
	endpoints, err := lister.ServingEndpoints(p.component)
	i := slices.IndexFunc(endpoints, func(e framework.ServingEndpoint) bool { return e.Name == p.endpoint })
	if err != nil || i < 0 {
		return p.usual
	}
	_, text, _ := net.SplitHostPort(endpoints[i].Address)
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return p.usual
	}
	return uint16(port)
}

// portList are the protocols to which links are narrowed, of which those without a component are
// numbers of ports; none means all.
type portList struct {
	given     bool
	protocols []protocol
}

// on returns the ports of a cluster's nodes.
func (l portList) on(c framework.Cluster) []uint16 {
	var ports []uint16
	for _, p := range l.protocols {
		ports = append(ports, p.on(c.Nodes()...)...)
	}
	return ports
}

func parsePorts(v string) (portList, bool) {
	switch v {
	case "":
		return portList{}, true
	case "all":
		return portList{given: true}, true
	}
	named := map[string]protocol{"etcd-peer": etcdPeer, "etcd-client": etcdClient, "apiserver": apiServer}
	list := portList{given: true}
	for word := range strings.SplitSeq(v, ",") {
		word = strings.TrimSpace(word)
		p, ok := named[word]
		if !ok {
			port, err := strconv.ParseUint(word, 10, 16)
			if err != nil || port == 0 {
				return portList{}, false
			}
			p.usual = uint16(port)
		}
		list.protocols = append(list.protocols, p)
	}
	return list, true
}
