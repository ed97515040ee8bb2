package balancer

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework/polltest"
)

// server is a stand-in for an API server: it speaks TLS, returns its name, and is ready or not
// as configured. /hold answers when the client disconnects.
type server struct {
	*httptest.Server
	name  string
	ready atomic.Bool
	says  atomic.Value // a string: what is wrong, while it is not ready
	asked atomic.Int64 // health checks
}

func startServer(t *testing.T, name string) *server {
	t.Helper()
	s := &server{name: name}
	s.ready.Store(true)
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/readyz":
			s.asked.Add(1)
			if !s.ready.Load() {
				w.WriteHeader(http.StatusInternalServerError)
				if text, ok := s.says.Load().(string); ok {
					fmt.Fprint(w, text)
				}
			}
		case r.URL.Path == "/hold":
			w.WriteHeader(http.StatusOK)
			fmt.Fprint(w, name)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			fmt.Fprint(w, name)
		}
	}))
	// Its complaints about checks that are cut off are no use here.
	s.Server.Config.ErrorLog = discard()
	s.Server.StartTLS()
	t.Cleanup(func() { s.Server.CloseClientConnections(); s.Server.Close() })
	return s
}

func (s *server) backend() Backend {
	return Backend{Name: s.name, Address: s.Listener.Addr().String()}
}

// die ends a server as SIGKILL would: connections are gone, and none is taken.
func (s *server) die() {
	s.Listener.Close()
	s.CloseClientConnections()
}

// startSilent stands for a frozen API server: the kernel accepts connections,
// they get no answers.
func startSilent(t *testing.T, name string) Backend {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return Backend{Name: name, Address: listener.Addr().String()}
}

func quick() clusters.HealthCheck {
	return clusters.HealthCheck{Interval: 100 * time.Millisecond, Timeout: 100 * time.Millisecond, Fall: 2, Rise: 1}
}

// seldom never checks again in a test: only the first check counts.
func seldom() clusters.HealthCheck {
	return clusters.HealthCheck{Interval: time.Hour, Timeout: 5 * time.Second, Fall: 2, Rise: 1}
}

func blind() clusters.HealthCheck {
	h := quick()
	h.Disabled = true
	return h
}

func start(t *testing.T, c Config) *Balancer {
	t.Helper()
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	b, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func newClient(keep bool) *http.Client {
	return &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: !keep},
	}
}

// ask makes a request on a new connection and returns who answered.
func ask(address string) (string, error) {
	response, err := newClient(false).Get("https://" + address + "/")
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	name, err := io.ReadAll(response.Body)
	return string(name), err
}

// askMany returns how often each server answered; "" counts failures.
func askMany(address string, n int) map[string]int {
	got := map[string]int{}
	for range n {
		name, _ := ask(address)
		got[name]++
	}
	return got
}

var eventually = polltest.Until

func (b *Balancer) waitHealthy(t *testing.T, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d backends are healthy", n), func() bool {
		healthy := 0
		for _, backend := range b.Status().Backends {
			if backend.Healthy {
				healthy++
			}
		}
		return healthy == n
	})
}

func TestRoundRobin(t *testing.T) {
	one, two, three := startServer(t, "one"), startServer(t, "two"), startServer(t, "three")
	b := start(t, Config{Backends: []Backend{one.backend(), two.backend(), three.backend()}, HealthCheck: seldom()})
	b.waitHealthy(t, 3)
	got := askMany(b.Addr().String(), 9)
	if got["one"] != 3 || got["two"] != 3 || got["three"] != 3 {
		t.Errorf("9 requests went to %v", got)
	}
}

func connections(b *Balancer) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, backend := range b.backends {
		backend.mu.Lock()
		n += len(backend.conns) / 2
		backend.mu.Unlock()
	}
	return n
}

// hold opens a request that continues, and returns who answers it.
func hold(t *testing.T, address string) (string, io.ReadCloser) {
	t.Helper()
	client := newClient(true)
	client.Timeout = 0
	response, err := client.Get("https://" + address + "/hold")
	if err != nil {
		t.Fatal(err)
	}
	name := make([]byte, 16)
	n, err := response.Body.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(name[:n]), response.Body
}

func TestDownAndUp(t *testing.T) {
	one, two := startServer(t, "one"), startServer(t, "two")
	servers := map[string]*server{"one": one, "two": two}
	b := start(t, Config{Backends: []Backend{one.backend(), two.backend()}, HealthCheck: quick()})
	b.waitHealthy(t, 2)
	name, body := hold(t, b.Addr().String())
	defer body.Close()

	servers[name].ready.Store(false)
	b.waitHealthy(t, 1)
	if _, err := io.ReadAll(body); err == nil {
		t.Error("the connection to the backend that is down ended as if nothing were wrong")
	}
	if got := askMany(b.Addr().String(), 6); got[name] != 0 || got[""] != 0 {
		t.Errorf("%s is down, and 6 requests went to %v", name, got)
	}
	servers[name].ready.Store(true)
	b.waitHealthy(t, 2)
	if got := askMany(b.Addr().String(), 6); got[name] == 0 {
		t.Errorf("%s is up again, and 6 requests went to %v", name, got)
	}
}

// TestDrain: an API server that is shutting down keeps its clients, as long as nothing else is
// wrong with it, and receives no new ones.
func TestDrain(t *testing.T) {
	one, two := startServer(t, "one"), startServer(t, "two")
	servers := map[string]*server{"one": one, "two": two}
	check := clusters.HealthCheck{Interval: 200 * time.Millisecond, Timeout: 200 * time.Millisecond, Fall: 3, Rise: 1}
	b := start(t, Config{Backends: []Backend{one.backend(), two.backend()}, HealthCheck: check})
	b.waitHealthy(t, 2)
	name, body := hold(t, b.Addr().String())
	defer body.Close()
	broken := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(body)
		broken <- err
	}()

	servers[name].says.Store("[+]ping ok\n[+]etcd ok\n[-]shutdown failed: reason withheld\nreadyz check failed")
	servers[name].ready.Store(false)
	b.waitHealthy(t, 1)
	if got := askMany(b.Addr().String(), 6); got[name] != 0 || got[""] != 0 {
		t.Errorf("%s shuts down, and 6 requests went to %v", name, got)
	}
	select {
	case err := <-broken:
		t.Fatalf("the connection to the backend that shuts down ended: %v", err)
	case <-time.After(5 * check.Interval):
	}
	servers[name].says.Store("[+]ping ok\n[-]etcd failed: reason withheld\n[-]shutdown failed: reason withheld\nreadyz check failed")
	select {
	case <-broken:
	case <-time.After(5 * time.Second):
		t.Error("the connection to a backend with another fault goes on")
	}
}

func TestFallAndRise(t *testing.T) {
	h := clusters.HealthCheck{Interval: time.Hour, Timeout: time.Second, Fall: 3, Rise: 2}
	bad := fmt.Errorf("bad")
	for _, tc := range []struct {
		name   string
		checks []error
		want   []bool
	}{
		{"the first good check is enough", []error{nil}, []bool{true}},
		{"three bad ones in a row", []error{nil, bad, bad, bad}, []bool{true, true, true, false}},
		{"a good one between", []error{nil, bad, bad, nil, bad, bad}, []bool{true, true, true, true, true, true}},
		{"two good ones to come back", []error{bad, nil, bad, nil, nil}, []bool{false, false, false, false, true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBackend(Backend{Name: "one"}, h)
			for i, err := range tc.checks {
				b.judge(err)
				if b.Up != tc.want[i] {
					t.Fatalf("after check %d: healthy is %v", i+1, b.Up)
				}
			}
		})
	}
}

// TestDeadBackend: before the checks notice, clients are passed on.
func TestDeadBackend(t *testing.T) {
	one, two := startServer(t, "one"), startServer(t, "two")
	b := start(t, Config{Backends: []Backend{one.backend(), two.backend()}, HealthCheck: seldom()})
	b.waitHealthy(t, 2)
	one.die()
	if got := askMany(b.Addr().String(), 8); got["two"] != 8 {
		t.Errorf("one is dead, and 8 requests went to %v", got)
	}
	if !b.Status().Backends[0].Healthy {
		t.Error("the checks noticed first")
	}
}

// TestBlind: without checks, each turn of the dead backend is a failure, and
// it stays so.
func TestBlind(t *testing.T) {
	one, two := startServer(t, "one"), startServer(t, "two")
	b := start(t, Config{Backends: []Backend{one.backend(), two.backend()}, HealthCheck: blind()})
	one.die()
	for range 2 {
		if got := askMany(b.Addr().String(), 6); got["two"] != 3 || got[""] != 3 {
			t.Errorf("one is dead, nobody checks, and 6 requests went to %v", got)
		}
	}
	if two.asked.Load() != 0 {
		t.Error("health was checked all the same")
	}
}

func TestSilentBackend(t *testing.T) {
	one, two := startServer(t, "one"), startSilent(t, "two")
	b := start(t, Config{Backends: []Backend{one.backend(), two}, HealthCheck: quick()})
	b.waitHealthy(t, 1)
	eventually(t, "a check has timed out", func() bool {
		return strings.Contains(b.Status().Backends[1].LastCheck, "deadline")
	})
	if got := askMany(b.Addr().String(), 4); got["one"] != 4 {
		t.Errorf("two is silent, and 4 requests went to %v", got)
	}
}

func TestNobodyHealthy(t *testing.T) {
	one := startServer(t, "one")
	one.ready.Store(false)
	b := start(t, Config{Backends: []Backend{one.backend()}, HealthCheck: quick()})
	eventually(t, "it was checked", func() bool { return one.asked.Load() > 0 })
	if name, err := ask(b.Addr().String()); err == nil {
		t.Errorf("%q answers, which is not ready", name)
	}
}

func TestReconfigure(t *testing.T) {
	one, two := startServer(t, "one"), startServer(t, "two")
	c := Config{Listen: "127.0.0.1:0", Backends: []Backend{one.backend()}, HealthCheck: quick()}
	b := start(t, c)
	b.waitHealthy(t, 1)
	_, body := hold(t, b.Addr().String())
	defer body.Close()

	c.Backends = []Backend{one.backend(), two.backend()}
	if err := b.Reconfigure(c); err != nil {
		t.Fatal(err)
	}
	b.waitHealthy(t, 2)
	if connections(b) != 1 {
		t.Error("a backend that stayed lost its connection")
	}
	c.Backends = []Backend{two.backend()}
	if err := b.Reconfigure(c); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(body); err == nil {
		t.Error("the connection to the backend that is gone ended as if nothing were wrong")
	}
	if got := askMany(b.Addr().String(), 4); got["two"] != 4 {
		t.Errorf("one is gone, and 4 requests went to %v", got)
	}
	c.Listen = "127.0.0.1:1"
	if err := b.Reconfigure(c); err == nil {
		t.Error("it moved to another address, or says so")
	}
}

func TestStatusPage(t *testing.T) {
	one := startServer(t, "one")
	b := start(t, Config{Status: "127.0.0.1:0", Backends: []Backend{one.backend()}, HealthCheck: quick()})
	b.waitHealthy(t, 1)
	response, err := http.Get("http://" + b.statusAt.String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var s Status
	if err := json.NewDecoder(response.Body).Decode(&s); err != nil {
		t.Fatal(err)
	}
	if len(s.Backends) != 1 || s.Backends[0].Name != "one" || !s.Backends[0].Healthy || s.Backends[0].LastCheck != "ok" {
		t.Errorf("the status page says %+v", s)
	}
}

func TestValidate(t *testing.T) {
	good := Config{Listen: "127.0.0.1:0", Backends: []Backend{{"one", "127.0.0.1:1"}}, HealthCheck: quick()}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Config){
		"listen":       func(c *Config) { c.Listen = "nowhere" },
		"algorithm":    func(c *Config) { c.Algorithm = "random" },
		"address":      func(c *Config) { c.Backends = []Backend{{"one", "127.0.0.1"}} },
		"twice":        func(c *Config) { c.Backends = append(c.Backends, c.Backends...) },
		"no name":      func(c *Config) { c.Backends = []Backend{{"", "127.0.0.1:1"}} },
		"health check": func(c *Config) { c.HealthCheck = clusters.HealthCheck{} },
	} {
		bad := good
		bad.Backends = append([]Backend{}, good.Backends...)
		change(&bad)
		if _, err := Start(bad); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
