package pki

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

// written returns what reads the files that a node gets.
func written(t *testing.T, p *PKI) (read func(name string) []byte) {
	t.Helper()
	dir := t.TempDir()
	if err := p.WriteNode(dir, "node-1", "https://10.77.0.11:6443", nil); err != nil {
		t.Fatal(err)
	}
	return func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

// tokenKeys returns the key with which a node signs tokens of service accounts, and those with
// which it verifies them.
func tokenKeys(t *testing.T, p *PKI) (signs *ecdsa.PrivateKey, verify []*ecdsa.PublicKey) {
	t.Helper()
	read := written(t, p)
	block, _ := pem.Decode(read(ServiceAccountKey))
	signs, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for rest := read(ServiceAccountPub); ; {
		if block, rest = pem.Decode(rest); block == nil {
			return signs, verify
		}
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		verify = append(verify, key.(*ecdsa.PublicKey))
	}
}

// TestTokenKeys shows that tokens of either key are accepted from the first stage of a
// replacement to the last one, and after it was undone, and which key signs.
func TestTokenKeys(t *testing.T) {
	p, _ := newTestPKI(t)
	undone, _ := newTestPKI(t)
	tokenKeys(t, undone.At(framework.TrustBothUseNew))
	early, _ := newTestPKI(t)
	tokenKeys(t, early.At(framework.TrustBoth))
	for _, tc := range []struct {
		name          string
		at            *PKI
		signs         *ecdsa.PrivateKey
		verifies, not []*ecdsa.PrivateKey
	}{
		{"trust-old", p.At(framework.TrustOld), p.old.serviceAccount, []*ecdsa.PrivateKey{p.old.serviceAccount}, []*ecdsa.PrivateKey{p.next.serviceAccount}},
		{"trust-both", p.At(framework.TrustBoth), p.old.serviceAccount, []*ecdsa.PrivateKey{p.old.serviceAccount, p.next.serviceAccount}, nil},
		{"use-new", p.At(framework.TrustBothUseNew), p.next.serviceAccount, []*ecdsa.PrivateKey{p.old.serviceAccount, p.next.serviceAccount}, nil},
		{"trust-new", p.At(framework.TrustNew), p.next.serviceAccount, []*ecdsa.PrivateKey{p.old.serviceAccount, p.next.serviceAccount}, nil},
		{"undone", undone.At(framework.TrustOld), undone.old.serviceAccount, []*ecdsa.PrivateKey{undone.old.serviceAccount, undone.next.serviceAccount}, nil},
		{"undone before the new key signed", early.At(framework.TrustOld), early.old.serviceAccount, []*ecdsa.PrivateKey{early.old.serviceAccount}, []*ecdsa.PrivateKey{early.next.serviceAccount}},
		{"dropped too early", p.OneTokenKey(framework.TrustNew), p.next.serviceAccount, []*ecdsa.PrivateKey{p.next.serviceAccount}, []*ecdsa.PrivateKey{p.old.serviceAccount}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			signs, verify := tokenKeys(t, tc.at)
			if !signs.Equal(tc.signs) {
				t.Error("another key signs")
			}
			has := func(key *ecdsa.PrivateKey) bool {
				for _, v := range verify {
					if v.Equal(key.Public()) {
						return true
					}
				}
				return false
			}
			for _, key := range tc.verifies {
				if !has(key) {
					t.Error("tokens of a key are refused")
				}
			}
			for _, key := range tc.not {
				if has(key) {
					t.Error("tokens of a key are accepted")
				}
			}
		})
	}
}

// TestTrustedCAs shows that only the new CAs are trusted at the last stage, and only the old ones
// after an undo.
func TestTrustedCAs(t *testing.T) {
	p, _ := newTestPKI(t)
	at := p.At(framework.TrustNew)
	next := p.next.kubernetes.cert.Subject.CommonName
	p.nextSigns.Store(true) // as it is when the replacement is undone
	if undone := p.At(framework.TrustOld); undone.Trusted() == next || string(undone.CA()) != string(p.old.kubernetes.certPEM) {
		t.Errorf("after an undo %s is trusted", undone.Trusted())
	}
	if at.Trusted() != next || string(at.CA()) != string(p.next.kubernetes.certPEM) || string(at.EtcdCA()) != string(p.next.etcd.certPEM) ||
		string(at.frontProxyCA()) != string(p.next.frontProxy.certPEM) {
		t.Errorf("%s is trusted", at.Trusted())
	}
}

// TestLasting shows that nodes accept a lasting client at each stage of a replacement, and that it
// verifies their certificates at each.
func TestLasting(t *testing.T) {
	p, _ := newTestPKI(t)
	client, err := p.Lasting().RESTConfig(Admin(), "")
	if err != nil {
		t.Fatal(err)
	}
	member, err := p.Lasting().EtcdClient()
	if err != nil {
		t.Fatal(err)
	}
	for _, stage := range []framework.TrustStage{framework.TrustOld, framework.TrustBoth, framework.TrustBothUseNew, framework.TrustNew} {
		read := written(t, p.At(stage))
		for _, x := range []struct {
			what     string
			cert, ca []byte
			usage    x509.ExtKeyUsage
			verifies bool
		}{
			{"a client of the API server", client.CertData, read(ClientCACert), x509.ExtKeyUsageClientAuth, true},
			{"a client of etcd", member.CertData, read(EtcdClientCACert), x509.ExtKeyUsageClientAuth, true},
			{"a client of the API server as a peer of etcd", client.CertData, read(EtcdCACert), x509.ExtKeyUsageClientAuth, false},
			{"a client of etcd as a peer of etcd", member.CertData, read(EtcdCACert), x509.ExtKeyUsageClientAuth, false},
			{"the API server", read(APIServerCert), client.CAData, x509.ExtKeyUsageServerAuth, true},
			{"etcd", read(EtcdServerCert), member.CAData, x509.ExtKeyUsageServerAuth, true},
		} {
			block, rest := pem.Decode(x.cert)
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil || len(rest) > 0 {
				t.Fatalf("%s: %v, and %d bytes more", x.what, err, len(rest))
			}
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(x.ca)
			if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x.usage}}); (err == nil) != x.verifies {
				t.Errorf("%s at %s: %v", x.what, stage, err)
			}
		}
	}
}
