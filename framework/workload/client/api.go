package client

import (
	"bytes"
	"context"
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

	"k8s.io/client-go/rest"
)

// Media types of requests.
const (
	JSON       = "application/json"
	MergePatch = "application/merge-patch+json"
)

// maxBody limits what is read of an answer, in bytes. The harness asks for
// small objects only.
const maxBody = 8 << 20

// API is a client of one way in to the Kubernetes API. It is safe for
// concurrent use.
type API struct {
	base      *url.URL
	transport *http.Transport
	rt        http.RoundTripper
	left      atomic.Bool // see Leave
}

// Options change how an API client connects.
type Options struct {
	// NewConnections makes a new connection, TLS handshake included, for
	// every request.
	NewConnections bool
}

// Request is one request to the API.
type Request struct {
	Method string
	// Path is absolute, such as /readyz; a path in the client's
	// configuration is put before it.
	Path  string
	Query url.Values
	// Type is the media type of Body, JSON where empty.
	Type string
	Body []byte
	// Repeatable says that carrying it out twice does what once does, so that it may be
	// sent again where a kept connection ends before anything of an answer has come,
	// as reads are (RFC 9110, section 9.2.2).
	Repeatable bool
}

// Answer is what came back for a Request.
type Answer struct {
	// Status is the HTTP status, 0 without an answer.
	Status int
	Body   []byte
	// Sent tells whether the request may have left this machine. It is false
	// only if no connection was ever there to send it on.
	Sent bool
	// RetryAfter is for how many seconds the server asks to wait before the request is
	// repeated; NoRetryAfter if it does not ask for that.
	RetryAfter int
	// Err says why there is no (whole) answer.
	Err error
}

// NoRetryAfter is the RetryAfter of an answer that does not ask for a repetition.
const NoRetryAfter = -1

// Repeat returns how long to wait before the request is repeated, and whether the server
// asks for that. As for client-go, it does with Retry-After and a status of 429 or 500 and
// above (k8s.io/client-go/rest/with_retry.go).
func (a Answer) Repeat() (wait time.Duration, asked bool) {
	asked = a.Err == nil && a.RetryAfter > 0 && (a.Status == http.StatusTooManyRequests || a.Status >= http.StatusInternalServerError)
	return time.Duration(a.RetryAfter) * time.Second, asked
}

// Refusal returns what a record keeps of RetryAfter: 0 unless the server refused the
// request.
func (a Answer) Refusal() int {
	if a.Err != nil || a.Status < http.StatusBadRequest {
		return 0
	}
	return a.RetryAfter
}

// retryAfter reads the header, as far as it gives seconds.
func retryAfter(h http.Header) int {
	if n, err := strconv.Atoi(h.Get("Retry-After")); err == nil && n > 0 {
		return n
	}
	return NoRetryAfter
}

// dialTimeout leaves time for a first packet that is lost, and is sent again after 1 s
// and 3 s.
const dialTimeout = 5 * time.Second

// NewAPI returns a client for a configuration, which is left as it is. Rate
// limits, timeouts and the environment's proxies do not apply; a proxy, dialer
// or wrapper that the configuration names does.
func NewAPI(cfg *rest.Config, opts Options) (*API, error) {
	cfg = rest.CopyConfig(cfg)
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("API client: server address %q: %w", cfg.Host, err)
	}
	tlsConfig, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("API client for %s: TLS configuration: %w", base, err)
	}
	if tlsConfig != nil {
		tlsConfig.NextProtos = []string{"http/1.1"}
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	t := &http.Transport{
		Proxy:               cfg.Proxy,
		DialContext:         Dialer(cfg),
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: 10 * time.Second,
		Protocols:           protocols,
		MaxIdleConns:        128,
		MaxIdleConnsPerHost: 128,
		DisableKeepAlives:   opts.NewConnections,
		DisableCompression:  true,
	}
	rt, err := rest.HTTPWrappersForConfig(cfg, t)
	if err != nil {
		return nil, fmt.Errorf("API client for %s: credentials: %w", base, err)
	}
	return &API{base: base, transport: t, rt: rt}, nil
}

// Dialer returns how to connect to what a configuration names: with its dialer, if it
// has one. A dial outlives the request that it was for, until the transport is closed:
// without a limit they would pile up while packets get lost.
func Dialer(cfg *rest.Config) func(ctx context.Context, network, address string) (net.Conn, error) {
	dial := cfg.Dial
	if dial == nil {
		// Keep-alives notice a machine that lost power, where nobody sends
		// anything on the connection, such as that of a watch.
		d := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: time.Second, Count: 5}}
		dial = d.DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		return dial(ctx, network, address)
	}
}

// Close closes the connections that are not in use, and gives up those that nobody waits
// for any more.
func (a *API) Close() { a.transport.CloseIdleConnections() }

// Leave has every further request fail at once: the server is there no longer, and each
// would take its whole time to fail.
func (a *API) Leave() { a.left.Store(true) }

var errLeft = errors.New("the node has left the cluster")

// Do makes one request, once unless it is repeatable, and reads the whole answer. The
// context bounds both.
func (a *API) Do(ctx context.Context, r Request) Answer {
	res, sent, err := a.roundTrip(ctx, r)
	if err != nil {
		return Answer{Sent: sent, Err: err}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody+1))
	switch {
	case err != nil:
		err = fmt.Errorf("%s %s: status %d, but the answer broke off: %w", r.Method, a.url(r), res.StatusCode, cause(ctx, err))
	case len(body) > maxBody:
		err = fmt.Errorf("%s %s: status %d with more than %d MiB", r.Method, a.url(r), res.StatusCode, maxBody>>20)
	}
	return Answer{Status: res.StatusCode, Body: body, Sent: true, RetryAfter: retryAfter(res.Header), Err: err}
}

// Streamed is the body of an answer that still comes in.
type Streamed struct {
	io.ReadCloser
	// Server are the addresses for which the server's certificate is valid; none
	// without TLS. Behind a balancer that passes TLS on they tell which server it is.
	Server []string
}

// Stream makes one request, once, and returns the body of an answer with
// status 200 while it still comes in. Ending the context ends it. For any other
// status the error is a *RefusedError.
func (a *API) Stream(ctx context.Context, r Request) (*Streamed, error) {
	res, sent, err := a.roundTrip(ctx, r)
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusOK {
		s := &Streamed{ReadCloser: res.Body}
		if res.TLS != nil && len(res.TLS.PeerCertificates) > 0 {
			for _, ip := range res.TLS.PeerCertificates[0].IPAddresses {
				s.Server = append(s.Server, ip.String())
			}
		}
		return s, nil
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxBody))
	return nil, &RefusedError{
		Status:  res.StatusCode,
		Request: r.Method + " " + a.url(r),
		Problem: Answer{Status: res.StatusCode, Body: body, Sent: sent}.Problem(),
	}
}

// RefusedError is an answer to Stream with another status than 200.
type RefusedError struct {
	Status           int
	Request, Problem string
}

func (e *RefusedError) Error() string { return e.Request + ": " + e.Problem }

func (a *API) roundTrip(ctx context.Context, r Request) (res *http.Response, sent bool, err error) {
	if a.left.Load() {
		return nil, false, fmt.Errorf("%s %s: %w", r.Method, a.url(r), errLeft)
	}
	// The transport hands a request to a connection in this goroutine, right
	// after GotConn. So if it did not call that, nothing was sent. It may call
	// it more than once, where a kept connection turns out to be closed: it
	// sends a write again only if nothing of it had been sent.
	var got atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { got.Store(true) },
	})
	var body io.Reader
	if r.Body != nil {
		body = bytes.NewReader(r.Body)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, a.url(r), body)
	if err != nil {
		return nil, false, fmt.Errorf("%s %s: %w", r.Method, r.Path, err)
	}
	req.Header.Set("Accept", JSON)
	if r.Body != nil {
		req.Header.Set("Content-Type", JSON)
		if r.Type != "" {
			req.Header.Set("Content-Type", r.Type)
		}
	}
	if r.Repeatable {
		// The transport looks for the key alone; without a value it sends no header.
		req.Header["Idempotency-Key"] = []string{}
	}
	// RoundTrip, not a http.Client: that would follow redirects.
	res, err = a.rt.RoundTrip(req)
	if err != nil {
		return nil, got.Load(), fmt.Errorf("%s %s: %w", r.Method, a.url(r), cause(ctx, err))
	}
	return res, true, nil
}

func (a *API) url(r Request) string {
	u := *a.base
	u.Path = strings.TrimSuffix(u.Path, "/") + r.Path
	u.RawQuery = r.Query.Encode()
	return u.String()
}

// cause puts a time-out in words.
func cause(ctx context.Context, err error) error {
	if ctx.Err() == context.DeadlineExceeded {
		return fmt.Errorf("no answer in time: %w", err)
	}
	return err
}
