package fault

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/framework"
)

// fairness is an API server that serves two requests of ordinary users at a time.
type fairness struct {
	mu         sync.Mutex
	waiting    int
	dispatched int
	exempt     bool
	inert      bool // it serves every request immediately
	seats      chan struct{}
}

func (f *fairness) add(waiting, dispatched int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting += waiting
	f.dispatched += dispatched
}

func (f *fairness) answer(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case strings.HasSuffix(r.URL.Path, "/prioritylevelconfigurations"):
		kind := "Limited"
		if f.exempt {
			kind = "Exempt"
		}
		fmt.Fprintf(w, `{"items":[{"metadata":{"name":"ordinary","uid":"u-1"},"spec":{"type":%q}}]}`, kind)
	case strings.HasSuffix(r.URL.Path, "/dump_priority_levels"):
		f.mu.Lock()
		defer f.mu.Unlock()
		fmt.Fprintf(w, "PriorityLevelName, ActiveQueues, WaitingRequests, ExecutingRequests, DispatchedRequests, RejectedRequests\n"+
			"exempt,            <none>,       <none>,          <none>,            <none>,             <none>\n"+
			"ordinary,          1,            %d,              %d,                %d,                 0\n", f.waiting, len(f.seats), f.dispatched)
	case r.URL.Path == overloadPath && r.Method == http.MethodGet:
		if r.Header.Get("Impersonate-User") != overloadUser {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		w.Header().Set(levelHeader, "u-1")
		if f.inert {
			f.add(0, 1)
			return true
		}
		f.add(1, 0)
		select {
		case f.seats <- struct{}{}:
			f.add(-1, 1)
			time.Sleep(2 * time.Millisecond)
			<-f.seats
		case <-r.Context().Done():
			f.add(-1, 0)
		}
	default:
		return false
	}
	return true
}

// connected counts the connections through the entrances of a cluster.
type connected struct {
	apiCluster
	open atomic.Int64
}

type countedConn struct {
	net.Conn
	once sync.Once
	open *atomic.Int64
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

func (c *connected) Entrances() []framework.Entrance {
	all := c.apiCluster.Entrances()
	for i := range all {
		all[i].Config = rest.CopyConfig(all[i].Config)
		dial := all[i].Config.Dial
		all[i].Config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			c.open.Add(1)
			return &countedConn{Conn: conn, open: &c.open}, nil
		}
	}
	return all
}

// The cluster's process lives on after a fault: no connection of it may stay.
func TestOverloadLeavesNoConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, exempt := range map[string]bool{"refused": true, "injected and healed": false} {
			c := &connected{apiCluster: newAPI(t)}
			f := &fairness{seats: make(chan struct{}, 2), exempt: exempt}
			c.hookAll(f.answer)
			i, err := Overload.Inject(t.Context(), c, component("node-2", framework.APIServer), Params{TTL: ttl, Values: map[string]string{"concurrency": "20"}})
			if (err != nil) != exempt {
				t.Fatalf("%s: %v", name, err)
			}
			if !exempt {
				if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven {
					t.Fatalf("%s: %+v, %v", name, healed, err)
				}
			}
			// crypto/tls waits up to 5 s for a peer to read its close_notify, and both sides of a
			// net.Pipe may write theirs at the same time.
			await(t.Context(), 10*time.Second, func(context.Context) (bool, string) { return c.open.Load() == 0, "" })
			if n := c.open.Load(); n != 0 {
				t.Errorf("%s: %d connections are open", name, n)
			}
		}
	})
}

func TestOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newAPI(t)
		f := &fairness{seats: make(chan struct{}, 2), inert: true}
		c.hookAll(f.answer)
		target := component("node-2", framework.APIServer)
		p := Params{TTL: ttl, Values: map[string]string{"concurrency": "20", "rate": "10000"}}
		i, err := Overload.Inject(soon(t), c, target, p)
		if err != nil || i.Proof().Proven {
			t.Fatalf("an API server that serves everybody is proven overloaded: %v, %v", i, err)
		}
		if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven {
			t.Fatalf("%+v, %v", healed, err)
		}
		f.inert = false
		if i, err = Overload.Inject(t.Context(), c, target, p); err != nil || !i.Proof().Proven {
			t.Fatalf("%v, %v", i, err)
		}
		t.Log(i.Proof().What)
		f.add(1, 0) // one request waits for ever
		if healed, err := i.Heal(soon(t)); err != nil || healed.Proven {
			t.Errorf("an API server where requests wait is proven healed: %+v, %v", healed, err)
		}
		f.add(-1, 0)
		healed, err := i.Heal(t.Context())
		if err != nil || !healed.Proven {
			t.Fatalf("%+v, %v", healed, err)
		}
		t.Log(healed.What)
		if posts, deletes := c.Server(0).Count(http.MethodPost), c.Server(0).Count(http.MethodDelete); deletes < posts {
			t.Errorf("%d objects were made and %d deletions asked for", posts, deletes)
		}
		f.exempt = true
		if _, err := Overload.Inject(t.Context(), c, target, p); err == nil || !strings.Contains(err.Error(), "exempt") {
			t.Errorf("an exempt client: %v", err)
		}
		for name, value := range map[string]string{"concurrency": "0", "rate": "-1"} {
			if err := Overload.Check(c, target, Params{TTL: ttl, Values: map[string]string{name: value}}); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s=%s: %v", name, value, err)
			}
		}
		if err := Overload.Check(c, wholeTarget("node-1"), Params{TTL: ttl}); err == nil {
			t.Error("a whole node: accepted")
		}
	})
}
