package pki

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// Defective returns a certificate that clients must refuse, to take the place
// of the one in a file of WriteNode. It is for the same key, so that one file is
// all there is to replace, and like the other in everything but the defect.
func (p *PKI) Defective(file string, certificate []byte, defect framework.CertificateDefect) ([]byte, error) {
	block, _ := pem.Decode(certificate)
	if block == nil {
		return nil, fmt.Errorf("failed to make a defective %s: it holds no certificate now", file)
	}
	old, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("failed to make a defective %s: %w", file, err)
	}
	template := &x509.Certificate{
		Subject:     old.Subject,
		NotBefore:   old.NotBefore,
		NotAfter:    old.NotAfter,
		KeyUsage:    old.KeyUsage,
		ExtKeyUsage: old.ExtKeyUsage,
		DNSNames:    old.DNSNames,
		IPAddresses: old.IPAddresses,
	}
	signer := p.kubernetes
	if strings.HasPrefix(file, etcdDir+"/") {
		signer = p.etcd
	}
	switch defect {
	case framework.CertificateExpired:
		now := time.Now()
		template.NotBefore, template.NotAfter = now.Add(-48*time.Hour), now.Add(-5*time.Minute)
	case framework.CertificateWrongNames:
		template.DNSNames, template.IPAddresses = []string{wrongName}, nil
	case framework.CertificateNoBalancerName:
		template.DNSNames = slices.DeleteFunc(slices.Clone(old.DNSNames), func(name string) bool { return name == BalancerName(p.options.Cluster) })
	case framework.CertificateUntrusted:
		if signer, err = newAuthority(signer.cert.Subject.CommonName+" (new)", p.notBefore, p.notAfter); err != nil {
			return nil, fmt.Errorf("failed to make a new authority for %s: %w", file, err)
		}
	default:
		return nil, fmt.Errorf("failed to make a defective %s: %q is no defect", file, defect)
	}
	if template.SerialNumber, err = newSerial(); err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer.cert, old.PublicKey, signer.key)
	if err != nil {
		return nil, fmt.Errorf("failed to make a defective %s: %w", file, err)
	}
	return encodeCert(der), nil
}

const (
	etcdDir   = "etcd"          // holds the files of etcd's authority
	wrongName = "wrong.invalid" // belongs to nobody, by RFC 2606
)
