package workload

import (
	"crypto/tls"
	"crypto/x509/pkix"
	"fmt"
	"net/http"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
)

// replacer has clients of two CAs.
type replacer struct {
	framework.CARotator
	clients map[string]rest.TLSClientConfig
}

func (r replacer) EtcdCAClients() (map[string]rest.TLSClientConfig, error) { return r.clients, nil }
func (r replacer) FrontProxies() (map[string]rest.TLSClientConfig, error)  { return r.clients, nil }

// twoCAs returns a replacer, and the certificate of the client of the old CA.
func twoCAs(t *testing.T) (replacer, tls.Certificate) {
	t.Helper()
	clients := map[string]rest.TLSClientConfig{}
	for _, ca := range []string{"new", "old"} {
		certificate, key, err := foreignCertificate(pkix.Name{CommonName: "client of " + ca})
		if err != nil {
			t.Fatal(err)
		}
		clients[ca] = rest.TLSClientConfig{CertData: certificate, KeyData: key}
	}
	old, err := tls.X509KeyPair(clients["old"].CertData, clients["old"].KeyData)
	if err != nil {
		t.Fatal(err)
	}
	return replacer{clients: clients}, old
}

// TestTrustEtcdClients shows which clients a member is seen to accept on each of its ports.
func TestTrustEtcdClients(t *testing.T) {
	r, old := twoCAs(t)
	down := framework.ServingEndpoint{Name: "client", Address: "127.0.0.1:1", TLS: &tls.Config{}}
	for name, tt := range map[string]struct {
		endpoint framework.ServingEndpoint
		want     map[string]string
	}{
		"one CA, TLS 1.3": {etcdServer(t, "client", old, old, tls.VersionTLS13), map[string]string{"etcd-client/old": "ok ", "etcd-client/new": "refused TLS alert"}},
		"one CA, TLS 1.2": {etcdServer(t, "peer", old, old, tls.VersionTLS12), map[string]string{"etcd-peer/old": "ok ", "etcd-peer/new": "refused TLS alert"}},
		"any client":      {etcdServer(t, "peer", tls.Certificate{}, old, tls.VersionTLS13), map[string]string{"etcd-peer/old": "ok ", "etcd-peer/new": "ok "}},
		"no answer":       {down, map[string]string{"etcd-client/old": "unknown ", "etcd-client/new": "unknown "}},
	} {
		t.Run(name, func(t *testing.T) {
			w, read := recording(t)
			if err := lookAtEtcdClients(t.Context(), etcdNode{endpoints: []framework.ServingEndpoint{tt.endpoint}}, r, w); err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, o := range read().Ops {
				if o.V.Entrance != "node-1" || o.V.Purpose != "trust" || o.V.Found != (o.V.Outcome == record.OK) {
					t.Errorf("%+v", o.V)
				}
				got[o.V.Key] = string(o.V.Outcome) + " " + o.V.Value
			}
			if fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

// TestTrustFrontProxies shows on whose behalf a front proxy is seen to make its requests.
func TestTrustFrontProxies(t *testing.T) {
	r, _ := twoCAs(t)
	c := apitest.New(t, 2)
	for i := range 2 {
		s := c.Server(i)
		s.Hook(func(w http.ResponseWriter, r *http.Request) bool {
			if s.Name == "node-2" {
				apitest.Fail(w, http.StatusUnauthorized, "Unauthorized", "Unauthorized")
				return true
			}
			fmt.Fprintf(w, `{"status":{"userInfo":{"username":%q}}}`, r.Header.Get("X-Remote-User"))
			return true
		})
	}
	w, read := recording(t)
	if err := lookAtFrontProxies(t.Context(), apiServers(c.Entrances()), r, w); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, o := range read().Ops {
		got[o.V.Key+" at "+o.V.Entrance] = string(o.V.Outcome) + " " + o.V.Value
	}
	want := map[string]string{
		"front-proxy/old at node-1": "ok " + proxiedUser, "front-proxy/new at node-1": "ok " + proxiedUser,
		"front-proxy/old at node-2": "refused Unauthorized", "front-proxy/new at node-2": "refused Unauthorized",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}
