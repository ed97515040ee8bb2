package framework

import (
	"context"
	"time"
)

// CertificateFaulter is the ability of a node to serve with certificates that
// clients must refuse.
type CertificateFaulter interface {
	// SpoilCertificates puts defective certificates in place of those that a
	// component serves with, until RestoreCertificates or until ttl has
	// passed, also across a loss of power. The component takes them up by
	// itself; connections that are open stay. It refuses a component whose
	// certificates are spoilt already.
	SpoilCertificates(ctx context.Context, c Component, d CertificateDefect, ttl time.Duration) error
	// RestoreCertificates puts the component's own certificates back; it does
	// nothing where they are in place.
	RestoreCertificates(ctx context.Context, c Component) error
}

// CertificateDefect is what is wrong with a certificate. In everything else it
// is like the one whose place it takes.
type CertificateDefect string

const (
	// CertificateExpired is one whose time has passed.
	CertificateExpired CertificateDefect = "expired"
	// CertificateWrongNames is one that names neither the node, nor the
	// balancer, nor any of their addresses.
	CertificateWrongNames CertificateDefect = "wrong-names"
	// CertificateNoBalancerName is one that does not carry the balancer's name. It
	// carries its address: only clients that come by the name must refuse it.
	CertificateNoBalancerName CertificateDefect = "no-balancer-name"
	// CertificateUntrusted is one of a new authority that nobody trusts.
	CertificateUntrusted CertificateDefect = "untrusted"
)
