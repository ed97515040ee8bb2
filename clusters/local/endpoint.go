package local

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local/component"
	"github.com/holdfast-ha/holdfast/clusters/local/pki"
	"github.com/holdfast-ha/holdfast/framework"
)

// ServingEndpoints implements framework.EndpointLister.
func (n *node) ServingEndpoints(c framework.Component) ([]framework.ServingEndpoint, error) {
	address := n.Address().String()
	at := func(name string, port int, config *tls.Config, path string) framework.ServingEndpoint {
		return framework.ServingEndpoint{Name: name, Address: hostPort(n.Address(), port), TLS: config, Names: []string{address}, Path: path}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(n.cluster.lasting.CA())
	kubernetes := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	switch c {
	case framework.APIServer:
		e := at("https", component.APIServerPort, kubernetes, "/livez")
		if n.cluster.spec.Spec.LoadBalancer.Kind != clusters.BalancerNone {
			e.Names = append(e.Names, host(balancerHost).Addr().String(), pki.BalancerName(n.cluster.Name()))
		}
		return []framework.ServingEndpoint{e}, nil
	case framework.ControllerManager:
		return []framework.ServingEndpoint{at("https", component.ControllerManagerPort, kubernetes, "/healthz")}, nil
	case framework.Scheduler:
		return []framework.ServingEndpoint{at("https", component.SchedulerPort, kubernetes, "/healthz")}, nil
	case framework.Etcd:
		return []framework.ServingEndpoint{
			at("client", component.EtcdClientPort, n.cluster.etcdTLS.TLS, "/version"),
			at("peer", component.EtcdPeerPort, n.cluster.etcdTLS.TLS, ""),
		}, nil
	}
	return nil, fmt.Errorf("node %s has no %s that serves TLS", n.Name(), c)
}

// FurtherListeners implements framework.EtcdListener.
func (n *node) FurtherListeners() []framework.ServingEndpoint {
	n.mu.Lock()
	args := n.spec.ExtraArgs.Merge(n.reconfigured)[framework.Etcd]
	n.mu.Unlock()
	serving, _ := n.ServingEndpoints(framework.Etcd) // never an error
	return clusters.FurtherListeners(n.Address(), func(flag string) string { return args[flag] }, serving)
}
