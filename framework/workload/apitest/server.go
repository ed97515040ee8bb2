// Package apitest is a small stand-in for API servers, for the unit tests of traffic and
// observers: it implements just enough of the protocol, on loopback, with TLS. It must show how
// clients handle responses, including the worst; the end-to-end suites use a real control plane.
package apitest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/framework"
)

// Cluster is a store behind some API servers.
type Cluster struct {
	mu       sync.Mutex
	revision int
	objects  map[string]map[string]any // by path of the object
	history  []event
	gone     int // revisions up to this one are compacted
	changed  chan struct{}
	servers  []*Server
}

type event struct {
	kind, path string
	revision   int
	object     map[string]any
}

// Server is one API server.
type Server struct {
	Name string
	*httptest.Server
	memory  *memory // nil with a socket
	cluster *Cluster
	mu      sync.Mutex
	hook    func(http.ResponseWriter, *http.Request) bool
	counts  map[string]int
}

// New returns a cluster of n servers named node-1, node-2, ... They stop with the test.
func New(t testing.TB, n int) *Cluster {
	return start(t, n, func(s *Server) { s.Server = httptest.NewUnstartedServer(s) })
}

// NewInMemory is New without sockets, for tests in a bubble of testing/synctest: time does not pass
// there while a goroutine waits for a socket.
func NewInMemory(t testing.TB, n int) *Cluster {
	return start(t, n, func(s *Server) {
		s.memory = &memory{make(chan net.Conn), make(chan struct{}), sync.Once{}}
		s.Server = &httptest.Server{Listener: s.memory, Config: &http.Server{Handler: s}}
	})
}

// memory is a listener without sockets. Its connections are those of net.Pipe, on which a deadline in
// the past takes effect at once, as HTTP servers need.
type memory struct {
	dialed chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.dialed:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

func (m *memory) Close() error { m.once.Do(func() { close(m.closed) }); return nil }

func (m *memory) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

func (m *memory) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case m.dialed <- theirs:
		return ours, nil
	case <-m.closed:
		return nil, &net.OpError{Op: "dial", Net: "memory", Addr: m.Addr(), Err: syscall.ECONNREFUSED}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func start(t testing.TB, n int, listen func(*Server)) *Cluster {
	c := &Cluster{objects: map[string]map[string]any{}, changed: make(chan struct{})}
	for i := range n {
		s := &Server{Name: fmt.Sprintf("node-%d", i+1), cluster: c, counts: map[string]int{}}
		listen(s)
		s.Server.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that disconnect are part of the tests
		s.EnableHTTP2 = true
		s.TLS = &tls.Config{Certificates: []tls.Certificate{certificate()}, CurvePreferences: []tls.CurveID{tls.X25519}} // the least costly
		s.StartTLS()
		t.Cleanup(func() {
			s.CloseClientConnections()
			s.Close()
		})
		c.servers = append(c.servers, s)
	}
	return c
}

// certificate is that of all servers, and valid for the same names as httptest's.
// Signatures with it take a fraction of the time of those with httptest's RSA key.
var certificate = sync.OnceValue(func() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		DNSNames: []string{"example.com", "*.example.com"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{cert}, PrivateKey: key}
})

// Server returns the i-th server.
func (c *Cluster) Server(i int) *Server { return c.servers[i] }

// Hook passes every request through h first; h returns true if it has answered. nil removes it.
func (s *Server) Hook(h func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = h
}

// Count returns how many requests with a method arrived.
func (s *Server) Count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[method]
}

// Config returns an administrator's configuration for the server.
func (s *Server) Config() *rest.Config {
	cfg := &rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	if s.memory != nil {
		cfg.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return s.memory.dial(ctx) }
	}
	return cfg
}

func (c *Cluster) Name() string                                        { return "apitest" }
func (c *Cluster) Settings() framework.Settings                        { return framework.Settings{} }
func (c *Cluster) Versions() map[string]map[framework.Component]string { return nil }
func (n node) Name() string                                            { return n.name }
func (n node) Address() netip.Addr                                     { return netip.MustParseAddr("127.0.0.1") }
func (n node) Components() []framework.Component                       { return []framework.Component{framework.APIServer} }

type node struct{ name string }

func (c *Cluster) Nodes() []framework.Node {
	var all []framework.Node
	for _, s := range c.servers {
		all = append(all, node{s.Name})
	}
	return all
}

func (c *Cluster) Entrances() []framework.Entrance {
	var all []framework.Entrance
	for _, s := range c.servers {
		all = append(all, framework.Entrance{Name: s.Name, Node: s.Name, Kind: framework.EntranceAPIServer, Config: s.Config()})
	}
	return all
}

// Set stores an object, given as JSON, under its path. An EndpointSlice without labels becomes
// one of the kubernetes service.
func (c *Cluster) Set(path, object string) {
	var o map[string]any
	if err := json.Unmarshal([]byte(object), &o); err != nil {
		panic(err)
	}
	if strings.Contains(path, "/endpointslices/") && meta(o)["labels"] == nil {
		meta(o)["labels"] = map[string]any{"kubernetes.io/service-name": "kubernetes"}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(path, o)
}

// Has reports whether an object exists at a path.
func (c *Cluster) Has(path string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.objects[path] != nil
}

// Compact discards the history so far.
func (c *Cluster) Compact() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = c.revision
}

// Revision returns the store's revision.
func (c *Cluster) Revision() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.revision
}

func (c *Cluster) put(path string, o map[string]any) {
	kind := "MODIFIED"
	if c.objects[path] == nil {
		kind = "ADDED"
	}
	if meta(o)["uid"] == nil {
		meta(o)["uid"] = "uid-of-" + path
	}
	c.objects[path] = o
	c.note(kind, path, o)
}

func (c *Cluster) note(kind, path string, o map[string]any) {
	c.revision++
	meta(o)["resourceVersion"] = strconv.Itoa(c.revision)
	c.history = append(c.history, event{kind, path, c.revision, copied(o)})
	close(c.changed)
	c.changed = make(chan struct{})
}

func copied(o map[string]any) map[string]any {
	b, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	var out map[string]any
	if err := json.Unmarshal(b, &out); err != nil {
		panic(err)
	}
	return out
}

func meta(o map[string]any) map[string]any {
	m, ok := o["metadata"].(map[string]any)
	if !ok {
		m = map[string]any{}
		o["metadata"] = m
	}
	return m
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.counts[r.Method]++
	hook := s.hook
	s.mu.Unlock()
	if hook != nil && hook(w, r) {
		return
	}
	c := s.cluster
	if r.URL.Path == "/readyz" {
		fmt.Fprint(w, "ok")
		return
	}
	if r.URL.Query().Get("watch") != "" {
		c.watch(w, r)
		return
	}
	var body map[string]any
	if r.Body != nil {
		_ = json.NewDecoder(r.Body).Decode(&body)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	path := strings.TrimSuffix(r.URL.Path, "/status")
	old := c.objects[path]
	switch r.Method {
	case http.MethodGet:
		if isCollection(path) {
			c.list(w, r)
		} else if old == nil {
			missing(w, path)
		} else {
			answer(w, 200, old)
		}
	case http.MethodPost:
		path += "/" + meta(body)["name"].(string)
		if c.objects[path] != nil {
			refuse(w, 409, "AlreadyExists", path)
			return
		}
		c.put(path, body)
		answer(w, 201, body)
	case http.MethodPut:
		if old == nil {
			missing(w, path)
		} else if v := meta(body)["resourceVersion"]; v != nil && v != meta(old)["resourceVersion"] {
			refuse(w, 409, "Conflict", path)
		} else {
			c.put(path, body)
			answer(w, 200, body)
		}
	case http.MethodPatch:
		if old == nil {
			missing(w, path)
			return
		}
		changed := copied(old)
		merge(changed, body)
		c.put(path, changed)
		answer(w, 200, changed)
	case http.MethodDelete:
		if isCollection(path) {
			c.deleteAll(w, r)
			return
		}
		if old == nil {
			missing(w, path)
			return
		}
		if p, ok := body["preconditions"].(map[string]any); ok && p["resourceVersion"] != meta(old)["resourceVersion"] {
			refuse(w, 409, "Conflict", strings.Replace(path, "/configmaps/", "/ConfigMap/", 1)) // as BeforeDelete of k8s.io/apiserver
			return
		}
		delete(c.objects, path)
		c.note("DELETED", path, old)
		answer(w, 200, map[string]any{"kind": "Status", "status": "Success"})
	}
}

func missing(w http.ResponseWriter, path string) { refuse(w, 404, "NotFound", path) }

// refuse answers with a metav1.Status that names the object.
func refuse(w http.ResponseWriter, code int, reason, path string) {
	parts := strings.Split(path, "/")
	answer(w, code, map[string]any{
		"kind": "Status", "status": "Failure", "reason": reason, "code": code,
		"details": map[string]any{"kind": parts[len(parts)-2], "name": parts[len(parts)-1]},
	})
}

// Fail answers with a metav1.Status.
func Fail(w http.ResponseWriter, code int, reason, message string) {
	answer(w, code, map[string]any{"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": code})
}

func answer(w http.ResponseWriter, code int, o any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(o)
}
