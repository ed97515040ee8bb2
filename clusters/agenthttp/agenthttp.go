// Package agenthttp is how providers talk to the agents on their nodes: HTTP over
// whatever reaches the node, such as a unix socket. What is particular to it: a
// request carries the time when the one who asks gives up, after which an agent
// that was suspended meanwhile no longer acts on it; and an agent can answer that
// it has done nothing (framework.ErrNothingDone).
package agenthttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// untilHeader says when the one who asks gives up, in nanoseconds since 1970. An
// agent that was frozen finds requests that nobody stands by any more.
const untilHeader = "Holdfast-Until"

// NothingDoneStatus is that of an answer which is framework.ErrNothingDone.
const NothingDoneStatus = http.StatusPreconditionFailed

// NothingDone is an error that is framework.ErrNothingDone.
type NothingDone string

func (e NothingDone) Error() string { return string(e) }

// Is makes it framework.ErrNothingDone.
func (e NothingDone) Is(target error) bool { return target == framework.ErrNothingDone }

// Unsupported is an error that is errors.ErrUnsupported: the node cannot do what
// is asked for, and the text says why.
type Unsupported string

func (e Unsupported) Error() string { return string(e) }

// Is makes it errors.ErrUnsupported.
func (e Unsupported) Is(target error) bool { return target == errors.ErrUnsupported }

// tooLate reports whether the one who asks has given up.
func tooLate(r *http.Request) bool {
	until, err := strconv.ParseInt(r.Header.Get(untilHeader), 10, 64)
	return err == nil && time.Now().After(time.Unix(0, until))
}

// RefuseLate answers a request that came too late, and reports whether it did.
func RefuseLate(w http.ResponseWriter, r *http.Request) bool {
	if !tooLate(r) {
		return false
	}
	http.Error(w, "the request came too late", NothingDoneStatus)
	return true
}

// Error answers with an error, from which Client.Send makes one of the same kind.
func Error(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, framework.ErrNothingDone):
		http.Error(w, err.Error(), NothingDoneStatus)
	case errors.Is(err, errors.ErrUnsupported):
		http.Error(w, err.Error(), http.StatusNotImplemented)
	default:
		http.Error(w, err.Error(), http.StatusConflict)
	}
}

// Answer has requests with a JSON body, or none, answered with JSON.
func Answer[Request any](mux *http.ServeMux, pattern string, do func(context.Context, Request) (any, error)) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		var req Request
		if r.ContentLength != 0 {
			if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
				http.Error(w, "reading the request: "+err.Error(), http.StatusBadRequest)
				return
			}
		}
		said, err := do(r.Context(), req)
		if err != nil {
			Error(w, err)
			return
		}
		_ = json.NewEncoder(w).Encode(said)
	})
}

// Within limits how long an agent may take for an answer.
func Within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s", limit))
}

// Client talks to one agent.
type Client struct {
	http *http.Client
	peer string // how errors call what it talks to
}

// nodeAgent is what most clients talk to.
const nodeAgent = "its node agent"

// NewUnix returns a client of what listens on a unix socket, which errors call peer.
func NewUnix(peer, socket string) *Client {
	c := NewClient(func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	})
	c.peer = peer
	return c
}

// NewClient returns a client of the agent to which dial leads. It keeps
// connections for later requests.
func NewClient(dial func(ctx context.Context) (net.Conn, error)) *Client {
	return &Client{peer: nodeAgent, http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}}}
}

// Limits of a connection that carries nothing: when it is asked for a sign of life,
// and how long that may take.
const (
	idleLimit = 10 * time.Second
	signLimit = 10 * time.Second
)

// NewMultiplexed is NewClient for agents to which a connection costs something, such
// as a process on the node: all requests share one, by HTTP/2. See Serve.
func NewMultiplexed(dial func(ctx context.Context) (net.Conn, error)) *Client {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &Client{peer: nodeAgent, http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		Protocols:   protocols,
		HTTP2:       &http.HTTP2Config{SendPingTimeout: idleLimit, PingTimeout: signLimit},
	}}}
}

// Serve answers clients of either kind until ctx ends.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: h, Protocols: protocols, BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Close closes the connections that no request uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Send sends a request and returns an answer with status 200, whose body the
// caller closes. Any other one becomes an error with its words.
func (c *Client) Send(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://agent/"+path, body)
	if err != nil {
		return nil, err
	}
	if until, ok := ctx.Deadline(); ok {
		req.Header.Set(untilHeader, strconv.FormatInt(until.UnixNano(), 10))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%s does not answer: %w", c.peer, context.Cause(ctx))
		}
		return nil, fmt.Errorf("%s cannot be reached: %w", c.peer, err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		words, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		said := strings.TrimSpace(string(words))
		switch resp.StatusCode {
		case NothingDoneStatus:
			return nil, NothingDone(said)
		case http.StatusNotImplemented:
			return nil, Unsupported(said)
		}
		return nil, errors.New(said)
	}
	return resp, nil
}

// Call sends in as JSON, unless it is nil, and reads the answer into out, unless
// that is nil.
func (c *Client) Call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	resp, err := c.Send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil {
		// A body that is left unread costs the connection.
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	return json.NewDecoder(resp.Body).Decode(out)
}
