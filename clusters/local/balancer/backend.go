package balancer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
)

// backend is an API server with its state.
type backend struct {
	Backend
	health clusters.HealthCheck
	// connectOnly and checkPath are as in Config.
	connectOnly bool
	checkPath   string
	done        context.Context
	stop        context.CancelFunc

	mu     sync.Mutex
	closed bool
	State
	since time.Time
	conns map[*net.TCPConn]struct{}
}

// State is the state of an API server by its checks.
type State struct {
	Up bool
	// LastCheck is the outcome of the last check: "ok" or what went wrong.
	LastCheck string
	streak    int // checks in a row that contradict Up
}

// Judge applies one check's outcome, and reports whether Up has changed. The very first successful
// check is enough, so that a start does not wait for rise.
func (s *State) Judge(h clusters.HealthCheck, err error) (changed bool) {
	first := s.LastCheck == ""
	s.LastCheck = "ok"
	if err != nil {
		s.LastCheck = err.Error()
	}
	need := h.Rise
	if s.Up {
		need = h.Fall
	}
	if (err == nil) == s.Up {
		s.streak = 0
	} else if s.streak++; s.streak >= need || first {
		s.Up, s.streak, changed = !s.Up, 0, true
	}
	return changed
}

// Check asks at a fixed interval until ctx ends, so that a failure is known at the latest fall ×
// interval + timeout after it began.
func Check(ctx context.Context, h clusters.HealthCheck, ask func(context.Context) error, judge func(error)) {
	beat := time.NewTicker(h.Interval)
	defer beat.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, h.Timeout)
		err := ask(asking)
		cancel()
		if ctx.Err() != nil {
			return
		}
		judge(err)
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		}
	}
}

// newBackend creates a backend. Until its first check it is down, unless checks are disabled:
// then it is always up.
func newBackend(b Backend, health clusters.HealthCheck) *backend {
	done, stop := context.WithCancel(context.Background())
	return &backend{
		Backend: b,
		health:  health,
		done:    done,
		stop:    stop,
		State:   State{Up: health.Disabled},
		since:   time.Now(),
		conns:   map[*net.TCPConn]struct{}{},
	}
}

func (b *backend) check() {
	client := CheckClient()
	Check(b.done, b.health, func(ctx context.Context) error { return b.ask(ctx, client) }, b.judge)
}

func (b *backend) ask(ctx context.Context, client *http.Client) error {
	if !b.connectOnly {
		return Ready(ctx, client, "https://"+b.Address+b.checkPath)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", b.Address)
	if err == nil {
		err = conn.Close()
	}
	return err
}

// CheckClient returns a client for Ready.
func CheckClient() *http.Client {
	transport := &http.Transport{
		// The check asks for the address and the API server's own state, not its identity;
		// HAProxy is configured alike.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		// A check on a kept connection would not notice that new ones fail.
		DisableKeepAlives: true,
	}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// readyPath is where an API server reports whether it is ready.
const readyPath = "/readyz"

// Ready requests the URL of an API server's /readyz (or /healthz), and returns why it is not
// ready.
func Ready(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		return nil
	}
	failed := fmt.Errorf("%s answered %s", request.URL.Path, response.Status)
	// If the connection breaks here, the result is still not ready, without reasons.
	if body, _ := io.ReadAll(io.LimitReader(response.Body, maxReasons)); shutsDown(string(body)) {
		return draining{failed}
	}
	return failed
}

// maxReasons is how much of a failed /readyz is read.
const maxReasons = 16 << 10

// draining is the state of an API server that reports that it is shutting down and still serves
// existing connections.
type draining struct{ error }

// shutsDown reports whether a failed /readyz names the shutdown as its only reason
// ("[-]shutdown failed: reason withheld"; k8s.io/apiserver/pkg/server/healthz).
func shutsDown(reasons string) bool {
	failed := strings.Count("\n"+reasons, "\n[-]")
	return failed == 1 && strings.Contains("\n"+reasons, "\n[-]shutdown ")
}

func (b *backend) judge(err error) {
	b.mu.Lock()
	if b.Judge(b.health, err) {
		b.since = time.Now()
	}
	// A backend that is shutting down closes its connections itself, each when it is idle.
	var reset []*net.TCPConn
	if !b.Up && !errors.As(err, new(draining)) {
		reset = b.take()
	}
	b.mu.Unlock()
	resetAll(reset)
}

// close ends the checks and resets all connections.
func (b *backend) close() {
	b.stop()
	b.mu.Lock()
	b.closed, b.Up = true, false
	reset := b.take()
	b.mu.Unlock()
	resetAll(reset)
}

// take empties the set of connections.
func (b *backend) take() []*net.TCPConn {
	conns := slices.Collect(maps.Keys(b.conns))
	clear(b.conns)
	return conns
}

// add registers a pair of connections; false says that the backend went down in between.
func (b *backend) add(pair ...*net.TCPConn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || !b.Up {
		return false
	}
	for _, conn := range pair {
		b.conns[conn] = struct{}{}
	}
	return true
}

func (b *backend) remove(pair ...*net.TCPConn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, conn := range pair {
		delete(b.conns, conn)
	}
}

// usable reports whether the backend may be used.
func (b *backend) usable() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Up && !b.closed
}

func (b *backend) status() BackendStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	return BackendStatus{Name: b.Name, Address: b.Address, Healthy: b.Up, Since: b.since, LastCheck: b.LastCheck}
}

// resetAll closes connections with a reset, so that the client at the other end notices
// immediately, even with data in transit.
func resetAll(conns []*net.TCPConn) {
	for _, conn := range conns {
		conn.SetLinger(0)
		conn.Close()
	}
}
