package agent

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

const balancerName = "test-external-load-balancer"

// newPKI makes a directory as kubeadm does: RSA keys, a CA of etcd's own.
func newPKI(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	mkdir(t, filepath.Join(dir, "etcd"))
	for _, authority := range []struct {
		ca     string
		leaves []string
	}{{"ca", []string{"apiserver"}}, {"etcd/ca", []string{"etcd/server", "etcd/peer"}}} {
		ca := &x509.Certificate{Subject: pkix.Name{CommonName: authority.ca}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
		caKey := issue(t, dir, authority.ca, ca, ca, nil)
		for _, leaf := range authority.leaves {
			issue(t, dir, leaf, &x509.Certificate{Subject: pkix.Name{CommonName: leaf},
				ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
				DNSNames:    []string{"localhost", balancerName}, IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1).To4()}}, ca, caKey)
		}
	}
	return dir
}

func issue(t *testing.T, dir, name string, c, parent *x509.Certificate, signer *rsa.PrivateKey) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	if signer == nil {
		signer = key
	}
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	must(t, err)
	write(t, filepath.Join(dir, name+".crt"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(t, filepath.Join(dir, name+".key"), string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})))
	return key
}

// verify verifies a certificate as a client of a name does.
func verify(t *testing.T, dir, file, ca, name string) error {
	t.Helper()
	load := func(name string) *x509.Certificate {
		b, err := os.ReadFile(filepath.Join(dir, name+".crt"))
		must(t, err)
		block, _ := pem.Decode(b)
		c, err := x509.ParseCertificate(block.Bytes)
		must(t, err)
		return c
	}
	roots := x509.NewCertPool()
	roots.AddCert(load(ca))
	_, err := load(file).Verify(x509.VerifyOptions{Roots: roots, DNSName: name})
	return err
}

func certificateNode(t *testing.T) *testNode {
	n := newNode(t)
	n.config.PKI = newPKI(t)
	n.Balancer = balancerName
	n.up()
	return n
}

func TestSpoilCertificates(t *testing.T) {
	t.Parallel()
	n := certificateNode(t)
	dir := n.config.PKI
	files := map[framework.Component][]string{framework.APIServer: {"apiserver"}, framework.Etcd: {"etcd/server", "etcd/peer"}}
	authorities := map[framework.Component]string{framework.APIServer: "ca", framework.Etcd: "etcd/ca"}
	for c, names := range files {
		for _, d := range []framework.CertificateDefect{framework.CertificateExpired, framework.CertificateWrongNames,
			framework.CertificateNoBalancerName, framework.CertificateUntrusted} {
			own := map[string][]byte{}
			for _, name := range names {
				own[name], _ = os.ReadFile(filepath.Join(dir, name+".crt"))
				must(t, verify(t, dir, name, authorities[c], balancerName))
			}
			must(t, n.SpoilCertificates(t.Context(), c, d, time.Hour))
			for _, name := range names {
				if err := verify(t, dir, name, authorities[c], balancerName); err == nil {
					t.Errorf("%s of %s: the certificate verifies", d, name)
				}
				err := verify(t, dir, name, authorities[c], "localhost")
				if (err == nil) != (d == framework.CertificateNoBalancerName) {
					t.Errorf("%s of %s: by another name: %v", d, name, err)
				}
			}
			refused(t, n.SpoilCertificates(t.Context(), c, d, time.Hour))
			must(t, n.RestoreCertificates(t.Context(), c))
			must(t, n.RestoreCertificates(t.Context(), c))
			for name, was := range own {
				if b, err := os.ReadFile(filepath.Join(dir, name+".crt")); err != nil || !bytes.Equal(b, was) {
					t.Errorf("%s of %s: it is not its own again: %v", d, name, err)
				}
			}
		}
	}
	if err := n.SpoilCertificates(t.Context(), framework.Scheduler, framework.CertificateExpired, time.Hour); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("certificates of a scheduler: %v", err)
	}
	refused(t, n.SpoilCertificates(t.Context(), framework.Etcd, framework.CertificateExpired, 0))
	refused(t, n.SpoilCertificates(t.Context(), framework.Etcd, "odd", time.Hour))
}

// TestRenewedCertificateStays: a certificate that was renewed while a defective one was in its place is
// not replaced by the old one, which would not match its new key. The others are.
func TestRenewedCertificateStays(t *testing.T) {
	t.Parallel()
	n := certificateNode(t)
	server, peer := filepath.Join(n.config.PKI, "etcd/server.crt"), filepath.Join(n.config.PKI, "etcd/peer.crt")
	own, err := os.ReadFile(peer)
	must(t, err)
	must(t, n.SpoilCertificates(t.Context(), framework.Etcd, framework.CertificateExpired, time.Hour))
	if all, err := n.DefectiveCertificates(t.Context()); err != nil || !slices.Equal(all, []framework.Component{framework.Etcd}) {
		t.Errorf("certificates of %v are defective, %v", all, err)
	}
	write(t, server, "renewed")
	err = n.RestoreCertificates(t.Context(), framework.Etcd)
	if err == nil || !strings.Contains(err.Error(), server+" was replaced") || strings.Contains(err.Error(), peer) {
		t.Error(err)
	}
	if b, err := os.ReadFile(server); err != nil || string(b) != "renewed" {
		t.Errorf("the renewed certificate was replaced: %q, %v", b, err)
	}
	if b, err := os.ReadFile(peer); err != nil || !bytes.Equal(b, own) {
		t.Errorf("the other certificate is not its own again: %v", err)
	}
	must(t, n.RestoreCertificates(t.Context(), framework.Etcd))
	if all, err := n.DefectiveCertificates(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("certificates of %v are defective, %v", all, err)
	}
}

// TestCertificatesDeadMan ends the agent while certificates are spoilt: they stay so,
// also across a restart of the node, and are put back in time.
func TestCertificatesDeadMan(t *testing.T) {
	t.Parallel()
	n := certificateNode(t)
	good := func() bool { return verify(t, n.config.PKI, "apiserver", "ca", balancerName) == nil }
	must(t, n.SpoilCertificates(t.Context(), framework.APIServer, framework.CertificateExpired, n.beyond(2*time.Second)))
	n.kill()
	n.restarted()
	n.up()
	if good() {
		t.Error("after a restart of the node the certificate verifies")
	}
	refused(t, n.SpoilCertificates(t.Context(), framework.APIServer, framework.CertificateExpired, time.Hour))
	eventually(t, "its time is over", good)

	must(t, n.SpoilCertificates(t.Context(), framework.APIServer, framework.CertificateExpired, 200*time.Millisecond))
	n.kill()
	time.Sleep(200 * time.Millisecond)
	n.up()
	if !good() {
		t.Error("the successor has not put back what was over")
	}
}

// TestCertificatesOfRestartedNode: with a leash, a node starts on its own certificates, and the agent
// reports that it healed early. The restart of an agent alone changes nothing.
func TestCertificatesOfRestartedNode(t *testing.T) {
	t.Parallel()
	n := certificateNode(t)
	n.kill()
	n.config.Leash = time.Hour
	n.up()
	good := func() bool { return verify(t, n.config.PKI, "apiserver", "ca", balancerName) == nil }
	must(t, n.SpoilCertificates(t.Context(), framework.APIServer, framework.CertificateExpired, time.Hour))
	n.kill()
	n.up()
	if ago, err := n.Lapsed(t.Context()); good() || err != nil || ago != 0 {
		t.Errorf("after the restart of an agent: own certificates: %t, healed early %s ago, %v", good(), ago, err)
	}
	n.kill()
	n.restarted()
	n.up()
	if ago, err := n.Lapsed(t.Context()); !good() || err != nil || ago == 0 {
		t.Errorf("after the restart of the node: own certificates: %t, healed early %s ago, %v", good(), ago, err)
	}
	must(t, n.SpoilCertificates(t.Context(), framework.APIServer, framework.CertificateExpired, time.Hour))
	must(t, n.RestoreCertificates(t.Context(), framework.APIServer))
}

// TestCertificatesOnFullDisk: an agent whose state cannot be written starts, and heals.
func TestCertificatesOnFullDisk(t *testing.T) {
	t.Parallel()
	for name, restarted := range map[string]bool{"the agent restarts": false, "the node restarts": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.config.PKI = newPKI(t)
			mountTmpfs(t, n.config.Dir, "256k")
			n.up()
			must(t, n.SpoilCertificates(t.Context(), framework.APIServer, framework.CertificateExpired, 2*time.Second))
			n.kill()
			if restarted {
				n.restarted()
			}
			if err := os.WriteFile(filepath.Join(n.config.Dir, "fill"), make([]byte, 1<<20), 0o600); err == nil {
				t.Fatal("the file system is not full")
			}
			n.up()
			eventually(t, "its time is over", func() bool { return verify(t, n.config.PKI, "apiserver", "ca", balancerName) == nil })
		})
	}
}
