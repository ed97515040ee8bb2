package balancer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
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

	mu        sync.Mutex
	closed    bool
	healthy   bool
	since     time.Time
	lastCheck string
	streak    int // checks in a row that contradict healthy
	conns     map[*net.TCPConn]struct{}
	total     uint64
	failed    uint64
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
		healthy: health.Disabled,
		since:   time.Now(),
		conns:   map[*net.TCPConn]struct{}{},
	}
}

// check checks the state at a fixed interval, so that a failure is known at the latest fall ×
// interval + timeout after it began.
func (b *backend) check() {
	client := CheckClient()
	beat := time.NewTicker(b.health.Interval)
	defer beat.Stop()
	for {
		err := b.ask(client)
		if b.done.Err() != nil {
			return
		}
		b.judge(err)
		select {
		case <-b.done.Done():
			return
		case <-beat.C:
		}
	}
}

func (b *backend) ask(client *http.Client) error {
	ctx, cancel := context.WithTimeout(b.done, b.health.Timeout)
	defer cancel()
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

// judge applies one check's outcome. A backend's very first successful check is enough, so that
// a start does not wait for rise.
func (b *backend) judge(err error) {
	b.mu.Lock()
	first := b.lastCheck == ""
	b.lastCheck = "ok"
	if err != nil {
		b.lastCheck = err.Error()
	}
	need := b.health.Rise
	if b.healthy {
		need = b.health.Fall
	}
	if (err == nil) == b.healthy {
		b.streak = 0
	} else if b.streak++; b.streak >= need || first {
		b.healthy, b.streak, b.since = !b.healthy, 0, time.Now()
	}
	// A backend that is shutting down closes its connections itself, each when it is idle.
	var reset []*net.TCPConn
	if !b.healthy && !errors.As(err, new(draining)) {
		reset = b.take()
	}
	b.mu.Unlock()
	resetAll(reset)
}

// close ends the checks and resets all connections.
func (b *backend) close() {
	b.stop()
	b.mu.Lock()
	b.closed, b.healthy = true, false
	reset := b.take()
	b.mu.Unlock()
	resetAll(reset)
}

// take empties the set of connections.
func (b *backend) take() []*net.TCPConn {
	conns := make([]*net.TCPConn, 0, len(b.conns))
	for conn := range b.conns {
		conns = append(conns, conn)
	}
	clear(b.conns)
	return conns
}

// add registers a pair of connections; false says that the backend went down in between.
func (b *backend) add(pair ...*net.TCPConn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || !b.healthy {
		return false
	}
	for _, conn := range pair {
		b.conns[conn] = struct{}{}
	}
	b.total++
	return true
}

func (b *backend) remove(pair ...*net.TCPConn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, conn := range pair {
		delete(b.conns, conn)
	}
}

func (b *backend) fail() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed++
}

// load reports whether the backend may be used, and how many clients it has.
func (b *backend) usable() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.healthy && !b.closed
}

func (b *backend) status() BackendStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	return BackendStatus{
		Name: b.Name, Address: b.Address, Healthy: b.healthy, Since: b.since,
		Connections: len(b.conns) / 2, Total: b.total, Failed: b.failed, LastCheck: b.lastCheck,
	}
}

// resetAll closes connections with a reset, so that the client at the other end notices
// immediately, even with data in transit.
func resetAll(conns []*net.TCPConn) {
	for _, conn := range conns {
		conn.SetLinger(0)
		conn.Close()
	}
}
