package pki

import (
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/util/cert"

	"github.com/holdfast-ha/holdfast/framework"
)

// Defective returns a certificate that clients must refuse, to replace the one in a file of
// WriteNode. It has the same key, so that only one file is replaced, and differs from the
// original only in the defect.
func (p *PKI) Defective(file string, certificate []byte, defect framework.CertificateDefect) ([]byte, error) {
	signer := p.kubernetes
	if strings.HasPrefix(file, etcdDir+"/") {
		signer = p.etcd
	}
	bad, err := signer.Defective(certificate, defect, BalancerName(p.options.Cluster))
	if err != nil {
		return nil, fmt.Errorf("failed to make a defective %s: %w", file, err)
	}
	return bad, nil
}

// Defective is PKI.Defective for any certificate that this CA has signed, both PEM encoded.
// balancer is the name that a certificate with framework.CertificateNoBalancerName does not
// contain.
func (a *Authority) Defective(certificate []byte, defect framework.CertificateDefect, balancer string) ([]byte, error) {
	all, err := cert.ParseCertsPEM(certificate)
	if err != nil {
		return nil, fmt.Errorf("failed to read the one it holds now: %w", err)
	}
	old := all[0]
	template := &x509.Certificate{
		Subject:     old.Subject,
		NotBefore:   old.NotBefore,
		NotAfter:    old.NotAfter,
		KeyUsage:    old.KeyUsage,
		ExtKeyUsage: old.ExtKeyUsage,
		DNSNames:    old.DNSNames,
		IPAddresses: old.IPAddresses,
	}
	signer := a
	switch defect {
	case framework.CertificateExpired:
		now := time.Now()
		template.NotBefore, template.NotAfter = now.Add(-48*time.Hour), now.Add(-5*time.Minute)
	case framework.CertificateWrongNames:
		template.DNSNames, template.IPAddresses = []string{wrongName}, nil
	case framework.CertificateNoBalancerName:
		template.DNSNames = slices.DeleteFunc(slices.Clone(old.DNSNames), func(name string) bool { return name == balancer })
	case framework.CertificateUntrusted:
		if signer, err = newAuthority(a.cert.Subject.CommonName+" (new)", a.cert.NotBefore, a.cert.NotAfter); err != nil {
			return nil, fmt.Errorf("failed to make a new CA: %w", err)
		}
	default:
		return nil, fmt.Errorf("%q is not a defect", defect)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer.cert, old.PublicKey, signer.key)
	if err != nil {
		return nil, err
	}
	return encodeCert(der), nil
}

const (
	etcdDir   = "etcd"          // contains the files of etcd's CA
	wrongName = "wrong.invalid" // never exists, by RFC 2606
)
