package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"k8s.io/client-go/util/keyutil"
)

// Authority signs certificates.
type Authority struct {
	cert    *x509.Certificate
	certPEM []byte
	key     crypto.Signer
	keyPEM  []byte
}

// leaf is the purpose of a certificate.
type leaf struct {
	name           string
	groups         []string
	server, client bool
	addrs          []netip.Addr
	dns            []string
}

// LoadAuthority returns the CA of a certificate and its private key, both PEM encoded, for
// example kubeadm's.
func LoadAuthority(certPEM, keyPEM []byte) (*Authority, error) {
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("failed to load a CA: %w", err)
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("failed to load a CA: a key of type %T cannot sign", pair.PrivateKey)
	}
	if !pair.Leaf.IsCA {
		return nil, fmt.Errorf("failed to load a CA: %s is not a CA's certificate", pair.Leaf.Subject)
	}
	return &Authority{cert: pair.Leaf, certPEM: certPEM, key: key, keyPEM: keyPEM}, nil
}

func newAuthority(name string, notBefore, notAfter time.Time) (*Authority, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             notBefore,
		NotAfter:              notAfter,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &Authority{cert: cert, certPEM: encodeCert(der), key: key, keyPEM: keyPEM}, nil
}

// issue makes a key and a certificate for it, both PEM encoded.
func (a *Authority) issue(l leaf) (cert, key []byte, err error) {
	leafKey, keyPEM, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: l.name, Organization: l.groups},
		NotBefore: a.cert.NotBefore,
		NotAfter:  a.cert.NotAfter,
		KeyUsage:  x509.KeyUsageDigitalSignature,
		DNSNames:  slices.Compact(slices.Sorted(slices.Values(l.dns))),
	}
	for _, addr := range slices.Compact(slices.SortedFunc(slices.Values(l.addrs), netip.Addr.Compare)) {
		if addr.IsValid() {
			template.IPAddresses = append(template.IPAddresses, net.IP(addr.AsSlice()))
		}
	}
	if l.server {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	if l.client {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, leafKey.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	return encodeCert(der), keyPEM, nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	return key, keyPEM, err
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
