package framework

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// AuditReader is the ability of a node to hand out the audit log of its API
// server: who asked it for what, and what came of it.
type AuditReader interface {
	// FollowAudit hands over every entry that comes after the call, in the log's
	// order, until ctx ends; then it returns nil. An entry is an Event of
	// audit.k8s.io/v1 as JSON, valid until the function returns. One of a log that
	// is rotated meanwhile is not lost.
	FollowAudit(ctx context.Context, entry func([]byte)) error
}

// AuditSupporter is the ability of an AuditReader to say that its API server has no audit log.
type AuditSupporter interface {
	// AuditSupport returns nil if the API server writes an audit log, and otherwise why not.
	AuditSupport() error
}

// BackendReporter is the ability of a cluster to tell how its load balancer sees
// its backends.
type BackendReporter interface {
	// Backends asks the balancer for the state of all of its backends; none where
	// the cluster has no balancer. One that has no way to tell is errors.ErrUnsupported.
	Backends(ctx context.Context) ([]Backend, error)
}

// Backend is a load balancer's view of one of its backends.
type Backend struct {
	Name    string `json:"name"`
	Address string `json:"address,omitempty"`
	Up      bool   `json:"up"`
	// Standby says that it is not up by design: another one has the address that moves,
	// and this one is there to take it over.
	Standby bool `json:"standby,omitempty"`
	// Since is when Up last changed, to the second at worst.
	Since time.Time `json:"since"`
	// Check is the outcome of the last check, in the balancer's own words.
	Check string `json:"check,omitempty"`
}

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
