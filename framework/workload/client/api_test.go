package client

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func open(t *testing.T, address string, opts Options) *API {
	t.Helper()
	api, err := NewAPI(&rest.Config{Host: "https://" + address, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	return api
}

// serve answers each connection with f, on a TLS listener unless plain.
func serve(t *testing.T, plain bool, f func(n int, c net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if !plain {
		s := httptest.NewUnstartedServer(nil)
		s.StartTLS()
		l = tls.NewListener(l, &tls.Config{Certificates: s.TLS.Certificates})
		s.Close()
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for n := 1; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				f(n, c)
			}()
		}
	}()
	return l.Addr().String()
}

func readRequest(c net.Conn) bool {
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, r.Body)
	return true
}

func hang(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

const okAnswer = "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"

// TestFailures shows what becomes of a write when a connection fails at each of
// its stages.
func TestFailures(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.2:0") // the servers below are at 127.0.0.1
	if err != nil {
		t.Fatal(err)
	}
	nobody := free.Addr().String()
	free.Close()
	for _, tc := range []struct {
		name    string
		address string
		want    record.Outcome
	}{
		{"nobody listens", nobody, record.Refused},
		{"no such host", "host.invalid:1", record.Refused},
		{"TLS handshake hangs", serve(t, true, func(_ int, c net.Conn) { hang(c) }), record.Refused},
		{"closed before the TLS handshake", serve(t, true, func(int, net.Conn) {}), record.Refused},
		{"not TLS", serve(t, true, func(_ int, c net.Conn) { fmt.Fprint(c, "HTTP/1.1 400 Bad Request\r\n\r\n") }), record.Refused},
		{"reset before the TLS handshake", serve(t, true, func(_ int, c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }), record.Refused},
		{"closed after the request", serve(t, false, func(_ int, c net.Conn) { readRequest(c) }), record.Unknown},
		{"reset after the request", serve(t, false, func(_ int, c net.Conn) {
			readRequest(c)
			_ = c.(*tls.Conn).NetConn().(*net.TCPConn).SetLinger(0)
			c.(*tls.Conn).NetConn().Close()
		}), record.Unknown},
		{"no answer", serve(t, false, func(_ int, c net.Conn) { hang(c) }), record.Unknown},
		{"success that breaks off in the head", serve(t, false, func(_ int, c net.Conn) {
			readRequest(c)
			fmt.Fprint(c, "HTTP/1.1 201 Crea")
		}), record.Unknown},
		{"success that breaks off in the body", serve(t, false, func(_ int, c net.Conn) {
			readRequest(c)
			fmt.Fprint(c, "HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{")
		}), record.Unknown},
		{"success that hangs in the body", serve(t, false, func(_ int, c net.Conn) {
			readRequest(c)
			fmt.Fprint(c, "HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{")
			hang(c)
		}), record.Unknown},
		{"success", serve(t, false, func(_ int, c net.Conn) {
			readRequest(c)
			fmt.Fprint(c, okAnswer)
		}), record.OK},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			api := open(t, tc.address, Options{})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			a := api.Do(ctx, Request{Method: http.MethodPut, Path: "/x", Body: []byte(`{}`)})
			if a.Outcome() != tc.want {
				t.Errorf("outcome %s (sent %t, status %d, error %v), want %s", a.Outcome(), a.Sent, a.Status, a.Err, tc.want)
			}
		})
	}
}

// TestKeptConnection shows that a write on a kept connection that the server
// closes is made once, and that its outcome is unknown.
func TestKeptConnection(t *testing.T) {
	var requests, connections atomic.Int32
	address := serve(t, false, func(_ int, c net.Conn) {
		connections.Add(1)
		for i := 0; ; i++ {
			if !readRequest(c) {
				return
			}
			requests.Add(1)
			if i == 1 {
				return
			}
			fmt.Fprint(c, okAnswer)
		}
	})
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		requests.Store(0)
		connections.Store(0)
		api := open(t, address, Options{})
		req := Request{Method: method, Path: "/x", Body: []byte(`{}`)}
		if method == http.MethodDelete {
			req.Body = nil
		}
		if a := api.Do(t.Context(), req); a.Outcome() != record.OK {
			t.Fatalf("%s: first: %v", method, a.Err)
		}
		if a := api.Do(t.Context(), req); a.Outcome() != record.Unknown {
			t.Errorf("%s: second: outcome %s (status %d, error %v), want unknown", method, a.Outcome(), a.Status, a.Err)
		}
		if r, c := requests.Load(), connections.Load(); r != 2 || c != 1 {
			t.Errorf("%s: %d requests on %d connections, want 2 on 1", method, r, c)
		}
		if a := api.Do(t.Context(), req); a.Outcome() != record.OK {
			t.Errorf("%s: third, on a new connection: %v", method, a.Err)
		}
	}
}

// TestClientGo shows that clients with client-go's transport have one HTTP/2 connection each,
// follow GOAWAY to another one, and know whose certificate they received.
func TestClientGo(t *testing.T) {
	var connections atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("protocol %s, want HTTP/2", r.Proto)
		}
		if r.URL.Path == "/goaway" {
			w.Header().Set("Connection", "close") // as k8s.io/apiserver/pkg/server/filters/goaway.go
		}
	}))
	s.EnableHTTP2 = true
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.StartTLS()
	defer s.Close()
	get := func(api *API, path string, kept bool) {
		t.Helper()
		a := api.Do(t.Context(), Request{Method: http.MethodPatch, Path: path, Body: []byte(`{}`)})
		if a.Outcome() != record.OK || !slices.Contains(a.Server, "127.0.0.1") || a.Reused != kept {
			t.Fatalf("outcome %s, server %v, on a kept connection %t (want %t), error %v", a.Outcome(), a.Server, a.Reused, kept, a.Err)
		}
	}
	first, second := open(t, s.Listener.Addr().String(), Options{ClientGo: true}), open(t, s.Listener.Addr().String(), Options{ClientGo: true})
	for i := range 3 {
		get(first, "/", i > 0)
		get(second, "/", i > 0)
	}
	if n := connections.Load(); n != 2 {
		t.Errorf("two clients have %d connections", n)
	}
	get(first, "/goaway", true)
	for i := range 3 {
		get(first, "/", i > 0)
	}
	if n := connections.Load(); n != 3 {
		t.Errorf("%d connections after one was asked to go away, want 3", n)
	}
}

func TestConnections(t *testing.T) {
	for _, opts := range []Options{{}, {NewConnections: true}} {
		var connections atomic.Int32
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor != 1 {
				t.Errorf("protocol %s, want HTTP/1.1", r.Proto)
			}
		}))
		s.EnableHTTP2 = true
		s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				connections.Add(1)
			}
		}
		s.StartTLS()
		defer s.Close()
		api := open(t, s.Listener.Addr().String(), opts)
		for range 3 {
			if a := api.Do(t.Context(), Request{Method: http.MethodGet, Path: "/"}); a.Outcome() != record.OK {
				t.Fatal(a.Err)
			}
		}
		want := int32(1)
		if opts.NewConnections {
			want = 3
		}
		if got := connections.Load(); got != want {
			t.Errorf("%+v: %d connections for 3 requests, want %d", opts, got, want)
		}
	}
}

// TestDialsEnd shows that an unanswered dial ends: some time after the request that it was for,
// and immediately when the client is closed.
func TestDialsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dialling atomic.Int32
		api, err := NewAPI(&rest.Config{Host: "http://10.0.0.1", Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			dialling.Add(1)
			defer dialling.Add(-1)
			<-ctx.Done()
			return nil, ctx.Err()
		}}, Options{DialTimeout: time.Millisecond}) // which is not for the configuration's own dialer
		if err != nil {
			t.Fatal(err)
		}
		ask := func() {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if a := api.Do(ctx, Request{Method: http.MethodPost, Path: "/"}); a.Outcome() != record.Refused {
				t.Errorf("outcome %s (%v), want refused", a.Outcome(), a.Err)
			}
			synctest.Wait()
		}
		ask()
		time.Sleep(dialTimeout)
		synctest.Wait()
		if n := dialling.Load(); n != 0 {
			t.Errorf("%d dials %s after they began", n, dialTimeout+time.Second)
		}
		ask()
		if n := dialling.Load(); n != 1 {
			t.Errorf("%d dials 1s after one began", n)
		}
		api.Close()
		synctest.Wait()
		if n := dialling.Load(); n != 0 {
			t.Errorf("%d dials of a closed client", n)
		}
	})
}

func TestRedirectIsNotFollowed(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/b" {
			t.Error("followed")
		}
		http.Redirect(w, r, "/b", http.StatusTemporaryRedirect)
	}))
	defer s.Close()
	a := open(t, s.Listener.Addr().String(), Options{}).Do(t.Context(), Request{Method: http.MethodPut, Path: "/a", Body: []byte(`{}`)})
	if a.Status != http.StatusTemporaryRedirect || a.Outcome() != record.Unknown {
		t.Errorf("status %d, outcome %s", a.Status, a.Outcome())
	}
}

func TestUntrustedServerIsRefused(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("asked") }))
	defer s.Close()
	s.Config.ErrorLog = nil
	api, err := NewAPI(&rest.Config{Host: s.URL}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	a := api.Do(t.Context(), Request{Method: http.MethodPut, Path: "/", Body: []byte(`{}`)})
	if a.Outcome() != record.Refused || !strings.Contains(a.Problem(), "certificate") {
		t.Errorf("outcome %s: %s", a.Outcome(), a.Problem())
	}
}

// TestStreamLimit: the limit is for the response, also for one that refuses, and not for the body.
func TestStreamLimit(t *testing.T) {
	const limit = 300 * time.Millisecond
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/refuses":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/goes-on":
			w.WriteHeader(http.StatusOK)
		}
		if r.URL.Path != "/silent" {
			_ = http.NewResponseController(w).Flush()
		}
		select {
		case <-time.After(2 * limit):
			_, _ = io.WriteString(w, "late")
		case <-r.Context().Done():
		}
	}))
	defer s.Close()
	api := open(t, s.Listener.Addr().String(), Options{})
	for _, path := range []string{"/silent", "/refuses"} {
		_, err := api.Stream(t.Context(), Request{Method: http.MethodGet, Path: path}, limit)
		if !errors.Is(err, ErrNotAccepted) || err.Error() != "not accepted in 300ms" {
			t.Errorf("%s: error %v", path, err)
		}
	}
	body, err := api.Stream(t.Context(), Request{Method: http.MethodGet, Path: "/goes-on"}, limit)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(body); err != nil || string(b) != "late" {
		t.Errorf("body %q, error %v", b, err)
	}
	if err := body.Close(); err != nil {
		t.Error(err)
	}
}
