package local

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local/pki"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
)

// spoilable is a node whose certificates are there, and nothing else.
func spoilable(t *testing.T) (n *node, cert string) {
	t.Helper()
	p, err := pki.New(pki.Options{Cluster: "spoilt"})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := p.WriteNode(filepath.Join(dir, pkiDir), "node-1", "https://127.0.0.1", []netip.Addr{netip.MustParseAddr("127.0.0.1")}); err != nil {
		t.Fatal(err)
	}
	n = &node{cluster: &Cluster{pki: p}, spec: clusters.Node{Name: "node-1"}, machine: &machine{dir: dir}}
	return n, filepath.Join(dir, pkiDir, pki.APIServerCert)
}

// A deleted cluster does not touch files that another one may have put in the place of its
// certificates when they were due to be restored.
func TestCertificatesOfAnEndedCluster(t *testing.T) {
	n, cert := spoilable(t)
	synctest.Test(t, func(t *testing.T) {
		if err := n.SpoilCertificates(t.Context(), framework.APIServer, framework.CertificateExpired, time.Minute); err != nil {
			t.Fatal(err)
		}
		n.spoilt.forget()
		if err := os.WriteFile(cert, []byte("of another cluster"), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if b, err := os.ReadFile(cert); err != nil || string(b) != "of another cluster" {
			t.Errorf("%v, %s", err, b)
		}
	})
}

func TestSpoiltTwice(t *testing.T) {
	n, cert := spoilable(t)
	own, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		spoil := func() error {
			return n.SpoilCertificates(t.Context(), framework.APIServer, framework.CertificateWrongNames, time.Minute)
		}
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if err := spoil(); !errors.Is(err, framework.ErrNothingDone) {
			t.Errorf("spoilt twice: %v", err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if b, err := os.ReadFile(cert); err != nil || string(b) != string(own) {
			t.Errorf("not restored when its time was over: %v", err)
		}
	})
}

// TestSpoiltInPart: certificates that are replaced in part, and cannot be put back at once, are later.
func TestSpoiltInPart(t *testing.T) {
	n, _ := spoilable(t)
	for range 30 { // the order of the files is random
		own, obstacle := map[string][]byte{}, ""
		for _, name := range servingCertificates(framework.Etcd) {
			path := filepath.Join(n.machine.dir, pkiDir, name)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			own[path], obstacle = b, system.Temporary(path)
		}
		if err := os.MkdirAll(obstacle, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := n.SpoilCertificates(t.Context(), framework.Etcd, framework.CertificateExpired, time.Minute); err == nil {
			t.Fatal("a file that cannot be written was replaced")
		}
		if err := os.Remove(obstacle); err != nil {
			t.Fatal(err)
		}
		if err := n.RestoreCertificates(t.Context(), framework.Etcd); err != nil {
			t.Fatal(err)
		}
		for path, b := range own {
			if now, err := os.ReadFile(path); err != nil || string(now) != string(b) {
				t.Fatalf("%s is not the node's own: %v", path, err)
			}
		}
	}
}

// A rotation that finds defective certificates writes no new keys, which healing would combine with
// the old certificates.
func TestReissueWhileSpoilt(t *testing.T) {
	n, cert := spoilable(t)
	n.cluster.spec = clusters.Default()
	own, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.SpoilCertificates(t.Context(), framework.APIServer, framework.CertificateExpired, time.Minute); err != nil {
		t.Fatal(err)
	}
	key := func() string {
		b, err := os.ReadFile(filepath.Join(n.machine.dir, pkiDir, pki.APIServerKey))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	before := key()
	if err := n.reissue(t.Context(), n.cluster.pki.At(framework.TrustOld), nil); err == nil || key() != before {
		t.Errorf("error %v, same key: %t", err, key() == before)
	}
	if err := n.RestoreCertificates(t.Context(), framework.APIServer); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(cert); err != nil || string(b) != string(own) {
		t.Errorf("its own certificate is not back: %v", err)
	}
	if err := n.reissue(t.Context(), n.cluster.pki.At(framework.TrustOld), nil); err != nil || key() == before {
		t.Errorf("after healing: %v", err)
	}
}
