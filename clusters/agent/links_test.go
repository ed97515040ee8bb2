package agent

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/framework"
)

// TestNetworkActive counts impairments until they are restored everywhere, or over,
// without asking agents.
func TestNetworkActive(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if down.Load() && r.URL.Path == "/restore" {
			http.Error(w, "no", http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, "null")
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	go func() { _ = agenthttp.Serve(t.Context(), l, mux) }()
	client := NewClient("a", func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
	})
	t.Cleanup(client.Close)
	n := NewNetwork("x", []Party{{Name: "a", Agents: []*Client{client}}, {Name: "b", Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.2/32")}}})
	impair := func(ttl time.Duration) string {
		t.Helper()
		handle, err := n.Impair(t.Context(), []framework.Link{{From: "b", To: "a"}}, framework.Impairment{Cut: true}, ttl)
		must(t, err)
		return handle
	}
	expect := func(want int) {
		t.Helper()
		if got := n.Active(); got != want {
			t.Errorf("%d are active, want %d", got, want)
		}
	}
	expect(0)
	first, second := impair(time.Hour), impair(time.Hour)
	expect(2)
	must(t, n.Restore(t.Context(), first))
	must(t, n.Restore(t.Context(), first))
	expect(1)
	down.Store(true)
	if err := n.Restore(t.Context(), second); err == nil || errors.Is(err, framework.ErrNothingDone) {
		t.Errorf("restored where nobody did: %v", err)
	}
	expect(1)
	impair(50 * time.Millisecond)
	eventually(t, "what is over counts no more", func() bool { return n.Active() == 1 })
}
