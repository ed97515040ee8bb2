package local

import (
	"crypto/x509"
	"encoding/pem"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local/pki"
	"github.com/holdfast-ha/holdfast/framework"
)

// TestKubeconfigOfRotation shows that between any two steps of a replacement of the CAs, and of
// its undo, every node accepts the user's kubeconfig, the node that changes next included.
func TestKubeconfigOfRotation(t *testing.T) {
	keys, err := pki.New(pki.Options{Cluster: "x", Service: netip.MustParseAddr(serviceAddress)})
	if err != nil {
		t.Fatal(err)
	}
	certificate := func(b []byte) *x509.Certificate {
		block, _ := pem.Decode(b)
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
	stages := []framework.TrustStage{framework.TrustOld, framework.TrustBoth, framework.TrustBothUseNew, framework.TrustNew}
	for _, low := range stages {
		for _, high := range stages {
			if high != low && high != low+1 {
				continue
			}
			c := &Cluster{pki: keys, nodes: []*node{
				{spec: clusters.Node{Name: "a"}, trust: [2]framework.TrustStage{low, low}},
				{spec: clusters.Node{Name: "b"}, trust: [2]framework.TrustStage{high, high}},
			}}
			file, err := c.Kubeconfig("https://127.0.0.1:6443")
			if err != nil {
				t.Fatal(err)
			}
			config, err := clientcmd.RESTConfigFromKubeConfig(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, stage := range stages {
				if stage < high-1 || stage > low+1 {
					continue // no node is there, or comes there next
				}
				dir := t.TempDir()
				if err := keys.At(stage).WriteNode(dir, "node-1", "https://10.0.0.1:6443", []netip.Addr{netip.MustParseAddr("10.0.0.1")}); err != nil {
					t.Fatal(err)
				}
				for _, x := range []struct {
					what     string
					cert, ca []byte
					usage    x509.ExtKeyUsage
				}{
					{"the API server accepts its certificate", config.CertData, read(t, filepath.Join(dir, pki.ClientCACert)), x509.ExtKeyUsageClientAuth},
					{"it accepts the API server's", read(t, filepath.Join(dir, pki.APIServerCert)), config.CAData, x509.ExtKeyUsageServerAuth},
				} {
					roots := x509.NewCertPool()
					roots.AppendCertsFromPEM(x.ca)
					if _, err := certificate(x.cert).Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x.usage}}); err != nil {
						t.Errorf("nodes at %s and %s, one of them at %s next: not so that %s: %v", low, high, stage, x.what, err)
					}
				}
			}
		}
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
