package framework

import (
	"context"
	"crypto/tls"
	"net"
)

// EndpointLister is the ability of a node to tell where its components serve,
// so that a component can be looked at without going through any other.
type EndpointLister interface {
	// ServingEndpoints returns every place where a component serves TLS.
	ServingEndpoints(c Component) ([]ServingEndpoint, error)
}

// ServingEndpoint is a place where a component serves TLS.
type ServingEndpoint struct {
	// Name tells the endpoints of a component apart, such as "peer".
	Name string
	// Address is host:port as the harness reaches it.
	Address string
	// TLS verifies the component's certificate against the cluster's
	// authority, and carries a client certificate where one is asked for.
	// Callers copy it before they change it.
	TLS *tls.Config
	// Names are names and addresses that its certificate must carry.
	Names []string
	// Path is one that answers a GET over HTTP, with any status; empty for
	// none.
	Path string
	// Dial opens a connection to Address; nil for TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}
