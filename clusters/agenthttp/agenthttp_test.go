package agenthttp

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/local/clock"
	"github.com/holdfast-ha/holdfast/framework"
)

// TestErrors brings each kind of error from an agent to its client, over either kind
// of connection.
func TestErrors(t *testing.T) {
	mux := http.NewServeMux()
	for path, err := range map[string]error{"/nothing": NothingDone("it is so already"), "/unsupported": Unsupported("it cannot"), "/other": errors.New("it went wrong")} {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, _ *http.Request) { Error(w, err) })
	}
	mux.HandleFunc("POST /late", func(w http.ResponseWriter, r *http.Request) {
		if !RefuseLate(w, r) {
			_, _ = w.Write([]byte(`"in time"`))
		}
	})
	socket := filepath.Join(t.TempDir(), "socket")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, l, mux) }()
	var dials atomic.Int64
	dial := func(ctx context.Context) (net.Conn, error) {
		dials.Add(1)
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	for what, c := range map[string]*Client{"HTTP/1": NewClient(dial), "HTTP/2": NewMultiplexed(dial)} {
		dials.Store(0)
		for path, is := range map[string]error{"nothing": framework.ErrNothingDone, "unsupported": errors.ErrUnsupported} {
			if err := c.Call(t.Context(), http.MethodPost, path, 1, nil); !errors.Is(err, is) {
				t.Errorf("%s: %s: %v is not %v", what, path, err, is)
			}
		}
		if err := c.Call(t.Context(), http.MethodPost, "other", 1, nil); err == nil || err.Error() != "it went wrong" {
			t.Errorf("%s: %v", what, err)
		}
		var said string
		ctx, cancel := Within(t.Context(), time.Minute)
		if err := c.Call(ctx, http.MethodPost, "late", 1, &said); err != nil || said != "in time" {
			t.Errorf("%s: %q, %v", what, said, err)
		}
		cancel()
		if n := dials.Load(); n != 1 {
			t.Errorf("%s: %d connections were opened one after the other", what, n)
		}
		c.Close()
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := NewClient(dial).Call(t.Context(), http.MethodPost, "other", 1, nil); err == nil || !strings.Contains(err.Error(), "cannot be reached") {
		t.Errorf("nobody serves: %v", err)
	}
}

// socketEnv makes this test the client of a socket.
const socketEnv = "HOLDFAST_TEST_SOCKET"

// TestMovedClock: a request of a program on the same machine is in time, also if a fault has moved the
// clock of that program, as it does that of a podmaster.
func TestMovedClock(t *testing.T) {
	if socket := os.Getenv(socketEnv); socket != "" {
		c := NewUnix("the agent", socket)
		ctx, cancel := Within(t.Context(), time.Minute)
		defer cancel()
		if err := c.Call(ctx, http.MethodPost, "late", 1, nil); err != nil {
			t.Fatalf("at %s: %v", time.Now(), err)
		}
		ctx, cancel = context.WithDeadline(t.Context(), time.Now())
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://agent/late", nil)
		c.limit(req)
		if r := req.WithContext(t.Context()); !tooLate(r) {
			t.Errorf("a request whose time is over is in time: %v", r.Header)
		}
		return
	}
	if err := clock.Supported(); err != nil {
		t.Skip(err)
	}
	socket := filepath.Join(t.TempDir(), "socket")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = Serve(t.Context(), l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { RefuseLate(w, r) }))
	}()
	for _, offset := range []time.Duration{-time.Hour, time.Hour} {
		var out strings.Builder
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestMovedClock$", "-test.v")
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), socketEnv+"="+socket), &out, &out
		if err := clock.Start(cmd, clock.Shift{Offset: offset}); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("moved by %s: %v\n%s", offset, err, out.String())
		}
	}
}
