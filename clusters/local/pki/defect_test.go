package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestDefective(t *testing.T) {
	p, err := New(Options{Cluster: "demo", Balancer: netip.MustParseAddr("10.77.0.10"), Service: netip.MustParseAddr("10.96.0.1")})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	addr := netip.MustParseAddr("10.77.0.11")
	if err := p.WriteNode(dir, "node-1", "https://10.77.0.11:6443", []netip.Addr{addr}); err != nil {
		t.Fatal(err)
	}
	for _, file := range []struct{ cert, key string }{{APIServerCert, APIServerKey}, {EtcdServerCert, EtcdServerKey}, {EtcdPeerCert, EtcdPeerKey}} {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(p.CA())
		if file.cert != APIServerCert {
			roots = x509.NewCertPool()
			roots.AppendCertsFromPEM(p.EtcdCA())
		}
		old, err := os.ReadFile(filepath.Join(dir, file.cert))
		if err != nil {
			t.Fatal(err)
		}
		key, err := os.ReadFile(filepath.Join(dir, file.key))
		if err != nil {
			t.Fatal(err)
		}
		verify := func(b []byte) error {
			pair, err := tls.X509KeyPair(b, key) // refuses a pair that does not match
			if err != nil {
				t.Fatal(err)
			}
			_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: addr.String()})
			return err
		}
		if err := verify(old); err != nil {
			t.Fatalf("%s: %v", file.cert, err)
		}
		for defect, is := range map[framework.CertificateDefect]func(error) bool{
			framework.CertificateExpired: func(err error) bool {
				var e x509.CertificateInvalidError
				return errors.As(err, &e) && e.Reason == x509.Expired
			},
			framework.CertificateWrongNames: func(err error) bool { var e x509.HostnameError; return errors.As(err, &e) },
			framework.CertificateUntrusted:  func(err error) bool { var e x509.UnknownAuthorityError; return errors.As(err, &e) },
		} {
			bad, err := p.Defective(file.cert, old, defect)
			if err != nil {
				t.Fatal(err)
			}
			if err := verify(bad); !is(err) {
				t.Errorf("%s, %s: %v", file.cert, defect, err)
			}
		}
		if _, err := p.Defective(file.cert, old, "rusty"); err == nil {
			t.Error("an unknown defect was accepted")
		}
		if _, err := p.Defective(file.cert, []byte("no certificate"), framework.CertificateExpired); err == nil {
			t.Error("what is no certificate was accepted")
		}
	}
}

// A certificate without the balancer's name is good for every other name.
func TestNoBalancerName(t *testing.T) {
	p, dir := newTestPKI(t)
	own, err := os.ReadFile(filepath.Join(dir, APIServerCert))
	if err != nil {
		t.Fatal(err)
	}
	bad, err := p.Defective(APIServerCert, own, framework.CertificateNoBalancerName)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(bad)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"node-1", "balancer", "kubernetes.default", "10.77.0.10", "10.77.0.11", "10.96.0.1"} {
		if err := cert.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	if err := cert.VerifyHostname(BalancerName("demo")); err == nil {
		t.Error("it carries the balancer's name")
	}
}
