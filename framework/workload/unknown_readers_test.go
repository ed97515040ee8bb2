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
		"/openapi/v3":   `{"paths": {"api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?hash=1"}, "gone": {"serverRelativeURL": "/openapi/v3/gone?hash=2"}}}`,
		"/openapi/v3/api/v1": `{"paths": {"/api/v1/namespaces/{namespace}/secrets": {"get": {}, "post": {}}, "/api/v1/namespaces/{namespace}/secrets/{name}": {"get": {}},
			"/api/v1/watch/secrets": {"get": {}}, "/api/v1/nodes/{name}/proxy/{path}": {"get": {}, "delete": {}}, "/api/v1/bindings": {"post": {}}}}`,
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
	absentSecret := func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/api/v1/namespaces/default/secrets/holdfast-unknown" {
			return false
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"kind": "Status", "status": "Failure", "reason": "NotFound", "details": {"name": "holdfast-unknown", "kind": "secrets"}, "code": 404}`)
		return true
	}
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
		"does not exist": {serve("/logs", 404, all), "refused 31 × 401, 1 × 404 (/logs)", "refused", "refused"},
		"only watched":   {serve("/api/v1/watch/secrets", 200, all), "ok /api/v1/watch/secrets; 1 × 200 (/api/v1/watch/secrets), 31 × 401", "ok", "ok"},
		"by name":        {absentSecret, "ok /api/v1/namespaces/default/secrets/holdfast-unknown; 31 × 401, 1 × 404 (/api", "ok", "ok"},
		"fails":          {serve("/logs", 500, token), "refused", "refused", "unknown 1 of 32 paths have no answer; /logs: status 500"},
	} {
		s := startReadServer(t, tt.open)
		w, read := recording(t)
		if err := UnknownReaders(t.Context(), s, w); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, o := range read().Ops {
			// 18 others, six in namespaces, the index's, two group versions, two lists, three that
			// only OpenAPI lists.
			if o.V.Purpose != "unknown-reader" || o.V.Entrance != "node-1" || o.V.Value != "32" || o.V.Found != (o.V.Outcome == record.OK && name != "by name") {
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

// A client to which everything is served does not request everything.
func TestUnknownReadersStopEarly(t *testing.T) {
	s := startReadServer(t, func(http.ResponseWriter, *http.Request) bool { return true })
	w, read := recording(t)
	if err := UnknownReaders(t.Context(), s, w); err != nil {
		t.Fatal(err)
	}
	for _, o := range read().Ops {
		var requested int
		if _, err := fmt.Sscanf(o.V.Error, "/; %d × 200 (/, ", &requested); err != nil || requested < enoughServed || requested > enoughServed+readersAtATime {
			t.Errorf("%+v", o.V)
		}
	}
}

// An API server without OpenAPI v3 is asked for what discovery lists, and one whose document
// cannot be read is not fully known.
func TestReadablePaths(t *testing.T) {
	s := startReadServer(t, nil)
	admin := s.Config.Handler
	for status, want := range map[int]int{http.StatusNotFound: 29, http.StatusForbidden: 0} {
		s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/openapi/v3") {
				w.WriteHeader(status)
				return
			}
			admin.ServeHTTP(w, r)
		})
		paths, err := readablePaths(t.Context(), s.Entrances()[0])
		if len(paths) != want || (err != nil) != (want == 0) {
			t.Errorf("status %d: %d paths, %v", status, len(paths), err)
		}
	}
}

func TestIsWatch(t *testing.T) {
	for path, want := range map[string]bool{"/api/v1/watch/pods": true, "/apis/apps/v1/watch/deployments": true, "/api/v1/pods": false,
		"/apis/watch/v1/pods": false, "/apis/apps/v1/namespaces/watch": false, "/": false} {
		if isWatch(path) != want {
			t.Errorf("%s: %t", path, !want)
		}
	}
}
