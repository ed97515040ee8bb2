package agenthttp

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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
