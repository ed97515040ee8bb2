package pki

import (
	"slices"

	"github.com/holdfast-ha/holdfast/framework"
)

// At returns the PKI of a node at a stage of the replacement of the CAs by the new ones.
//
// The key of service accounts that signs no more tokens verifies them at the last stage, too:
// those that it signed are valid until they expire, and the client that requested a token chose
// for how long. The same holds for the new key at the first stage, if the replacement was undone
// after a node signed with it.
func (p *PKI) At(stage framework.TrustStage) *PKI {
	at := *p
	at.authorities, at.trusted, at.clients = p.old, authorities{}, authorities{}
	switch stage {
	case framework.TrustOld:
		if p.nextSigns.Load() {
			at.trusted.serviceAccount = p.next.serviceAccount
		}
	case framework.TrustBoth:
		at.trusted = p.next
	case framework.TrustBothUseNew:
		at.authorities, at.trusted = p.next, p.old
	case framework.TrustNew:
		at.authorities = p.next
		at.trusted.serviceAccount = p.old.serviceAccount
	}
	return &at
}

// OneTokenKey is At without the key of service accounts that only verifies tokens: a violation
// to plant.
func (p *PKI) OneTokenKey(stage framework.TrustStage) *PKI {
	at := p.At(stage)
	at.trusted.serviceAccount = nil
	return at
}

// Untrusted returns the PKI of a node that was given the new CA of Kubernetes without a period
// of trusting both: a violation to plant.
func (p *PKI) Untrusted() *PKI {
	at := p.At(framework.TrustOld)
	at.kubernetes = p.next.kubernetes
	return at
}

// Lasting returns the PKI of clients that need not change when the CAs are replaced: they trust the
// old and the new CAs, and CAs of their own sign for them. An API server verifies a client's
// certificate at each request, against every certificate that may have signed it: there is one.
func (p *PKI) Lasting() *PKI {
	at := p.At(framework.TrustBoth)
	at.clients = p.lasting
	return at
}

// both returns the certificates of a CA and of another one, if there is one.
func both(a, other *Authority) []byte {
	if other == nil {
		return a.certPEM
	}
	return slices.Concat(a.certPEM, other.certPEM)
}

// Signer returns the name of the CA that signs for Kubernetes.
func (p *PKI) Signer() string { return p.kubernetes.cert.Subject.CommonName }

// EtcdSigner returns the name of the CA that signs for etcd.
func (p *PKI) EtcdSigner() string { return p.etcd.cert.Subject.CommonName }

// FrontProxySigner returns the name of the CA that signs for front proxies.
func (p *PKI) FrontProxySigner() string { return p.frontProxy.cert.Subject.CommonName }

// Trusted returns the names of the trusted CAs.
func (p *PKI) Trusted() string {
	if p.trusted.kubernetes == nil {
		return p.Signer()
	}
	return p.Signer() + " and " + p.trusted.kubernetes.cert.Subject.CommonName
}
