package retry

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestAgain sends requests through the proxy to a server that answers as its list says,
// 0 for a connection that breaks.
func TestAgain(t *testing.T) {
	for name, test := range map[string]struct {
		method  string
		answers []int
		want    int
		asked   int
	}{
		"a patch that etcd had no leader for":   {http.MethodPatch, []int{500, 503, 200}, 200, 3},
		"a patch on a connection that breaks":   {http.MethodPatch, []int{0, 200}, 200, 2},
		"a patch that is forbidden for a while": {http.MethodPatch, []int{403, 200}, 200, 2},
		"a deletion that was too much":          {http.MethodDelete, []int{429, 200}, 200, 2},
		"a deletion done before":                {http.MethodDelete, []int{404}, 404, 1},
		"a patch that is wrong":                 {http.MethodPatch, []int{422}, 422, 1},
		"a patch that comes too late":           {http.MethodPatch, []int{409}, 409, 1},
		"a lease, which kwok sees to itself":    {http.MethodPut, []int{500}, 500, 1},
		"a read":                                {http.MethodGet, []int{500}, 500, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				mu.Lock()
				defer mu.Unlock()
				if string(body) != "all of it" || r.URL.Path != "/api/v1/namespaces/n/pods/p/status" {
					t.Errorf("got %q at %s", body, r.URL.Path)
				}
				status := test.answers[asked]
				asked++
				if status == 0 {
					panic(http.ErrAbortHandler)
				}
				w.WriteHeader(status)
			}))
			defer server.Close()
			front := httptest.NewServer(through(t, server.URL))
			defer front.Close()
			r, err := http.NewRequestWithContext(t.Context(), test.method, front.URL+"/api/v1/namespaces/n/pods/p/status", strings.NewReader("all of it"))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != test.want || asked != test.asked {
				t.Errorf("answered %d after %d attempts, want %d after %d", resp.StatusCode, asked, test.want, test.asked)
			}
		})
	}
}

// TestGivenUp ends a repeated request when its sender has gone.
func TestGivenUp(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodDelete, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	a := &again{carrier: http.DefaultTransport, log: log.New(io.Discard, "", 0)}
	if _, err := a.RoundTrip(r); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func through(t *testing.T, server string) http.Handler {
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	return proxy(target, &again{carrier: http.DefaultTransport, log: log.New(t.Output(), "", 0)})
}
