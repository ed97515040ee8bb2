package pki

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// At returns the PKI of a node at a stage of the replacement of the CAs by the prepared new
// ones.
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

// Unprepared returns the PKI of a node that was given the new CA of Kubernetes without a period
// of trusting both: a violation to plant.
func (p *PKI) Unprepared() *PKI {
	at := p.At(framework.TrustOld)
	at.kubernetes = p.next.kubernetes
	return at
}

// Prepared returns the PKI of clients that need not change when the CAs are replaced: they
// trust the old and the new CAs, and their certificates come from an intermediate CA that both
// have signed.
func (p *PKI) Prepared() (*PKI, error) {
	at := p.At(framework.TrustBoth)
	var err error
	if at.clients.kubernetes, err = crossSigned(p.options.Cluster+" clients", p.old.kubernetes, p.next.kubernetes); err != nil {
		return nil, err
	}
	at.clients.etcd, err = crossSigned(p.options.Cluster+" etcd clients", p.old.etcd, p.next.etcd)
	return at, err
}

// crossSigned creates a CA with a certificate from each of two.
func crossSigned(name string, one, other *Authority) (*Authority, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	a := &Authority{key: key, keyPEM: keyPEM}
	for _, signer := range []*Authority{one, other} {
		cert, err := signer.signAuthority(name, key.Public())
		if err != nil {
			return nil, fmt.Errorf("failed to have %s sign for %s: %w", signer.cert.Subject.CommonName, name, err)
		}
		if a.cert, err = x509.ParseCertificate(cert); err != nil {
			return nil, err
		}
		a.certPEM = append(a.certPEM, encodeCert(cert)...)
	}
	return a, nil
}

// signAuthority returns a certificate for the key of an intermediate CA.
func (a *Authority) signAuthority(name string, key crypto.PublicKey) ([]byte, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	return x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter.Add(-time.Second),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, BasicConstraintsValid: true, IsCA: true,
	}, a.cert, key, a.key)
}

// issueClient issues a client's certificate: from prepared if there is one, with its
// certificates, or else from the CA.
func (p *PKI) issueClient(from, prepared *Authority, l leaf) (cert, key []byte, err error) {
	if prepared == nil {
		return from.issue(l)
	}
	cert, key, err = prepared.issue(l)
	return slices.Concat(cert, prepared.certPEM), key, err
}

// both returns the certificates of a CA and of another one, if there is one.
func both(a, other *Authority) []byte {
	if other == nil {
		return a.certPEM
	}
	return slices.Concat(a.certPEM, other.certPEM)
}

// Names returns the names of the old and of the new CA of Kubernetes.
func (p *PKI) Names() (old, next string) {
	return p.old.kubernetes.cert.Subject.CommonName, p.next.kubernetes.cert.Subject.CommonName
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
