package failover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// lab is stand-ins for API servers and one client for all of them.
type lab struct {
	servers []*httptest.Server
	mu      sync.Mutex
	asked   []string // by address and method, in the order of the requests
	do      []func(http.ResponseWriter, *http.Request) bool
	*Servers
	client *http.Client
}

func newLab(t *testing.T, n int, c Config) *lab {
	l := &lab{do: make([]func(http.ResponseWriter, *http.Request) bool, n)}
	for i := range n {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			l.mu.Lock()
			l.asked = append(l.asked, fmt.Sprintf("%d %s", i, r.Method))
			do := l.do[i]
			l.mu.Unlock()
			if do == nil || !do(w, r) {
				text, _ := io.ReadAll(r.Body)
				fmt.Fprintf(w, "%d %s", i, text)
			}
		}))
		s.EnableHTTP2 = true
		s.Config.ErrorLog = nil
		s.StartTLS()
		t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
		l.servers = append(l.servers, s)
		c.Addresses = append(c.Addresses, s.Listener.Addr().String())
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	l.Servers = s
	config := &rest.Config{Host: "https://nobody.invalid", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	config.Wrap(s.Wrap)
	if l.client, err = rest.HTTPClientFor(config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.client.CloseIdleConnections)
	return l
}

func (l *lab) request(ctx context.Context, method, body string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, "https://nobody.invalid/x", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	res, err := l.client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return fmt.Sprintf("%d %s", res.StatusCode, text), err
}

func (l *lab) get(t *testing.T) string {
	t.Helper()
	text, err := l.request(t.Context(), "GET", "")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// index returns which server the client is pinned to.
func (l *lab) index() int {
	return slices.IndexFunc(l.servers, func(s *httptest.Server) bool { return s.Listener.Addr().String() == l.Pinned() })
}

func (l *lab) hook(i int, do func(http.ResponseWriter, *http.Request) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.do[i] = do
}

func (l *lab) requests() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.asked)
}

func status(code int) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(code); return true }
}

func TestStartsAnywhere(t *testing.T) {
	started := map[string]int{}
	for range 300 {
		s, err := New(Config{Addresses: []string{"a:1", "b:1", "c:1"}})
		if err != nil {
			t.Fatal(err)
		}
		started[s.Pinned()]++
	}
	for _, a := range []string{"a:1", "b:1", "c:1"} {
		if started[a] < 50 {
			t.Errorf("%s was first %d times of 300", a, started[a])
		}
	}
	one, _ := New(Config{Addresses: []string{"a:1", "b:1", "c:1"}, Seed: 7})
	two, _ := New(Config{Addresses: []string{"a:1", "b:1", "c:1"}, Seed: 7})
	if one.Pinned() != two.Pinned() {
		t.Error("the same seed starts elsewhere")
	}
}

func TestNewRefuses(t *testing.T) {
	for _, addresses := range [][]string{nil, {"a:1", "10.0.0.1"}, {":6443"}, {"a:"}} {
		if _, err := New(Config{Addresses: addresses}); err == nil {
			t.Errorf("%q is accepted", addresses)
		}
	}
}

func TestStaysWhereItWorks(t *testing.T) {
	l := newLab(t, 3, Config{})
	want := fmt.Sprintf("200 %d ", l.index())
	for range 20 {
		if got := l.get(t); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	}
}

// A request fails only if every address fails.
func TestMovesOn(t *testing.T) {
	var moves []string
	l := newLab(t, 3, Config{Moved: func(from, to string, why error) { moves = append(moves, fmt.Sprint(from, to, why)) }})
	for range 2 {
		i := l.index()
		l.servers[i].CloseClientConnections()
		l.servers[i].Close()
		if got := l.get(t); !strings.HasPrefix(got, "200") || l.index() == i {
			t.Fatalf("%q from server %d after the end of %d", got, l.index(), i)
		}
	}
	l.servers[l.index()].CloseClientConnections()
	l.servers[l.index()].Close()
	_, err := l.request(t.Context(), "GET", "")
	if err == nil {
		t.Fatal("there is no server, and an answer")
	}
	for _, s := range l.servers {
		if !strings.Contains(err.Error(), s.Listener.Addr().String()) {
			t.Errorf("%v does not name %s", err, s.Listener.Addr())
		}
	}
	if len(moves) < 2 {
		t.Errorf("moves: %q", moves)
	}
}

// An API server that cannot serve says so with a 5xx.
func TestMovesOnFromErrors(t *testing.T) {
	for code, moves := range map[int]bool{500: true, 502: true, 503: true, 504: true, 429: false, 409: false, 404: false} {
		l := newLab(t, 3, Config{})
		i := l.index()
		l.hook(i, status(code))
		got := l.get(t)
		if want := fmt.Sprintf("%d ", code); !moves && (got != want || l.index() != i) {
			t.Errorf("%d: %q from %d, want %q", code, got, l.index(), want)
		} else if moves && (!strings.HasPrefix(got, "200") || l.index() == i) {
			t.Errorf("%d: %q, pinned to %d", code, got, l.index())
		}
	}
	l := newLab(t, 2, Config{})
	for i := range 2 {
		l.hook(i, status(503))
	}
	if got := l.get(t); got != "503 " {
		t.Errorf("all fail: %q", got)
	}
}

// A write that may have had an effect is not repeated, but the next request goes to another
// address. One that was never sent is repeated.
func TestWrites(t *testing.T) {
	l := newLab(t, 2, Config{})
	i := l.index()
	l.hook(i, func(w http.ResponseWriter, r *http.Request) bool { panic(http.ErrAbortHandler) })
	if _, err := l.request(t.Context(), "POST", "body"); err == nil {
		t.Error("the write was made again")
	}
	if got := l.requests(); len(got) != 1 {
		t.Errorf("requests: %q", got)
	}
	if l.index() == i {
		t.Error("pinned to the server that broke off")
	}
	l.hook(i, nil)
	if got, err := l.request(t.Context(), "POST", "body"); err != nil || got != fmt.Sprintf("200 %d body", l.index()) {
		t.Errorf("%q %v", got, err)
	}
	l.hook(l.index(), status(504))
	if got, err := l.request(t.Context(), "PUT", "body"); err != nil || got != "504 " || l.index() != i {
		t.Errorf("the answer to a write that may have had an effect is the caller's: %q %v", got, err)
	}

	l = newLab(t, 2, Config{})
	i = l.index()
	l.servers[i].Close()
	if got, err := l.request(t.Context(), "POST", "body"); err != nil || got != fmt.Sprintf("200 %d body", 1-i) {
		t.Errorf("a write that never left: %q %v", got, err)
	}
}

// A server that is frozen or black-holed answers nothing at all.
func TestPatience(t *testing.T) {
	l := newLab(t, 2, Config{Patience: time.Second})
	i := l.index()
	silent := func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true }
	l.hook(i, silent)
	if got := l.get(t); got != fmt.Sprintf("200 %d ", 1-i) || l.index() != 1-i {
		t.Errorf("%q, pinned to %d", got, l.index())
	}
	// A caller that cancels says nothing about the address.
	l.hook(1-i, silent)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := l.request(ctx, "GET", ""); !errors.Is(err, context.Canceled) || l.index() != 1-i {
		t.Errorf("%v, pinned to %d", err, l.index())
	}
	// A timeout while the server was silent does.
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := l.request(ctx, "POST", "x"); !errors.Is(err, context.DeadlineExceeded) || l.index() != i {
		t.Errorf("%v, pinned to %d", err, l.index())
	}
}

// An answer under way may take as long as it likes, as that of a watch does.
func TestStream(t *testing.T) {
	l := newLab(t, 2, Config{Patience: 500 * time.Millisecond})
	for i := range 2 {
		l.hook(i, func(w http.ResponseWriter, _ *http.Request) bool {
			for range 5 {
				fmt.Fprint(w, "x")
				w.(http.Flusher).Flush()
				time.Sleep(150 * time.Millisecond)
			}
			return true
		})
	}
	if got := l.get(t); got != "200 xxxxx" {
		t.Error(got)
	}
}

func TestLearn(t *testing.T) {
	l := newLab(t, 3, Config{})
	list := func(body string) {
		for i := range 3 {
			l.hook(i, func(w http.ResponseWriter, r *http.Request) bool {
				if strings.Contains(r.URL.Path, "endpointslices") {
					fmt.Fprint(w, body)
				}
				return strings.Contains(r.URL.Path, "endpointslices")
			})
		}
	}
	host, port, _ := net.SplitHostPort(l.servers[2].Listener.Addr().String())
	list(fmt.Sprintf(`{"items":[{"ports":[{"name":"https","port":%s},{"name":"other","port":1}],"endpoints":[{"addresses":[%q]},{"addresses":["10.9.9.9"],"conditions":{"ready":false}}]}]}`, port, host))
	if err := l.LearnOnce(t.Context(), l.client); err != nil {
		t.Fatal(err)
	}
	if got := l.Addresses(); !slices.Equal(got, []string{net.JoinHostPort(host, port)}) || l.index() != 2 {
		t.Errorf("learned %q, pinned to %d", got, l.index())
	}
	// An address that is learned and dead leaves those from the start.
	l.servers[2].CloseClientConnections()
	l.servers[2].Close()
	if got := l.get(t); !strings.HasPrefix(got, "200") || l.index() == 2 {
		t.Errorf("%q from %d", got, l.index())
	}
	for _, bad := range []string{`{}`, `{"items":[]}`, `no JSON`} {
		before := l.Addresses()
		list(bad)
		if err := l.LearnOnce(t.Context(), l.client); err == nil || !slices.Equal(l.Addresses(), before) {
			t.Errorf("%s: %v, %q", bad, err, l.Addresses())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { l.Learn(ctx, l.client, time.Hour); close(ended) }()
	cancel()
	<-ended
}

func TestManyAtOnce(t *testing.T) {
	l := newLab(t, 3, Config{Patience: time.Second})
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for range 50 {
				if _, err := l.request(t.Context(), "GET", ""); err != nil {
					t.Error(err)
				}
				if n == 0 {
					l.Set([]string{l.servers[0].Listener.Addr().String(), l.servers[1].Listener.Addr().String()})
				}
			}
		})
	}
	l.servers[2].CloseClientConnections()
	l.servers[2].Close()
	all.Wait()
}
