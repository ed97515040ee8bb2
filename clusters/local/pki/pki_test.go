package pki

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func newTestPKI(t *testing.T) (*PKI, string) {
	t.Helper()
	p, err := New(Options{
		Cluster:  "demo",
		Balancer: netip.MustParseAddr("10.77.0.10"),
		Service:  netip.MustParseAddr("10.96.0.1"),
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "pki")
	err = p.WriteNode(dir, "node-1", "https://10.77.0.11:6443", []netip.Addr{netip.MustParseAddr("10.77.0.11")})
	if err != nil {
		t.Fatal(err)
	}
	return p, dir
}

func load(t *testing.T, dir, cert, key string) *x509.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, cert), filepath.Join(dir, key))
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

func pool(certPEM []byte) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return pool
}

func TestCertificates(t *testing.T) {
	p, dir := newTestPKI(t)
	node := []string{"node-1", "localhost", "10.77.0.11", "127.0.0.1", "::1"}
	everyWayIn := append([]string{"balancer", "api.demo.holdfast", "10.77.0.10", "10.96.0.1", "kubernetes", "kubernetes.default",
		"kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}, node...)
	server, client := x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth
	for _, tc := range []struct {
		cert, key string
		ca        []byte
		usages    []x509.ExtKeyUsage
		hosts     []string
	}{
		{APIServerCert, APIServerKey, p.kubernetes.certPEM, []x509.ExtKeyUsage{server}, everyWayIn},
		{ControllerManagerCert, ControllerManagerKey, p.kubernetes.certPEM, []x509.ExtKeyUsage{server}, node},
		{SchedulerCert, SchedulerKey, p.kubernetes.certPEM, []x509.ExtKeyUsage{server}, node},
		{EtcdServerCert, EtcdServerKey, p.etcd.certPEM, []x509.ExtKeyUsage{server, client}, node},
		{EtcdPeerCert, EtcdPeerKey, p.etcd.certPEM, []x509.ExtKeyUsage{server, client}, node},
		{APIServerEtcdCert, APIServerEtcdKey, p.etcd.certPEM, []x509.ExtKeyUsage{client}, nil},
		{FrontProxyCert, FrontProxyKey, p.frontProxy.certPEM, []x509.ExtKeyUsage{client}, nil},
	} {
		t.Run(tc.cert, func(t *testing.T) {
			cert := load(t, dir, tc.cert, tc.key)
			for _, usage := range tc.usages {
				if _, err := cert.Verify(x509.VerifyOptions{Roots: pool(tc.ca), KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
					t.Errorf("usage %v: %v", usage, err)
				}
			}
			for _, host := range tc.hosts {
				if err := cert.VerifyHostname(host); err != nil {
					t.Error(err)
				}
			}
			if err := cert.VerifyHostname("elsewhere"); err == nil {
				t.Error("the certificate is good for any name")
			}
			for _, other := range [][]byte{p.kubernetes.certPEM, p.etcd.certPEM, p.frontProxy.certPEM} {
				if string(other) == string(tc.ca) {
					continue
				}
				if _, err := cert.Verify(x509.VerifyOptions{Roots: pool(other), KeyUsages: tc.usages[:1]}); err == nil {
					t.Error("another authority vouches for it")
				}
			}
			if left := time.Until(cert.NotAfter); left < 300*24*time.Hour {
				t.Errorf("valid for %v only", left)
			}
		})
	}
}

func TestWithoutBalancer(t *testing.T) {
	p, err := New(Options{Cluster: "demo", Service: netip.MustParseAddr("10.96.0.1")})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := p.WriteNode(dir, "node-1", "https://10.77.0.11:6443", nil); err != nil {
		t.Fatal(err)
	}
	if err := load(t, dir, APIServerCert, APIServerKey).VerifyHostname("balancer"); err == nil {
		t.Error("the certificate carries a balancer that there is not")
	}
}

func TestKeysArePrivate(t *testing.T) {
	_, dir := newTestPKI(t)
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWriteNodeSaysWhere(t *testing.T) {
	p, _ := newTestPKI(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.WriteNode(file, "node-1", "", nil); err == nil {
		t.Error("no error for a directory that is a file")
	}
}

// TestHandshake lets a server with the API server's certificate tell whom it
// sees when a kubeconfig, or client-go, calls.
func TestHandshake(t *testing.T) {
	p, dir := newTestPKI(t)
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, APIServerCert), filepath.Join(dir, APIServerKey))
	if err != nil {
		t.Fatal(err)
	}
	var seen *x509.Certificate
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen = r.TLS.PeerCertificates[0]
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool(p.CA())}
	server.StartTLS()
	defer server.Close()
	url := "https://" + net.JoinHostPort("localhost", portOf(t, server.URL))

	for _, id := range []Identity{Admin(), controllerManager(), scheduler(), Kwok()} {
		direct, err := p.RESTConfig(id, url)
		if err != nil {
			t.Fatal(err)
		}
		data, err := p.Kubeconfig(id, url)
		if err != nil {
			t.Fatal(err)
		}
		fromFile, err := clientcmd.RESTConfigFromKubeConfig(data)
		if err != nil {
			t.Fatal(err)
		}
		for how, config := range map[string]*rest.Config{"rest.Config": direct, "kubeconfig": fromFile} {
			client, err := rest.HTTPClientFor(config)
			if err != nil {
				t.Fatal(err)
			}
			seen = nil
			response, err := client.Get(url)
			if err != nil {
				t.Fatalf("%s of %s: %v", how, id.User, err)
			}
			response.Body.Close()
			if seen == nil || seen.Subject.CommonName != id.User || len(seen.Subject.Organization) != len(id.Groups) {
				t.Errorf("%s of %s: the server sees %v", how, id.User, seen)
			}
			client.CloseIdleConnections()
		}
	}
}

func portOf(t *testing.T, url string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(url[len("https://"):])
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func TestEtcdClientTLS(t *testing.T) {
	p, _ := newTestPKI(t)
	config, err := p.EtcdClientTLS()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := config.GetClientCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: pool(p.EtcdCA()), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
}

func BenchmarkThreeNodes(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		p, err := New(Options{Cluster: "demo", Service: netip.MustParseAddr("10.96.0.1")})
		if err != nil {
			b.Fatal(err)
		}
		for range 3 {
			if err := p.WriteNode(dir, "node-1", "https://10.77.0.11:6443", nil); err != nil {
				b.Fatal(err)
			}
		}
	}
}
