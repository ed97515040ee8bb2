// Package balancer is the load balancer in front of the API servers: a transport-layer proxy of
// its own, with active health checks, and the configuration of HAProxy for the same purpose.
//
// The built-in one runs as a role of holdfast's own binary (Main). It requests /readyz from
// each API server over TLS. Clients go to the healthy ones in turn. When one is marked down,
// its connections are reset, so that clients notice, unless it reports that it is shutting
// down: then it closes them itself as they become idle. With health checks disabled it sends
// clients to every server, which is how a violation is planted. It can also serve names instead
// of connections (round-robin DNS).
package balancer

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
)

// dialTimeout is the longest wait for a backend to accept a connection. It is shorter if a
// check's timeout is.
const dialTimeout = 5 * time.Second

// Config describes a balancer. Its JSON form is the file that Main reads.
type Config struct {
	// Listen is the address that clients connect to, such as 10.77.0.10:6443.
	Listen string `json:"listen"`
	// Names makes the balancer a DNS server instead: it answers queries for one of these names
	// with the addresses of the healthy backends. Clients connect to these themselves.
	Names []string `json:"names,omitempty"`
	// Status is the address of the status page, which serves Status as JSON
	// for any path; empty for none.
	Status   string    `json:"status,omitempty"`
	Backends []Backend `json:"backends"`
	// HealthCheck is how backends are checked; durations in nanoseconds.
	HealthCheck clusters.HealthCheck `json:"healthCheck"`
	// Algorithm chooses among healthy backends; RoundRobin if empty.
	Algorithm Algorithm `json:"algorithm,omitempty"`
	// ConnectOnly makes a check only open a connection, without requesting CheckPath.
	ConnectOnly bool `json:"connectOnly,omitempty"`
	// CheckPath is the path that a check requests from an API server; /readyz if empty.
	CheckPath string `json:"checkPath,omitempty"`
}

// Backend is an API server.
type Backend struct {
	// Name is the node's name.
	Name string `json:"name"`
	// Address is host:port.
	Address string `json:"address"`
}

// Algorithm chooses a backend for a new connection.
type Algorithm string

const (
	RoundRobin Algorithm = "round-robin"
	// Affinity keeps a client, by its address, on one backend until that is down; new clients
	// and those of a backend that went down are spread as by RoundRobin.
	Affinity Algorithm = "affinity"
)

// Status is the document of the status page.
type Status struct {
	Backends []BackendStatus `json:"backends"`
}

// BackendStatus is the state of one backend.
type BackendStatus struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	// Healthy is the result of the checks; always true if they are disabled.
	Healthy bool `json:"healthy"`
	// Since is when Healthy last changed.
	Since time.Time `json:"since"`
	// LastCheck is the outcome of the last check: "ok" or what went wrong.
	LastCheck string `json:"lastCheck,omitempty"`
}

// Validate reports what is wrong with a configuration.
func (c Config) Validate() error {
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return fmt.Errorf("the balancer cannot listen on %q: %w", c.Listen, err)
	}
	switch c.Algorithm {
	case "", RoundRobin, Affinity:
	default:
		return fmt.Errorf("the balancer has no algorithm %q: want %s or %s", c.Algorithm, RoundRobin, Affinity)
	}
	seen := map[string]bool{}
	for _, b := range c.Backends {
		if _, _, err := net.SplitHostPort(b.Address); err != nil {
			return fmt.Errorf("the balancer's backend %q has no usable address: %w", b.Name, err)
		}
		if b.Name == "" || seen[b.Name] {
			return fmt.Errorf("the balancer's backends need names of their own: %q is not a name", b.Name)
		}
		seen[b.Name] = true
		if _, err := netip.ParseAddrPort(b.Address); len(c.Names) > 0 && err != nil {
			return fmt.Errorf("the balancer's backend %q has no address for names: %w", b.Name, err)
		}
	}
	h := c.HealthCheck
	if !h.Disabled && (h.Interval <= 0 || h.Timeout <= 0 || h.Timeout > h.Interval || h.Fall < 1 || h.Rise < 1) {
		return fmt.Errorf("the balancer's health check is invalid: interval %v, timeout %v (want more than 0, at most the interval), fall %d, rise %d (want 1 or more)",
			h.Interval, h.Timeout, h.Fall, h.Rise)
	}
	return nil
}

// Balancer is a running built-in balancer.
type Balancer struct {
	listener  net.Listener // nil if it serves names
	questions *names       // nil if it does not
	addr      net.Addr
	status    *http.Server
	statusAt  net.Addr
	work      sync.WaitGroup

	mu       sync.Mutex
	config   Config
	backends []*backend
	next     uint64                  // counts choices, for round robin
	kept     map[netip.Addr]*backend // of clients, for affinity
	closed   bool
}

// Start listens and begins to check and to serve.
func Start(c Config) (*Balancer, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	b := &Balancer{config: c, kept: map[netip.Addr]*backend{}}
	if err := b.serveClients(c); err != nil {
		return nil, err
	}
	if c.Status != "" {
		if err := b.serveStatus(c.Status); err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	b.setBackends(c)
	return b, nil
}

func (b *Balancer) serveClients(c Config) error {
	if len(c.Names) > 0 {
		return b.serveNames(c)
	}
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("the balancer failed to listen for clients: %w", err)
	}
	b.listener, b.addr = listener, listener.Addr()
	b.work.Go(b.accept)
	return nil
}

// Addr is the address that clients connect to.
func (b *Balancer) Addr() net.Addr { return b.addr }

// Reconfigure applies backends, health check and algorithm of c. Unchanged backends keep their
// connections and their state, unless the health check changes; the connections of removed ones
// are reset. Listen addresses cannot be changed.
func (b *Balancer) Reconfigure(c Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	b.mu.Lock()
	was := b.config
	b.mu.Unlock()
	if c.Listen != was.Listen || c.Status != was.Status || !slices.Equal(c.Names, was.Names) {
		return fmt.Errorf("the balancer cannot move from %s (status %q) to %s (status %q) while it runs: restart it", was.Listen, was.Status, c.Listen, c.Status)
	}
	b.setBackends(c)
	return nil
}

func (b *Balancer) setBackends(c Config) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	sameCheck := b.config.HealthCheck == c.HealthCheck && b.config.ConnectOnly == c.ConnectOnly && b.config.CheckPath == c.CheckPath
	old := b.backends
	b.config, b.backends = c, nil
	for _, want := range c.Backends {
		var kept *backend
		for i, have := range old {
			if have != nil && have.Backend == want && sameCheck {
				kept, old[i] = have, nil
			}
		}
		if kept == nil {
			kept = newBackend(want, c.HealthCheck)
			kept.connectOnly, kept.checkPath = c.ConnectOnly, cmp.Or(c.CheckPath, readyPath)
			if !c.HealthCheck.Disabled {
				b.work.Go(kept.check)
			}
		}
		b.backends = append(b.backends, kept)
	}
	for _, gone := range old {
		if gone != nil {
			gone.close()
		}
	}
}

// Status returns the state of all backends.
func (b *Balancer) Status() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := Status{Backends: []BackendStatus{}}
	for _, backend := range b.backends {
		s.Backends = append(s.Backends, backend.status())
	}
	return s
}

// Close stops everything and waits until it has stopped.
func (b *Balancer) Close() error {
	b.mu.Lock()
	already := b.closed
	b.closed = true
	backends := b.backends
	b.mu.Unlock()
	if already {
		return nil
	}
	var err error
	if b.listener != nil {
		err = b.listener.Close()
	} else {
		b.questions.close()
	}
	if b.status != nil {
		err = errors.Join(err, b.status.Close())
	}
	for _, backend := range backends {
		backend.close()
	}
	b.work.Wait()
	return err
}
