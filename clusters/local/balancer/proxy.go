package balancer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"
)

func (b *Balancer) accept() {
	pause := time.Millisecond
	for {
		conn, err := b.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of file descriptors, for example: there will be more.
			time.Sleep(pause)
			pause = min(2*pause, time.Second)
			continue
		}
		pause = time.Millisecond
		b.work.Go(func() { b.serve(conn.(*net.TCPConn)) })
	}
}

// serve finds a backend for a client and copies bytes until one end is done. With health checks
// on, it skips a backend that does not accept the connection; otherwise the client's connection
// fails.
func (b *Balancer) serve(client *net.TCPConn) {
	var tried []*backend
	from := addressOf(client)
	for {
		chosen, again := b.choose(from, tried)
		if chosen == nil {
			resetAll([]*net.TCPConn{client})
			return
		}
		server, err := chosen.dial()
		if err == nil {
			if chosen.add(client, server) {
				pump(client, server)
				chosen.remove(client, server)
				return
			}
			resetAll([]*net.TCPConn{server})
		}
		if !again {
			resetAll([]*net.TCPConn{client})
			return
		}
		tried = append(tried, chosen)
	}
}

func addressOf(conn *net.TCPConn) netip.Addr {
	addr, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return addr.AddrPort().Addr().Unmap()
}

// choose returns the backend for the next connection of a client, nil if there is none, and
// whether to try another one if this one fails.
func (b *Balancer) choose(from netip.Addr, tried []*backend) (chosen *backend, again bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || len(b.backends) == 0 {
		return nil, false
	}
	blind := b.config.HealthCheck.Disabled
	if b.config.Algorithm == Affinity {
		if kept := b.kept[from]; kept != nil && !slices.Contains(tried, kept) {
			if kept.usable() {
				return kept, !blind
			}
		}
		defer func() { b.kept[from] = chosen }()
	}
	start := int(b.next % uint64(len(b.backends)))
	for i := range b.backends {
		at := (start + i) % len(b.backends)
		if candidate := b.backends[at]; candidate.usable() && !slices.Contains(tried, candidate) {
			b.next = uint64(at) + 1
			return candidate, !blind
		}
	}
	return nil, !blind
}

func (b *backend) dial() (*net.TCPConn, error) {
	timeout := dialTimeout
	if !b.health.Disabled {
		timeout = min(timeout, b.health.Timeout)
	}
	ctx, cancel := context.WithTimeout(b.done, timeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", b.Address)
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// pump moves bytes both ways until both directions have ended, or one broke.
// An end of one direction is passed on as such; a break resets both.
func pump(client, server *net.TCPConn) {
	var both sync.WaitGroup
	direction := func(to, from *net.TCPConn) {
		if _, err := io.Copy(to, from); err != nil {
			resetAll([]*net.TCPConn{client, server})
			return
		}
		to.CloseWrite()
	}
	both.Go(func() { direction(server, client) })
	both.Go(func() { direction(client, server) })
	both.Wait()
	client.Close()
	server.Close()
}

func (b *Balancer) serveStatus(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("the balancer failed to listen for its status page: %w", err)
	}
	b.statusAt = listener.Addr()
	b.status = &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			encoder := json.NewEncoder(w)
			encoder.SetIndent("", "  ")
			// An error here is from a client that disconnected.
			_ = encoder.Encode(b.Status())
		}),
	}
	b.work.Go(func() { _ = b.status.Serve(listener) })
	return nil
}
