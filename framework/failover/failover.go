package failover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// DefaultPatience is how long an address may take to answer, if Config does not set it.
const DefaultPatience = 5 * time.Second

// Config lists the API servers and how to use them.
type Config struct {
	// Addresses are those that the client knows from the start, such as "10.0.0.1:6443". They
	// stay in use as a last resort after it has learned others.
	Addresses []string
	// Patience is how long an address may take to start its response to a request that may be
	// sent to another one as well; DefaultPatience if 0.
	Patience time.Duration
	// Seed makes the choice of addresses repeatable; random if 0.
	Seed uint64
	// Moved is called when the client leaves an address, with the reason; it may be nil.
	Moved func(from, to string, why error)
}

// Servers are the API servers of one client. Requests go to one of them, to which
// the client is pinned until it fails. The methods are safe for concurrent use.
type Servers struct {
	patience time.Duration
	seeds    []string
	moved    func(from, to string, why error)

	mu        sync.Mutex
	random    *rand.Rand
	addresses []string // the last ones learned, or the seeds
	pinned    string
}

// New picks the address to start with. An error means that an address is missing
// or is not a host and port.
func New(c Config) (*Servers, error) {
	if len(c.Addresses) == 0 {
		return nil, errors.New("failover: no initial address: name at least one API server as host:port")
	}
	for _, a := range c.Addresses {
		if host, port, err := net.SplitHostPort(a); err != nil || host == "" || port == "" {
			return nil, fmt.Errorf("failover: address %q is not host:port, such as 10.0.0.1:6443 or [fd00::1]:6443", a)
		}
	}
	s := &Servers{
		patience: cmp.Or(c.Patience, DefaultPatience), seeds: slices.Clone(c.Addresses), addresses: slices.Clone(c.Addresses),
		moved: c.Moved, random: rand.New(rand.NewPCG(cmp.Or(c.Seed, rand.Uint64()), 0)),
	}
	s.pinned = s.addresses[s.random.IntN(len(s.addresses))]
	return s, nil
}

// Pinned returns the address that the next request goes to first.
func (s *Servers) Pinned() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pinned
}

// Addresses returns the current addresses: the last ones learned, or the initial ones.
func (s *Servers) Addresses() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.addresses)
}

// Set replaces the addresses. The client stays pinned if that address is still among them. An
// empty list changes nothing.
func (s *Servers) Set(addresses []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(addresses) == 0 {
		return
	}
	s.addresses = slices.Clone(addresses)
	if !slices.Contains(s.addresses, s.pinned) {
		s.pin(s.addresses[s.random.IntN(len(s.addresses))], errors.New("the kubernetes service no longer lists it"))
	}
}

// Wrap is for rest.Config.Wrap: requests through the transport that it returns go
// to the servers, whatever host they name.
func (s *Servers) Wrap(base http.RoundTripper) http.RoundTripper {
	return &transport{servers: s, base: base}
}

// pin moves to an address. The lock is held.
func (s *Servers) pin(to string, why error) {
	if from := s.pinned; from != to {
		s.pinned = to
		if s.moved != nil {
			s.moved(from, to, why)
		}
	}
}

// leave moves on from an address that failed, unless the client has moved already.
func (s *Servers) leave(failed string, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pinned != failed {
		return
	}
	if others := slices.DeleteFunc(s.candidates(), func(a string) bool { return a == failed }); len(others) > 0 {
		s.pin(others[0], why)
	}
}

// candidates returns every address to try, in order: the pinned one, the others in order, then
// the initial ones that are not among them. The lock is held.
func (s *Servers) candidates() (all []string) {
	at := max(slices.Index(s.addresses, s.pinned), 0)
	for _, a := range slices.Concat([]string{s.pinned}, s.addresses[at:], s.addresses[:at], s.seeds) {
		if !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all
}

// transport sends requests to the servers.
type transport struct {
	servers *Servers
	base    http.RoundTripper
}

// WrappedRoundTripper lets client-go find the transport below, for example to close its idle
// connections.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.base }

// RoundTrip tries one address after another until one answers. It retries only a request that
// cannot have had an effect: a read, or one that never left this machine. Any other failure is
// returned, and the next request goes to another address.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	s := t.servers
	s.mu.Lock()
	candidates := s.candidates()
	s.mu.Unlock()
	reads := req.Method == http.MethodGet || req.Method == http.MethodHead || req.Method == http.MethodOptions
	var failures []error
	for i, address := range candidates {
		last := i == len(candidates)-1
		res, err := t.ask(req, address, reads && !last)
		why := failure(address, res, err)
		if why == nil {
			return res, nil
		}
		if errors.Is(req.Context().Err(), context.Canceled) {
			return res, err // the caller cancelled it, which says nothing about the address
		}
		s.leave(address, why)
		failures = append(failures, why)
		again := (reads || neverSent(err)) && (req.Body == nil || req.Body == http.NoBody || req.GetBody != nil)
		if err == nil && (last || !again) {
			return res, nil // the server's own error
		}
		if res != nil {
			res.Body.Close()
		}
		if last || !again || req.Context().Err() != nil {
			return nil, errors.Join(failures...)
		}
	}
	panic("failover: no address") // New and Set refuse that
}

// ask sends the request to one address, with a limit on how long the response may take to start
// if others can be tried.
func (t *transport) ask(req *http.Request, address string, limited bool) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	out := req.Clone(ctx)
	out.URL.Host, out.Host = address, ""
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			cancel(nil)
			return nil, fmt.Errorf("failover: the request's body cannot be read again: %w", err)
		}
		out.Body = body
	}
	var timer *time.Timer
	if limited {
		timer = time.AfterFunc(t.servers.patience, func() {
			cancel(fmt.Errorf("no answer within %s", t.servers.patience))
		})
	}
	res, err := t.base.RoundTrip(out)
	late := timer != nil && !timer.Stop()
	if err == nil && !late {
		res.Body = &body{res.Body, cancel}
		return res, nil
	}
	if err == nil {
		res.Body.Close()
	}
	if cause := context.Cause(ctx); cause != nil && req.Context().Err() == nil {
		err = cause
	}
	cancel(nil)
	return nil, err
}

// body cancels the request's context at the end of the response.
type body struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}

// failure says why another address should be tried: there was no response, or the server reports
// that it cannot serve.
func failure(address string, res *http.Response, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	switch res.StatusCode {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return fmt.Errorf("%s: %s", address, res.Status)
	}
	return nil
}

// neverSent reports whether a request failed before there was a connection.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
