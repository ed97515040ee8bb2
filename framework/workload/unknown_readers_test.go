package workload

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// readServer is an API server with an administrator's token and little to discover; open
// answers before it refuses unknown clients.
type readServer struct {
	framework.Cluster
	*httptest.Server
	open      func(w http.ResponseWriter, r *http.Request) bool
	now, most atomic.Int32
}

func (s *readServer) Entrances() []framework.Entrance {
	return []framework.Entrance{{Name: "node-1", Node: "node-1", Kind: framework.EntranceAPIServer,
		Config: &rest.Config{Host: s.URL, BearerToken: "admin", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}}}
}

func (s *readServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := s.now.Add(1)
	defer s.now.Add(-1)
	for most := s.most.Load(); now > most && !s.most.CompareAndSwap(most, now); most = s.most.Load() {
	}
	if r.Header.Get("Authorization") != "Bearer admin" {
		if s.open == nil || !s.open(w, r) {
			w.WriteHeader(http.StatusUnauthorized)
		}
		return
	}
	answers := map[string]string{
		"/":     `{"paths": ["/apis", "/version", "/livez/etcd", "/special"]}`,
		"/api":  `{"versions": ["v1"]}`,
		"/apis": `{"groups": [{"versions": [{"groupVersion": "apps/v1"}]}]}`,
		"/api/v1": `{"resources": [{"name": "secrets", "namespaced": true, "verbs": ["get", "list"]}, {"name": "bindings", "verbs": ["create"]},
			{"name": "nodes", "verbs": ["list"]}]}`,
		"/apis/apps/v1": `{"resources": []}`,
	}
	answer, ok := answers[r.URL.Path]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
	}
	_, _ = io.WriteString(w, answer)
}

func startReadServer(t *testing.T, open func(w http.ResponseWriter, r *http.Request) bool) *readServer {
	t.Helper()
	s := &readServer{open: open}
	s.Server = httptest.NewUnstartedServer(s)
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func TestUnknownReaders(t *testing.T) {
	token := func(r *http.Request) bool { return strings.HasPrefix(r.Header.Get("Authorization"), "Bearer unknown-") }
	certificate := func(r *http.Request) bool { return len(r.TLS.PeerCertificates) > 0 }
	// serve answers one path to the clients that are meant.
	serve := func(path string, status int, meant func(*http.Request) bool) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != path || !meant(r) {
				return false
			}
			w.WriteHeader(status)
			return true
		}
	}
	all := func(*http.Request) bool { return true }
	for name, tt := range map[string]struct {
		open                        func(http.ResponseWriter, *http.Request) bool
		anonymous, foreign, invalid string
	}{
		"closed":         {nil, "refused", "refused", "refused"},
		"only secrets":   {serve("/api/v1/secrets", 200, all), "ok /api/v1/secrets", "ok /api/v1/secrets", "ok /api/v1/secrets"},
		"one namespace":  {serve("/api/v1/namespaces/kube-public/secrets", 200, all), "ok /api/v1/namespaces/kube-public/secrets", "ok", "ok"},
		"the index's":    {serve("/special", 200, all), "ok /special", "ok", "ok"},
		"with a token":   {serve("/metrics", 200, token), "refused", "refused", "ok /metrics"},
		"a certificate":  {serve("/metrics", 200, certificate), "refused", "ok /metrics", "refused"},
		"public":         {serve("/livez/etcd", 200, all), "refused", "refused", "refused"},
		"does not exist": {serve("/logs", 404, all), "refused", "refused", "refused"},
		"fails":          {serve("/logs", 500, token), "refused", "refused", "unknown 1 of 29 paths have no answer; /logs: status 500"},
	} {
		s := startReadServer(t, tt.open)
		w, read := recording(t)
		if err := UnknownReaders(t.Context(), s, w); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, o := range read().Ops {
			// 18 others, six in namespaces, the index's, two group versions, two lists.
			if o.V.Purpose != "unknown-reader" || o.V.Entrance != "node-1" || o.V.Value != "29" || o.V.Found != (o.V.Outcome == record.OK) {
				t.Errorf("%s: %+v", name, o.V)
			}
			got[o.V.Key] = fmt.Sprintf("%s %s", o.V.Outcome, o.V.Error)
		}
		for kind, want := range map[string]string{"anonymous": tt.anonymous, "foreign CA": tt.foreign, "invalid token": tt.invalid} {
			if !strings.HasPrefix(got[kind], want) {
				t.Errorf("%s: %s: %q, want %q", name, kind, got[kind], want)
			}
		}
		if len(got) != 3 || s.most.Load() > readersAtATime {
			t.Errorf("%s: %d kinds of clients, %d requests at a time", name, len(got), s.most.Load())
		}
	}
}

// A server may refuse a certificate that it does not know in the handshake.
func TestUnknownReadersRefusedByTLS(t *testing.T) {
	s := startReadServer(t, nil)
	s.TLS.ClientAuth = tls.VerifyClientCertIfGiven
	s.TLS.ClientCAs = x509.NewCertPool()
	w, read := recording(t)
	if err := UnknownReaders(t.Context(), s, w); err != nil {
		t.Fatal(err)
	}
	for _, o := range read().Ops {
		if o.V.Outcome != record.Refused {
			t.Errorf("%+v", o.V)
		}
	}
}

// If an API server does not report what it serves, nothing is known about it.
func TestUnknownReadersWithoutDiscovery(t *testing.T) {
	s := startReadServer(t, nil)
	s.Config.Handler = http.NotFoundHandler()
	w, read := recording(t)
	if err := UnknownReaders(t.Context(), s, w); err != nil {
		t.Fatal(err)
	}
	ops := read().Ops
	for _, o := range ops {
		if o.V.Outcome != record.Unknown || !strings.HasPrefix(o.V.Error, "discovery of /") || o.V.Value != "0" {
			t.Errorf("%+v", o.V)
		}
	}
	if len(ops) != 3 {
		t.Errorf("%d operations", len(ops))
	}
}
