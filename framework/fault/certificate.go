package fault

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// badCertificate is a certificate defect that makes clients reject it.
type badCertificate struct {
	defect framework.CertificateDefect
	// is reports whether that defect made the verification fail.
	is func(err error) bool
	// forgive ignores the defect: everything else must verify.
	forgive func(leaf *x509.Certificate, o *x509.VerifyOptions)
}

// onCertificates completes a fault that makes a component serve with bad certificates.
func onCertificates(f *Fault, bad badCertificate) *Fault {
	f.Summary += "; existing connections stay open, and clients that verify certificates refuse new ones"
	f.Targets = []string{"etcd", "apiserver"}
	f.Needs = []string{"CertificateFaulter", "EndpointLister", "ProcessReporter", "EtcdAccess (for etcd)"}
	f.Example = "apiserver/2"
	f.Effects = does(record.EffectCertificate)
	f.takes = func(Request) time.Duration { return reloadLimit }
	f.Prepare = func(r Request) (Inject, error) {
		x, err := bad.of(r)
		return x.inject, err
	}
	return f
}

// certificates are those of one component.
type certificates struct {
	badCertificate
	fault     string
	ttl       time.Duration
	cluster   framework.Cluster
	target    Target
	proc      process
	faulter   framework.CertificateFaulter
	endpoints []framework.ServingEndpoint
}

// of returns the certificates of the request.
func (b badCertificate) of(r Request) (x *certificates, err error) {
	x = &certificates{badCertificate: b, fault: r.Fault.Name, ttl: r.TTL, cluster: r.Cluster, target: r.Target}
	if x.faulter, err = onTarget[framework.CertificateFaulter](r); err != nil {
		return x, err
	}
	lister, err := onTarget[framework.EndpointLister](r)
	if err != nil {
		return x, err
	}
	if x.endpoints, err = lister.ServingEndpoints(r.Target.Component); err != nil {
		return x, err
	}
	// Without a name to verify there would be nothing to prove.
	if len(x.endpoints) == 0 || slices.ContainsFunc(x.endpoints, func(e framework.ServingEndpoint) bool { return len(e.Names) == 0 }) {
		return x, fmt.Errorf("target %s: node %s does not report its serving address, or the names of its certificate", r.Target.Asked, r.Target.Node)
	}
	x.proc, err = r.process()
	return x, err
}

func (x *certificates) inject(ctx context.Context) (Injection, error) {
	t := x.target
	if good, seen := x.good(ctx); !good {
		return notInjected(t, "%s, so a bad certificate would prove nothing", seen), nil
	}
	return attempt{
		target: t,
		what:   x.fault + " of " + t.String(),
		ask: func(ctx context.Context) error {
			err := x.faulter.SpoilCertificates(ctx, t.Component, x.defect, x.ttl)
			return unsupported(err, "CertificateFaulter", "node "+t.Node, "fault "+x.fault)
		},
		effect: x.bad,
		undo:   func(ctx context.Context) error { return x.faulter.RestoreCertificates(ctx, t.Component) },
		healed: x.proc.orHeld(all(x.good, x.answers)),
		// After the time to live, waiting is pointless.
		patience: max(effectLimit, min(reloadLimit, x.ttl)),
		settles:  reloadLimit,
	}.oneRequest().injection(ctx)
}

// reloadLimit is how long a component may serve with the old certificate: an API server that
// misses the change of the file checks again after a minute.
const reloadLimit = 70 * time.Second

// good checks whether every endpoint serves with a certificate that verifies.
func (x *certificates) good(ctx context.Context) (bool, string) {
	return x.each(ctx, func(e framework.ServingEndpoint, chain []*x509.Certificate) (bool, string) {
		for _, name := range e.Names {
			if err := verifyChain(e, chain, name, nil); err != nil {
				return false, fmt.Sprintf("serves with a certificate that does not verify: %v", err)
			}
		}
		return true, fmt.Sprintf("serves with a certificate that verifies for %s (serial %x)", strings.Join(e.Names, ", "), chain[0].SerialNumber)
	})
}

// bad checks whether every endpoint serves with a certificate that has the defect
// and no other.
func (x *certificates) bad(ctx context.Context) (bool, string) {
	return x.each(ctx, func(e framework.ServingEndpoint, chain []*x509.Certificate) (bool, string) {
		var words error
		for _, name := range e.Names {
			err := verifyChain(e, chain, name, nil)
			if err == nil {
				return false, fmt.Sprintf("serves with a certificate that verifies for %s", name)
			}
			if !x.is(err) {
				return false, fmt.Sprintf("serves with a certificate that fails in another way: %v", err)
			}
			if err := verifyChain(e, chain, name, x.forgive); err != nil {
				return false, fmt.Sprintf("serves with a certificate that fails in more than one way: %v", err)
			}
			words = err
		}
		return true, fmt.Sprintf("serves with a certificate that clients refuse: %v", words)
	})
}

// each checks what every endpoint serves with.
func (x *certificates) each(ctx context.Context, l func(framework.ServingEndpoint, []*x509.Certificate) (bool, string)) (bool, string) {
	var words []string
	for _, e := range x.endpoints {
		limited, cancel := context.WithTimeout(ctx, tryLimit)
		chain, err := quickly(e).Chain(limited)
		cancel()
		if err != nil {
			return false, fmt.Sprintf("%s gives no certificate on its %s port: %v", x.target.String(), e.Name, err)
		}
		held, seen := l(e, chain)
		words = append(words, fmt.Sprintf("%s on its %s port %s", x.target.String(), e.Name, seen))
		if !held {
			return false, words[len(words)-1]
		}
	}
	return true, strings.Join(words, "; ")
}

// answers checks whether clients that verify the component are served.
func (x *certificates) answers(ctx context.Context) (bool, string) {
	answer, err := componentAnswers(x.cluster, x.target.Node, x.target.Component)
	if err != nil {
		return false, err.Error()
	}
	return answer(ctx)
}

// quickly returns the endpoint, with dialLimit for its connections over TCP.
func quickly(e framework.ServingEndpoint) framework.ServingEndpoint {
	if e.Dial == nil {
		e.Dial = (&net.Dialer{Timeout: dialLimit}).DialContext
	}
	return e
}

// verifyChain verifies what an endpoint serves with as a client that uses a name does, except for
// what forgive ignores.
func verifyChain(e framework.ServingEndpoint, chain []*x509.Certificate, name string, forgive func(*x509.Certificate, *x509.VerifyOptions)) error {
	o := x509.VerifyOptions{Roots: e.TLS.RootCAs, DNSName: name, Intermediates: x509.NewCertPool()}
	for _, c := range chain[1:] {
		o.Intermediates.AddCert(c)
	}
	if forgive != nil {
		forgive(chain[0], &o)
	}
	_, err := chain[0].Verify(o)
	return err
}
