package remote

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agent"
)

// authority is a CA.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := authority{t: t, key: key, cert: &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "etcd-ca"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

// sign returns a certificate for usages that is valid for some time.
func (a authority) sign(valid time.Duration, usages ...x509.ExtKeyUsage) []byte {
	a.t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "one"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(valid), ExtKeyUsage: usages}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &a.key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestChooseClient: an agent authenticates with the first certificate that the member accepts from
// clients: kubeadm's for health checks, or that of the member itself.
func TestChooseClient(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	const server, client = x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth
	const dir = "/etc/etcd/pki/"
	for _, tc := range []struct {
		name       string
		files      map[string][]byte
		cert, want string
	}{
		{"the member's own", map[string][]byte{dir + "server.crt": ca.sign(time.Minute, server, client)}, dir + "server.crt", ""},
		{"one for any use", map[string][]byte{dir + "server.crt": ca.sign(time.Minute, x509.ExtKeyUsageAny)}, dir + "server.crt", ""},
		{"kubeadm's", map[string][]byte{dir + "healthcheck-client.crt": ca.sign(time.Minute, client), dir + "server.crt": ca.sign(time.Minute, server)}, dir + "healthcheck-client.crt", ""},
		{"kubeadm's is of another CA", map[string][]byte{dir + "healthcheck-client.crt": other.sign(time.Minute, client), dir + "server.crt": ca.sign(time.Minute, client)}, dir + "server.crt", ""},
		{"for servers only", map[string][]byte{dir + "server.crt": ca.sign(time.Minute, server)}, "", dir + "server.crt: x509: certificate specifies an incompatible key usage"},
		{"expired", map[string][]byte{dir + "server.crt": ca.sign(-time.Minute, client)}, "", dir + "server.crt: x509: certificate has expired"},
		{"none", nil, "", dir + "healthcheck-client.crt does not exist"},
		{"no CA", map[string][]byte{dir + "ca.crt": []byte("x")}, "", "--trusted-ca-file " + dir + "ca.crt has no certificate"},
	} {
		text := "Welcome\n"
		if tc.files[dir+"ca.crt"] == nil {
			text += "file " + base64.StdEncoding.EncodeToString(ca.pem) + " " + dir + "ca.crt\n"
		}
		for path, content := range tc.files {
			text += "file " + base64.StdEncoding.EncodeToString(content) + " " + path + "\n"
		}
		fakeSSH(t, text)
		f := seenOn(t, etcdUnit)
		err := f.readConfig(t.Context(), shell{node: "etcd-1", destination: "etcd-1"})
		if tc.want != "" {
			if err == nil || !strings.Contains(err.Error(), "no certificate on etcd-1 authenticates a client to its etcd: ") || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v, want %s", tc.name, err, tc.want)
			}
			continue
		}
		want := agent.EtcdClient{URL: "https://10.0.0.21:2379", CA: dir + "ca.crt", Cert: tc.cert, Key: strings.TrimSuffix(tc.cert, ".crt") + ".key"}
		if got := f.config().EtcdClient; err != nil || got != want {
			t.Errorf("%s: %v, %+v, want %+v", tc.name, err, got, want)
		}
	}
}

// seenOn returns what is found on a host of etcd.
func seenOn(t *testing.T, text string) *found {
	t.Helper()
	s, err := parseSight(text)
	if err != nil {
		t.Fatal(err)
	}
	f, err := detect("auto", etcdHost(), s)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestClientOfPlainEtcd: without TLS no certificate is needed; with TLS and without a CA the member's
// cannot be verified.
func TestClientOfPlainEtcd(t *testing.T) {
	fakeSSH(t, "")
	f := seenOn(t, strings.Replace(etcdUnit, "https://10.0.0.21", "http://10.0.0.21", 1))
	if err := f.readConfig(t.Context(), shell{}); err != nil || f.config().EtcdClient != (agent.EtcdClient{URL: "http://10.0.0.21:2379"}) {
		t.Errorf("%v, %+v", err, f.config().EtcdClient)
	}
	f = seenOn(t, strings.Replace(etcdUnit, "ETCD_TRUSTED_CA_FILE=/etc/etcd/pki/ca.crt"+argumentEnd, "", 1))
	if err := f.readConfig(t.Context(), shell{}); err == nil || !strings.Contains(err.Error(), "etcd on etcd-1 serves TLS at https://10.0.0.21:2379 without --trusted-ca-file") {
		t.Errorf("without a CA: %v", err)
	}
}

// TestClientFromConfigFile: the certificates may be in etcd's file.
func TestClientFromConfigFile(t *testing.T) {
	f := seenOn(t, strings.Replace(etcdUnit, argumentEnd+"\nenvironment 20 ", argumentEnd+"--config-file=/etc/etcd.yaml"+argumentEnd+"\nenvironment 99 ", 1))
	err := f.configure([]byte("data-dir: /data\nlisten-client-urls: https://10.0.0.21:2379\nclient-transport-security: {cert-file: /pki/server.crt, key-file: /pki/server.key, trusted-ca-file: /pki/ca.crt, client-cert-auth: true}\n" +
		"peer-transport-security: {cert-file: /pki/peer.crt, key-file: /pki/peer.key}\n"))
	if err != nil {
		t.Fatal(err)
	}
	pairs := f.keyPairs(f.file("etcd", "trusted-ca-file"))
	want := []keyPair{{"/pki/healthcheck-client.crt", "/pki/healthcheck-client.key"}, {"/apiserver-etcd-client.crt", "/apiserver-etcd-client.key"},
		{"/pki/server.crt", "/pki/server.key"}, {"/pki/peer.crt", "/pki/peer.key"}}
	for i, p := range pairs {
		if i >= len(want) || p != want[i] {
			t.Errorf("the key pairs are %+v", pairs)
		}
	}
	if len(pairs) != len(want) {
		t.Errorf("the key pairs are %+v", pairs)
	}
}

// TestPrintFiles: a certificate without its key is not offered.
func TestPrintFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "their own")
	pair := func(name string) keyPair {
		return keyPair{cert: filepath.Join(dir, name+".crt"), key: filepath.Join(dir, name+".key")}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(dir, "ca.crt")
	for _, file := range []string{ca, pair("alone").cert, pair("server").cert, pair("server").key} {
		if err := os.WriteFile(file, []byte("text of "+filepath.Base(file)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command("sh", "-c", printFiles(ca, []keyPair{pair("missing"), pair("alone"), pair("server")})).Output()
	if err != nil {
		t.Fatal(err)
	}
	files := parseFiles(string(out))
	if len(files) != 2 || string(files[ca]) != "text of ca.crt" || string(files[pair("server").cert]) != "text of server.crt" {
		t.Errorf("%q", files)
	}
}

func TestPeerView(t *testing.T) {
	for own, want := range map[string]string{
		"https://127.0.0.1:2379":   "https://10.0.0.5:2379",
		"http://localhost:12379":   "http://10.0.0.5:12379",
		"https://10.0.0.5:2379":    "https://10.0.0.5:2379",
		"unix://localhost:m0":      "https://10.0.0.5:2379",
		"https://[::1]:2379/path":  "https://10.0.0.5:2379",
		"https://etcd-1.local:443": "https://10.0.0.5:443",
	} {
		if got := peerView(own, netip.MustParseAddr("10.0.0.5")); got != want {
			t.Errorf("%s: %s, want %s", own, got, want)
		}
	}
}
