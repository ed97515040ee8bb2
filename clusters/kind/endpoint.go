package kind

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/framework"
)

var (
	_ framework.EndpointLister   = (*node)(nil)
	_ framework.ProgramVersioner = (*node)(nil)
)

// ProgramVersion implements framework.ProgramVersioner: the file that the process runs prints its
// version.
func (n *node) ProgramVersion(ctx context.Context, c framework.Component) (string, error) {
	p, err := n.Process(ctx, c)
	if err != nil {
		return "", err
	}
	if p.PID == 0 {
		return "", fmt.Errorf("%s is not running on %s", c, n.name)
	}
	out, err := n.docker(ctx, "exec", n.name, "sh", "-c", agent.AskVersion(c, p.PID))
	if err != nil {
		return "", fmt.Errorf("failed to ask %s on %s for its version: %w", c, n.name, err)
	}
	return agent.ParseVersion(out)
}

// ServingEndpoints implements framework.EndpointLister. Controller manager and scheduler serve
// only on the node's loopback, kubeadm's default.
func (n *node) ServingEndpoints(c framework.Component) ([]framework.ServingEndpoint, error) {
	at := func(name, port string, config *tls.Config, path string) framework.ServingEndpoint {
		return framework.ServingEndpoint{Name: name, Address: net.JoinHostPort(n.address.String(), port), TLS: config,
			Names: []string{n.address.String()}, Path: path}
	}
	switch c {
	case framework.APIServer:
		e := at("https", apiServerPort, n.cluster.apiTLS, "/livez")
		if b := n.cluster.balancer; b != nil {
			e.Names = append(e.Names, b.name)
			if !n.cluster.foreign {
				e.Names = append(e.Names, b.address.String())
			}
		}
		return []framework.ServingEndpoint{e}, nil
	case framework.Etcd:
		return []framework.ServingEndpoint{
			at("client", etcdPort, n.cluster.etcdTLS, "/version"),
			at("peer", etcdPeerPort, n.cluster.etcdTLS, ""),
		}, nil
	}
	return nil, fmt.Errorf("node %s has no %s that serves TLS to others", n.name, c)
}
