package framework

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"time"
)

// AuditReader is the ability of a node to provide the audit log of its API server: who requested
// what, and the response.
type AuditReader interface {
	// FollowAudit passes every entry after the call to entry, in the log's order, until ctx ends;
	// then it returns nil. An entry is an Event of audit.k8s.io/v1 as JSON, valid until the
	// function returns. No entry is lost when the log is rotated.
	FollowAudit(ctx context.Context, entry func([]byte)) error
}

// AuditSupporter is the ability of an AuditReader to report that its API server has no audit log.
type AuditSupporter interface {
	// AuditSupport returns nil if the API server writes an audit log, and otherwise why not.
	AuditSupport() error
}

// BackendReporter is the ability of a cluster to report how its load balancer sees its backends.
type BackendReporter interface {
	// Backends queries the balancer for the state of all of its backends, up or not; none if the
	// cluster has no balancer. An API server that was taken out of it, before its node is removed,
	// is not one of them. A balancer that cannot report it is errors.ErrUnsupported.
	Backends(ctx context.Context) ([]Backend, error)
}

// Backend is a load balancer's view of one of its backends.
type Backend struct {
	Name    string `json:"name"`
	Address string `json:"address,omitempty"`
	Up      bool   `json:"up"`
	// Standby reports that it is not up by design: another node has the virtual IP, and this one
	// is there to take it over.
	Standby bool `json:"standby,omitempty"`
	// Holder reports that it has the virtual IP.
	Holder bool `json:"holder,omitempty"`
	// Since is when Up last changed, to the second at worst.
	Since time.Time `json:"since"`
	// Check is the outcome of the last check, in the balancer's own words.
	Check string `json:"check,omitempty"`
}

// EndpointLister is the ability of a node to report where its components serve, so that a
// component can be checked without going through another.
type EndpointLister interface {
	// ServingEndpoints returns every address at which a component serves TLS.
	ServingEndpoints(c Component) ([]ServingEndpoint, error)
}

// EtcdListener is the ability of a node to report where its etcd member listens apart from its
// serving endpoints.
type EtcdListener interface {
	// FurtherListeners returns every other port of the node's address on which the member listens for
	// clients or for peers, named "client" or "peer", without a configuration of TLS: it may serve
	// in plaintext.
	FurtherListeners() []ServingEndpoint
}

// ServingEndpoint is an address at which a component serves TLS.
type ServingEndpoint struct {
	// Name distinguishes the endpoints of a component, such as "peer".
	Name string
	// Address is host:port as the harness reaches it.
	Address string
	// TLS verifies the component's certificate against the cluster's CA, and has a client
	// certificate if one is required. Callers copy it before they change it.
	TLS *tls.Config
	// Names are names and addresses that its certificate must carry.
	Names []string
	// Path is one that answers a GET over HTTP, with any status; empty for
	// none.
	Path string
	// Dial opens a connection to Address; nil for TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Connect opens a connection to the endpoint, without TLS. Only ctx limits how long that takes.
func (e ServingEndpoint) Connect(ctx context.Context) (net.Conn, error) {
	if e.Dial == nil {
		e.Dial = new(net.Dialer).DialContext
	}
	return e.Dial(ctx, "tcp", e.Address)
}

// Chain returns the certificates that the endpoint serves with, its own first. It does not verify
// them. The handshake uses the client certificate of TLS. Only ctx limits how long it takes.
func (e ServingEndpoint) Chain(ctx context.Context) ([]*x509.Certificate, error) {
	config := e.TLS.Clone()
	config.InsecureSkipVerify = true // the caller may want one that does not verify
	return e.handshake(ctx, config)
}

// VerifiedChain is Chain of an endpoint whose certificate verifies for the ServerName of TLS or else
// the host of Address.
func (e ServingEndpoint) VerifiedChain(ctx context.Context) ([]*x509.Certificate, error) {
	config := e.TLS.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(e.Address)
	}
	return e.handshake(ctx, config)
}

func (e ServingEndpoint) handshake(ctx context.Context, config *tls.Config) ([]*x509.Certificate, error) {
	conn, err := e.Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	client := tls.Client(conn, config)
	if err := client.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	chain := client.ConnectionState().PeerCertificates
	if len(chain) == 0 {
		return nil, errors.New("it showed no certificate")
	}
	return chain, nil
}
