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

// willingAgent returns a client of an agent that accepts every request, unless answers says no.
func willingAgent(t *testing.T, node string, answers func(*http.Request) bool) *Client {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if !answers(r) {
			http.Error(w, "no", http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, "null")
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	go func() { _ = agenthttp.Serve(t.Context(), l, mux) }()
	client := NewClient(node, func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
	})
	t.Cleanup(client.Close)
	return client
}

// TestRestoreBesideSilentAgents: an impairment is restored by the agents that were asked for it,
// whether or not others answer.
func TestRestoreBesideSilentAgents(t *testing.T) {
	t.Parallel()
	down := map[string]*atomic.Bool{}
	var parties []Party
	for _, name := range []string{"a", "b", "c"} {
		silent := new(atomic.Bool)
		down[name] = silent
		parties = append(parties, Party{Name: name, Agents: []*Client{willingAgent(t, name, func(*http.Request) bool { return !silent.Load() })}})
	}
	n := NewNetwork("x", parties)
	links := []framework.Link{{From: "a", To: "b"}, {From: "b", To: "a"}}
	for _, tc := range []struct {
		name           string
		before, during string // the agent that is silent at the impairment, and from then on
		restored       bool
	}{
		{"all answer", "", "", true},
		{"one that is not on the links is silent", "c", "", true},
		{"it falls silent later", "", "c", true},
		{"an end that was not asked is silent", "b", "", true},
		{"one that was asked falls silent", "", "b", false},
	} {
		for name, silent := range down {
			silent.Store(name == tc.before)
		}
		handle, err := n.Impair(t.Context(), links, framework.Impairment{Cut: true}, time.Hour)
		must(t, err)
		if tc.during != "" {
			down[tc.during].Store(true)
		}
		if err := n.Restore(t.Context(), handle); (err == nil) != tc.restored || (n.Active() == 0) != tc.restored {
			t.Errorf("%s: %v, %d are active", tc.name, err, n.Active())
		}
		for _, silent := range down {
			silent.Store(false)
		}
		must(t, n.Restore(t.Context(), handle))
	}
	for _, silent := range down {
		silent.Store(true)
	}
	if _, err := n.Impair(t.Context(), links, framework.Impairment{Cut: true}, time.Hour); !errors.Is(err, framework.ErrNothingDone) || n.Active() > 0 {
		t.Errorf("where no agent answers: %v, %d are active", err, n.Active())
	}
}

// TestNetworkActive counts impairments until they are restored everywhere, or over,
// without asking agents.
func TestNetworkActive(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	client := willingAgent(t, "a", func(r *http.Request) bool { return !down.Load() || r.URL.Path != "/restore" })
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
