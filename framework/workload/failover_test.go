package workload

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
)

// firstOnly is a cluster whose clients know the first API server, and whose kubeconfig has a proxy.
type firstOnly struct {
	*apitest.Cluster
	proxy func(*http.Request) (*url.URL, error)
}

func (c firstOnly) Entrances() []framework.Entrance {
	all := c.Cluster.Entrances()[:1]
	all[0].Config.Proxy = c.proxy
	return all
}

func TestFailover(t *testing.T) {
	c := apitest.New(t, 2)
	var gone atomic.Bool
	var reads atomic.Int32
	addresses := make([]string, 2)
	for i := range addresses {
		u, err := url.Parse(c.Server(i).URL)
		if err != nil {
			t.Fatal(err)
		}
		addresses[i] = u.Host
		c.Server(i).Hook(func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == failoverKey {
				reads.Add(1)
			}
			w.Header().Set("Content-Type", "application/json")
			switch {
			case i == 0 && gone.Load():
				http.Error(w, "going", http.StatusServiceUnavailable)
			case strings.Contains(r.URL.Path, "endpointslices"):
				_, port, _ := strings.Cut(addresses[1], ":")
				fmt.Fprintf(w, `{"items":[{"endpoints":[{"addresses":["127.0.0.1"]}],"ports":[{"name":"https","port":%s}]}]}`, port)
			default:
				_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"Namespace"}`)
			}
			return true
		})
	}
	w, finish := recording(t)
	var learned, read atomic.Int32 // requests for which the proxy was asked
	stop, err := StartFailover(t.Context(), firstOnly{c, func(r *http.Request) (*url.URL, error) {
		if strings.Contains(r.URL.Path, "endpointslices") {
			learned.Add(1)
		} else {
			read.Add(1)
		}
		return nil, nil
	}}, w, 7)
	if err != nil {
		t.Fatal(err)
	}
	if n := reads.Load(); n < failoverClients {
		t.Errorf("%d clients have made a request when they are started", n)
	}
	waitFor(t, "the client to have learned the other address", func() bool { return c.Server(1).Count(http.MethodGet) > 0 })
	gone.Store(true)
	before := c.Server(1).Count(http.MethodGet)
	waitFor(t, "more requests through it", func() bool { return c.Server(1).Count(http.MethodGet) > before+3 })
	stop()
	run := finish()
	if len(run.Ops) < 3 {
		t.Fatalf("only %d operations", len(run.Ops))
	}
	own, clientGo := 0, 0
	for _, o := range run.Ops {
		if o.V.Purpose != PurposeFailover || o.V.Outcome != record.OK {
			t.Errorf("%+v", o.V)
		}
		if strings.HasPrefix(o.V.Client, "failover/client-go/") {
			clientGo++
		} else {
			own++
		}
	}
	if own == 0 || clientGo == 0 {
		t.Errorf("%d requests of holdfast's own clients, %d of client-go's", own, clientGo)
	}
	if learned.Load() == 0 || read.Load() == 0 {
		t.Errorf("the proxy of the kubeconfig was asked for %d requests for addresses and %d reads", learned.Load(), read.Load())
	}
	if last := run.Ops[len(run.Ops)-1].V; last.Address != addresses[1] {
		t.Errorf("in the end the client was at %s, not %s", last.Address, addresses[1])
	}
	if _, err := StartFailover(t.Context(), apitest.New(t, 0), w, 7); err == nil {
		t.Error("no error without an API server")
	}
}

// silent is a cluster that accepts no connections.
type silent struct {
	*apitest.Cluster
	dialling atomic.Int32
}

func (c *silent) Entrances() []framework.Entrance {
	all := c.Cluster.Entrances()
	for i := range all {
		all[i].Config.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			c.dialling.Add(1)
			defer c.dialling.Add(-1)
			<-ctx.Done()
			return nil, ctx.Err()
		}
	}
	return all
}

// TestFailoverDialsEnd shows that the clients' dials end with them: those for reading
// and those for learning addresses.
func TestFailoverDialsEnd(t *testing.T) {
	c := &silent{Cluster: apitest.New(t, 1)}
	w, read := recording(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		stop, err := StartFailover(ctx, c, w, 7)
		if err == nil {
			stop()
		}
		ended <- err
	}()
	waitFor(t, "two dials of each client", func() bool { return c.dialling.Load() >= 2*failoverClients })
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	waitFor(t, "all dials to end", func() bool { return c.dialling.Load() == 0 })
	if n := len(read().Ops); n > 0 {
		t.Errorf("%d operations of clients that were stopped", n)
	}
}
