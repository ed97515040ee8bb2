package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// Media types of requests.
const (
	JSON       = "application/json"
	MergePatch = "application/merge-patch+json"
)

// maxBody limits how much of a response is read, in bytes. The harness requests small objects
// only.
const maxBody = 8 << 20

// API is a client for one entrance to the Kubernetes API. It is safe for concurrent use.
type API struct {
	base *url.URL
	rt   http.RoundTripper
	left atomic.Bool // see Leave
}

// Options change how an API client connects.
type Options struct {
	// NewConnections makes a new connection, TLS handshake included, for
	// every request.
	NewConnections bool
	// ClientGo connects as client-go does: with its transport, which keeps one HTTP/2 connection
	// and checks its health (k8s.io/apimachinery/pkg/util/net).
	ClientGo bool
	// DialTimeout limits a dial that is not by the configuration's own dialer; at most 5 s, as for 0.
	DialTimeout time.Duration
}

// Request is one request to the API.
type Request struct {
	Method string
	// Path is absolute, such as /readyz; a path in the client's configuration is prepended.
	Path  string
	Query url.Values
	// Type is the media type of Body, JSON if empty.
	Type string
	Body []byte
}

// Answer is the response to a Request.
type Answer struct {
	// Status is the HTTP status, 0 without an answer.
	Status int
	Body   []byte
	// Sent reports whether the request may have left this machine. It is false only if there
	// never was a connection to send it on.
	Sent bool
	// RetryAfter is how many seconds the server asks the client to wait before a retry;
	// NoRetryAfter if it does not ask.
	RetryAfter int
	// Server are the addresses in the certificate of the server on whose connection the request
	// was last sent; nil without a connection or without TLS. Behind a balancer that passes TLS
	// through, they identify the server.
	Server []string
	// Reused reports whether an earlier request used that connection.
	Reused bool
	// Err says why there is no (complete) answer.
	Err error
}

// NoRetryAfter is the RetryAfter of an answer that does not ask for a retry.
const NoRetryAfter = -1

// Repeat returns how long to wait before a retry, and whether the server asks for one. As in
// client-go, it does with Retry-After and a status of 429 or at least 500
// (k8s.io/client-go/rest/with_retry.go).
func (a Answer) Repeat() (wait time.Duration, asked bool) {
	asked = a.Err == nil && a.RetryAfter > 0 && (a.Status == http.StatusTooManyRequests || a.Status >= http.StatusInternalServerError)
	return time.Duration(a.RetryAfter) * time.Second, asked
}

// Refusal returns RetryAfter as the record stores it: 0 unless the server refused the request.
func (a Answer) Refusal() int {
	if a.Err != nil || a.Status < http.StatusBadRequest {
		return 0
	}
	return a.RetryAfter
}

// retryAfter reads the header, if it is in seconds.
func retryAfter(h http.Header) int {
	if n, err := strconv.Atoi(h.Get("Retry-After")); err == nil && n > 0 {
		return n
	}
	return NoRetryAfter
}

// dialTimeout leaves time for a lost first packet, which is retransmitted after 1 s and 3 s.
const dialTimeout = 5 * time.Second

// NewAPI returns a client for a configuration, which it does not change. Rate limits, timeouts
// and proxies from the environment do not apply; a proxy, dialer or wrapper in the configuration
// does, and so does a transport, whatever the options say of connections.
func NewAPI(cfg *rest.Config, opts Options) (*API, error) {
	cfg = rest.CopyConfig(cfg)
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("API client: server address %q: %w", cfg.Host, err)
	}
	transport := bareTransport
	if opts.ClientGo {
		transport = clientGoTransport
	}
	rt, err := transport(cfg, opts)
	if err != nil {
		return nil, fmt.Errorf("API client for %s: TLS configuration or credentials: %w", base, err)
	}
	return &API{base: base, rt: rt}, nil
}

// clientGoTransport returns client-go's own transport. A transport that sets a proxy, or no
// proxy, is not shared with other clients of the same configuration.
func clientGoTransport(cfg *rest.Config, _ Options) (http.RoundTripper, error) {
	if cfg.Proxy == nil {
		cfg.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	}
	return rest.TransportFor(cfg)
}

func bareTransport(cfg *rest.Config, opts Options) (http.RoundTripper, error) {
	if cfg.Transport != nil {
		return rest.HTTPWrappersForConfig(cfg, cfg.Transport)
	}
	tlsConfig, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, err
	}
	if tlsConfig != nil {
		tlsConfig.NextProtos = []string{"http/1.1"}
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	t := &http.Transport{
		Proxy:               cfg.Proxy,
		DialContext:         Dialer(cfg, opts.DialTimeout),
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: 10 * time.Second,
		Protocols:           protocols,
		MaxIdleConns:        128,
		MaxIdleConnsPerHost: 128,
		DisableKeepAlives:   opts.NewConnections,
		DisableCompression:  true,
	}
	return rest.HTTPWrappersForConfig(cfg, t)
}

// Dialer returns the dial function for a configuration: its own dialer, if it has one, or one with
// a limit, if that is above 0. A dial outlives the request that it was for, until the transport is
// closed: without a limit, dials would pile up while packets are lost.
func Dialer(cfg *rest.Config, limit time.Duration) func(ctx context.Context, network, address string) (net.Conn, error) {
	dial := cfg.Dial
	if dial == nil {
		// Keep-alives detect a machine that lost power on a connection where neither side sends
		// anything, such as that of a watch.
		d := &net.Dialer{Timeout: limit, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: time.Second, Count: 5}}
		dial = d.DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		return dial(ctx, network, address)
	}
}

// Close closes idle connections, and gives up those that no request waits for any more.
func (a *API) Close() { utilnet.CloseIdleConnectionsFor(a.rt) }

// Leave makes every further request fail immediately: the server is gone, and each request would
// run into its timeout.
func (a *API) Leave() { a.left.Store(true) }

var errLeft = errors.New("the node has left the cluster")

// Do makes one request and reads the whole answer. The context bounds both. The request is made
// once, except for the transport's own retries: reads on a kept connection that closes, and
// writes of which nothing was sent or that an HTTP/2 server reports as not processed.
func (a *API) Do(ctx context.Context, r Request) Answer {
	res, on, err := a.roundTrip(ctx, r)
	if err != nil {
		return Answer{Sent: on.sent.Load(), Server: on.server(), Reused: on.reused.Load(), Err: err}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody+1))
	switch {
	case err != nil:
		err = fmt.Errorf("%s %s: status %d, but the response was cut short: %w", r.Method, a.url(r), res.StatusCode, cause(ctx, err))
	case len(body) > maxBody:
		err = fmt.Errorf("%s %s: status %d with more than %d MiB", r.Method, a.url(r), res.StatusCode, maxBody>>20)
	}
	return Answer{Status: res.StatusCode, Body: body, Sent: true, RetryAfter: retryAfter(res.Header), Server: on.server(), Reused: on.reused.Load(), Err: err}
}

// Streamed is the body of a response that is still being received.
type Streamed struct {
	io.ReadCloser
	// Server is as in Answer.
	Server []string
	cancel context.CancelFunc
}

// Close closes the body and gives up the request.
func (s *Streamed) Close() error {
	defer s.cancel()
	return s.ReadCloser.Close()
}

// ErrNotAccepted is the error of Stream if the server does not respond within its limit.
var ErrNotAccepted = errors.New("not accepted")

// Stream makes one request, once, and returns the body of a response with status 200 while it is
// being received. Cancelling the context stops it. For any other status the error is a
// *RefusedError, and ErrNotAccepted if the server does not respond within limit.
func (a *API) Stream(ctx context.Context, r Request, limit time.Duration) (*Streamed, error) {
	ctx, cancel := context.WithCancel(ctx)
	tooLong := time.AfterFunc(limit, cancel)
	s, err := a.stream(ctx, r)
	if !tooLong.Stop() {
		if err == nil {
			s.ReadCloser.Close()
		}
		// Not the context's error: the timer may not have cancelled it yet.
		err = fmt.Errorf("%w in %s", ErrNotAccepted, limit)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	s.cancel = cancel
	return s, nil
}

func (a *API) stream(ctx context.Context, r Request) (*Streamed, error) {
	res, on, err := a.roundTrip(ctx, r)
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusOK {
		return &Streamed{ReadCloser: res.Body, Server: on.server()}, nil
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxBody))
	answer := Answer{Status: res.StatusCode, Body: body, Sent: true, RetryAfter: retryAfter(res.Header)}
	return nil, &RefusedError{
		Status:     res.StatusCode,
		RetryAfter: answer.Refusal(),
		Request:    r.Method + " " + a.url(r),
		Problem:    answer.Problem(),
	}
}

// RefusedError is a response to Stream with a status other than 200.
type RefusedError struct {
	Status           int
	RetryAfter       int // as Answer.Refusal returns it
	Request, Problem string
}

func (e *RefusedError) Error() string { return e.Request + ": " + e.Problem }

// carrier is the connection that a request was sent on.
type carrier struct {
	sent   atomic.Bool
	reused atomic.Bool
	last   atomic.Pointer[tls.Conn]
}

func (c *carrier) got(i httptrace.GotConnInfo) {
	c.sent.Store(true)
	c.reused.Store(i.Reused)
	if conn, ok := i.Conn.(*tls.Conn); ok {
		c.last.Store(conn)
	}
}

func (c *carrier) server() (addresses []string) {
	conn := c.last.Load()
	if conn == nil {
		return nil
	}
	if certificates := conn.ConnectionState().PeerCertificates; len(certificates) > 0 {
		for _, ip := range certificates[0].IPAddresses {
			addresses = append(addresses, ip.String())
		}
	}
	return addresses
}

func (a *API) roundTrip(ctx context.Context, r Request) (res *http.Response, on *carrier, err error) {
	on = new(carrier)
	if a.left.Load() {
		return nil, on, fmt.Errorf("%s %s: %w", r.Method, a.url(r), errLeft)
	}
	// The transport hands a request to a connection in this goroutine, right after GotConn. So if
	// GotConn was not called, nothing was sent. It may be called more than once, if a kept
	// connection turns out to be closed: the transport resends a write only if nothing of it had
	// been sent.
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: on.got})
	var body io.Reader
	if r.Body != nil {
		body = bytes.NewReader(r.Body)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, a.url(r), body)
	if err != nil {
		return nil, on, fmt.Errorf("%s %s: %w", r.Method, r.Path, err)
	}
	req.Header.Set("Accept", JSON)
	if r.Body != nil {
		req.Header.Set("Content-Type", JSON)
		if r.Type != "" {
			req.Header.Set("Content-Type", r.Type)
		}
	}
	// RoundTrip, not a http.Client: that would follow redirects.
	res, err = a.rt.RoundTrip(req)
	if err != nil {
		return nil, on, fmt.Errorf("%s %s: %w", r.Method, a.url(r), cause(ctx, err))
	}
	return res, on, nil
}

func (a *API) url(r Request) string {
	u := *a.base
	u.Path = strings.TrimSuffix(u.Path, "/") + r.Path
	u.RawQuery = r.Query.Encode()
	return u.String()
}

// cause describes a timeout.
func cause(ctx context.Context, err error) error {
	if ctx.Err() == context.DeadlineExceeded {
		return fmt.Errorf("no answer in time: %w", err)
	}
	return err
}
