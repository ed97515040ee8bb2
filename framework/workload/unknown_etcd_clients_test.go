package workload

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/etcdtest"
)

// pair is a client certificate of a CA of its own.
func pair(t *testing.T) tls.Certificate {
	t.Helper()
	certificate, key, err := foreignCertificate(pkix.Name{CommonName: "root"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// etcdServer answers like a member, to clients with one certificate; to all if that is
// empty. The endpoint has the certificate of the client.
func etcdServer(t *testing.T, name string, accepted, own tls.Certificate, version uint16) framework.ServingEndpoint {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.Path {
		case "POST /v3/kv/range", "POST /v3/cluster/member/list", "GET /members":
			_, _ = io.WriteString(w, `{"kvs": []}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12, MaxVersion: version}
	if accepted.Leaf != nil {
		s.TLS.ClientAuth = tls.RequireAnyClientCert
		s.TLS.VerifyPeerCertificate = func(raw [][]byte, _ [][]*x509.Certificate) error {
			if string(raw[0]) != string(accepted.Certificate[0]) {
				return errors.New("a certificate of a foreign CA")
			}
			return nil
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return framework.ServingEndpoint{Name: name, Address: s.Listener.Addr().String(), TLS: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}}}
}

// etcdNode is a node that runs only etcd; it is the only one of its cluster.
type etcdNode struct {
	framework.Cluster
	endpoints, further []framework.ServingEndpoint
}

func (n etcdNode) Nodes() []framework.Node           { return []framework.Node{n} }
func (n etcdNode) Name() string                      { return "node-1" }
func (n etcdNode) Address() netip.Addr               { return netip.Addr{} }
func (n etcdNode) Components() []framework.Component { return []framework.Component{framework.Etcd} }
func (n etcdNode) ServingEndpoints(framework.Component) ([]framework.ServingEndpoint, error) {
	return n.endpoints, nil
}

func (n etcdNode) FurtherListeners() []framework.ServingEndpoint { return n.further }

// What a member serves on a further port is recorded, and nothing else about that port.
func TestUnknownEtcdClientsOnFurtherPorts(t *testing.T) {
	own := pair(t)
	busy := true // at the first attempt
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if busy {
			busy = false
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, `{"kvs": []}`)
	}))
	defer plain.Close()
	closed := httptest.NewServer(nil)
	closed.Close()
	guarded := etcdServer(t, "client", own, own, tls.VersionTLS13)
	at := func(s *httptest.Server) framework.ServingEndpoint {
		return framework.ServingEndpoint{Name: "client", Address: s.Listener.Addr().String(), TLS: guarded.TLS}
	}
	n := etcdNode{endpoints: []framework.ServingEndpoint{guarded}, further: []framework.ServingEndpoint{at(plain), at(closed), etcdServer(t, "client", own, own, tls.VersionTLS13)}}
	w, read := recording(t)
	if err := UnknownEtcdClients(t.Context(), n, w); err != nil {
		t.Fatal(err)
	}
	served := 0
	for _, o := range read().Ops {
		if o.V.Key == "client/plaintext" && o.V.Found && o.V.Error == "POST /v3/kv/range: served at "+plain.Listener.Addr().String() {
			served++
		} else if o.V.Found != (o.V.Key == "client/own") {
			t.Errorf("%+v", o.V)
		}
	}
	if ops := read().Ops; served != 1 || len(ops) != 5 {
		t.Errorf("%d operations, %d of which were served in plaintext", len(ops), served)
	}
}

// A member that serves HTTP at another address closes the connections of HTTP clients. It serves
// gRPC clients all the same.
func TestUnknownEtcdClientsOverGRPC(t *testing.T) {
	urls := etcdtest.URLs(t, 3)
	config := embed.NewConfig()
	config.Name, config.Dir, config.LogLevel, config.UnsafeNoFsync = "node-1", t.TempDir(), "fatal", true
	urls[0].Scheme = "https"
	config.ClientAutoTLS = true // and no --client-cert-auth
	config.ListenClientUrls, config.AdvertiseClientUrls, config.ListenClientHttpUrls = urls[:1], urls[:1], urls[1:2]
	config.ListenPeerUrls, config.AdvertisePeerUrls, config.InitialCluster = urls[2:], urls[2:], "node-1="+urls[2].String()
	e, err := embed.StartEtcd(config)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	<-e.Server.ReadyNotify()
	at := framework.ServingEndpoint{Name: "client", Address: urls[0].Host, TLS: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}}
	w, read := recording(t)
	if err := UnknownEtcdClients(t.Context(), etcdNode{endpoints: []framework.ServingEndpoint{at}}, w); err != nil {
		t.Fatal(err)
	}
	want := map[string]record.Outcome{"client/plaintext": record.Refused, "client/no certificate": record.OK, "client/foreign CA": record.OK, "client/own CA": record.OK}
	for _, o := range read().Ops {
		if o.V.Outcome != want[o.V.Key] || o.V.Found != (o.V.Outcome == record.OK) {
			t.Errorf("%s: %s (%s)", o.V.Key, o.V.Outcome, o.V.Error)
		}
	}
}

func TestUnknownEtcdClients(t *testing.T) {
	own := pair(t)
	for name, tt := range map[string]struct {
		endpoint framework.ServingEndpoint
		want     map[string]record.Outcome
	}{
		"TLS 1.3": {etcdServer(t, "client", own, own, tls.VersionTLS13), map[string]record.Outcome{
			"client/plaintext": record.Refused, "client/no certificate": record.Refused, "client/foreign CA": record.Refused, "client/own": record.OK}},
		"TLS 1.2": {etcdServer(t, "peer", own, own, tls.VersionTLS12), map[string]record.Outcome{
			"peer/plaintext": record.Refused, "peer/no certificate": record.Refused, "peer/foreign CA": record.Refused, "peer/own": record.OK}},
		"without client certificates": {etcdServer(t, "peer", tls.Certificate{}, own, tls.VersionTLS13), map[string]record.Outcome{
			"peer/plaintext": record.Refused, "peer/no certificate": record.OK, "peer/foreign CA": record.OK, "peer/own": record.OK}},
		"the harness has no certificate": {etcdServer(t, "peer", own, pair(t), tls.VersionTLS13), map[string]record.Outcome{
			"peer/plaintext": record.Refused, "peer/no certificate": record.Refused, "peer/foreign CA": record.Refused, "peer/own": record.Refused}},
	} {
		w, read := recording(t)
		if err := UnknownEtcdClients(t.Context(), etcdNode{endpoints: []framework.ServingEndpoint{tt.endpoint}}, w); err != nil {
			t.Fatal(err)
		}
		ops := read().Ops
		for _, o := range ops {
			if o.V.Purpose != "unknown-etcd-client" || o.V.Entrance != "node-1" || o.V.Outcome != tt.want[o.V.Key] || o.V.Found != (o.V.Outcome == record.OK) {
				t.Errorf("%s: %+v", name, o.V)
			}
			if strings.HasSuffix(o.V.Key, "/own") != (o.V.Value != "") {
				t.Errorf("%s: %s has the certificate %q", name, o.V.Key, o.V.Value)
			}
		}
		if len(ops) != 4 {
			t.Errorf("%s: %d operations", name, len(ops))
		}
	}
}

// shut is a node that does not report where etcd serves; it is its cluster's only one.
type shut struct{ framework.Cluster }

func (n shut) Nodes() []framework.Node           { return []framework.Node{n} }
func (n shut) Name() string                      { return "node-1" }
func (n shut) Address() netip.Addr               { return netip.Addr{} }
func (n shut) Components() []framework.Component { return []framework.Component{framework.Etcd} }

func TestUnknownEtcdClientsWithoutAccess(t *testing.T) {
	w, read := recording(t)
	if err := UnknownEtcdClients(t.Context(), shut{}, w); err != nil {
		t.Fatal(err)
	}
	if ops := read().Ops; len(ops) != 1 || ops[0].V.Key != "no access" || ops[0].V.Outcome != record.Unknown {
		t.Errorf("%+v", ops)
	}
}

// What does not show that a port refuses clients is unknown.
func TestUnknownEtcdClientsWithoutAnAnswer(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	gone, err := net.Listen("tcp", "127.0.0.2:0") // all others are at 127.0.0.1
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer plain.Close()
	own := pair(t)
	untrusted := etcdServer(t, "client", own, own, tls.VersionTLS13)
	untrusted.TLS = &tls.Config{}
	other := etcdServer(t, "client", own, own, tls.VersionTLS13)
	at := func(l net.Listener) framework.ServingEndpoint {
		return framework.ServingEndpoint{Name: "client", Address: l.Addr().String(), TLS: &tls.Config{}}
	}
	for name, tt := range map[string]struct {
		endpoint framework.ServingEndpoint
		kind     int
		path     string
		want     record.Outcome
	}{
		"accepts and is silent":       {at(silent), 1, "/members", record.Unknown},
		"connection refused":          {at(gone), 0, "/members", record.Unknown},
		"no TLS":                      {at(plain.Listener), 1, "/members", record.Unknown},
		"served in plaintext":         {at(plain.Listener), 0, "/members", record.OK},
		"a server that is not known":  {untrusted, 3, "/members", record.Unknown},
		"another status than refused": {other, 3, "/elsewhere", record.Unknown},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		got, _, err := append(unknownClients(tt.endpoint, pair(t)), ownClient(tt.endpoint))[tt.kind].ask(ctx, etcdRead{http.MethodGet, tt.path, ""})
		cancel()
		if got != tt.want || (err == nil) != (got == record.OK) {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}
