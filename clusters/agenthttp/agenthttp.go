// Package agenthttp is the protocol between providers and the agents on their nodes: HTTP over
// any connection to the node, such as a unix socket. Three things are special. A request carries
// the time when the client gives up, so that an agent that was suspended in between does not
// act on it any more. It carries the name of the run that sends it, so that an agent serves one at
// a time. And an agent can answer that it has done nothing (framework.ErrNothingDone).
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

	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
)

// Headers with the time when the client gives up, in nanoseconds: since 1970 or, from a client on the
// same machine, on its monotonic clock, since a fault may have moved the client's wall clock. An agent
// that was frozen may find requests whose clients have given up.
const (
	untilHeader     = "Holdfast-Until"
	monotonicHeader = "Holdfast-Until-Monotonic"
)

// NothingDoneStatus is the status of an answer that means framework.ErrNothingDone.
const NothingDoneStatus = http.StatusPreconditionFailed

// NothingDone is an error that is framework.ErrNothingDone.
type NothingDone string

func (e NothingDone) Error() string { return string(e) }

// Is makes it framework.ErrNothingDone.
func (e NothingDone) Is(target error) bool { return target == framework.ErrNothingDone }

// Unsupported is an error that is errors.ErrUnsupported: the node does not support the request,
// and the text says why.
type Unsupported string

func (e Unsupported) Error() string { return string(e) }

// Is makes it errors.ErrUnsupported.
func (e Unsupported) Is(target error) bool { return target == errors.ErrUnsupported }

// tooLate reports whether the client has given up.
func tooLate(r *http.Request) bool {
	until, err := strconv.ParseInt(r.Header.Get(monotonicHeader), 10, 64)
	if err == nil {
		return system.Monotonic() > time.Duration(until)
	}
	until, err = strconv.ParseInt(r.Header.Get(untilHeader), 10, 64)
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

// Error answers with an error. Client.Send turns the answer into an error of the same kind.
func Error(w http.ResponseWriter, err error) {
	_, other := errors.AsType[OtherRun](err)
	switch {
	case other:
		http.Error(w, err.Error(), otherRunStatus)
	case errors.Is(err, framework.ErrNothingDone):
		http.Error(w, err.Error(), NothingDoneStatus)
	case errors.Is(err, errors.ErrUnsupported):
		http.Error(w, err.Error(), http.StatusNotImplemented)
	default:
		http.Error(w, err.Error(), http.StatusConflict)
	}
}

// Answer serves requests with a JSON body, or none, and answers with JSON.
func Answer[Request any](mux *http.ServeMux, pattern string, do func(context.Context, Request) (any, error)) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		var req Request
		if r.ContentLength != 0 {
			if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
				http.Error(w, "failed to read the request: "+err.Error(), http.StatusBadRequest)
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

// Within limits how long an agent may take to answer.
func Within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s", limit))
}

// Client talks to one agent.
type Client struct {
	http  *http.Client
	peer  string // the server's name in errors
	local bool   // it is on the same machine
}

// nodeAgent is the peer of most clients.
const nodeAgent = "its node agent"

// NewUnix returns a client of the server on a unix socket, called peer in errors.
func NewUnix(peer, socket string) *Client {
	c := NewClient(func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	})
	c.peer, c.local = peer, true
	return c
}

// NewClient returns a client of the agent that dial connects to. It keeps connections for later
// requests.
func NewClient(dial func(ctx context.Context) (net.Conn, error)) *Client {
	return &Client{peer: nodeAgent, http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}}}
}

// Limits of an idle connection: the time before a ping, and how long the answer may take.
const (
	idleLimit = 10 * time.Second
	signLimit = 10 * time.Second
)

// NewMultiplexed is NewClient for agents to which each connection has a cost, such as a process
// on the node: all requests share one, over HTTP/2. See Serve.
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

// Send sends a request and returns an answer with status 200, whose body the caller closes. Any
// other answer becomes an error with its text.
func (c *Client) Send(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://agent/"+path, body)
	if err != nil {
		return nil, err
	}
	c.limit(req)
	req.Header.Set(RunHeader, Run())
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
		case otherRunStatus:
			return nil, OtherRun(said)
		}
		return nil, errors.New(said)
	}
	return resp, nil
}

// limit adds the time when the client gives up to a request.
func (c *Client) limit(req *http.Request) {
	until, ok := req.Context().Deadline()
	switch {
	case !ok:
	case c.local:
		req.Header.Set(monotonicHeader, strconv.FormatInt(int64(system.Monotonic()+time.Until(until)), 10))
	default:
		req.Header.Set(untilHeader, strconv.FormatInt(until.UnixNano(), 10))
	}
}

// Call sends in as JSON, unless it is nil, and reads the answer into out, unless out is nil.
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
		// An unread body would make the connection unusable for further requests.
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	return json.NewDecoder(resp.Body).Decode(out)
}
