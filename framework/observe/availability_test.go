package observe

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// TestSkippedProbesLeaveNoHole shows that the record needs no entry for a probe that is
// not made because too many wait: those that wait are in it from their start to their
// end, so that at no time nothing was asked.
func TestSkippedProbesLeaveNoHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval, timeout = 2 * time.Millisecond, 2 * time.Second
		c := apitest.NewInMemory(t, 1)
		w, read := recording(t)
		e := c.Entrances()[0]
		api, err := client.NewAPI(e.Config, client.Options{NewConnections: true})
		if err != nil {
			t.Fatal(err)
		}
		defer api.Close()
		var asked, answer atomic.Int32
		c.Server(0).Hook(func(_ http.ResponseWriter, r *http.Request) bool {
			if asked.Add(1); answer.Load() > 0 {
				return false
			}
			_, _ = io.Copy(io.Discard, r.Body) // or the server does not see that the client left
			<-r.Context().Done()
			return true
		})
		p := &prober{o: &Observers{w: w, cfg: Config{Cluster: c}}, api: api, entrance: e.Name, kind: record.ProbeQuorumRead, object: "any", interval: interval, timeout: timeout}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { p.run(ctx); close(ended) }()
		waitFor(t, "as many probes as may wait", func() bool { return asked.Load() >= maxOutstanding })
		full := w.Now()
		time.Sleep(timeout / 2)
		if n := asked.Load(); n > maxOutstanding {
			t.Fatalf("%d probes were made, want %d", n, maxOutstanding)
		}
		answer.Store(1)
		waitFor(t, "probes after those that waited", func() bool { return asked.Load() > maxOutstanding+10 })
		cancel()
		<-ended
		var probes []record.Probe
		for _, p := range read().Probes {
			probes = append(probes, p.V)
		}
		slices.SortFunc(probes, func(a, b record.Probe) int { return cmp.Compare(a.Start, b.Start) })
		covered, last := record.Nanos(0), record.Nanos(0)
		for _, p := range probes {
			if covered > 0 && time.Duration(p.Start-covered) > timeout/4 {
				t.Errorf("the record has no probe between %s and %s", time.Duration(covered), time.Duration(p.Start))
			}
			covered, last = max(covered, p.End), p.Start
		}
		if covered == 0 || probes[0].Start > full || last < full+record.Nanos(timeout/2) {
			t.Errorf("the record has %d probes, the last one from %s; none was made any more at %s", len(probes), time.Duration(last), time.Duration(full))
		}
	})
}

// TestProbesRepeat shows that a probe is made once more where the API server that refused
// it asks for that, and only then.
func TestProbesRepeat(t *testing.T) {
	for _, tt := range []struct {
		name   string
		header string
		status int
		after  int
		again  bool // the repetition was made
		ok     bool // and succeeded
		refuse int32
	}{
		{name: "asked to", header: "1", status: http.StatusServiceUnavailable, after: 1, again: true, ok: true, refuse: 1},
		{name: "asked to with 429", header: "1", status: http.StatusTooManyRequests, after: 1, again: true, ok: true, refuse: 1},
		{name: "in vain", header: "1", status: http.StatusServiceUnavailable, after: 1, again: true, refuse: 2},
		{name: "not asked to", status: http.StatusServiceUnavailable, after: client.NoRetryAfter, refuse: 1},
		{name: "not the server's fault", header: "1", status: http.StatusConflict, after: 1, refuse: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := apitest.NewInMemory(t, 1)
				w, read := recording(t)
				e := c.Entrances()[0]
				api, err := client.NewAPI(e.Config, client.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer api.Close()
				p := &prober{o: &Observers{w: w, cfg: Config{Cluster: c}}, api: api, entrance: e.Name, kind: record.ProbeRead, object: "any", interval: time.Second, timeout: 10 * time.Second}
				if err := prepareProbes(t.Context(), c.Entrances(), []*prober{p}); err != nil {
					t.Fatal(err)
				}
				var asked atomic.Int32
				c.Server(0).Hook(func(rw http.ResponseWriter, r *http.Request) bool {
					if asked.Add(1) > tt.refuse {
						return false
					}
					if tt.header != "" {
						rw.Header().Set("Retry-After", tt.header)
					}
					rw.WriteHeader(tt.status)
					return true
				})
				time.Sleep(time.Second) // the record has begun at 0
				p.probe(t.Context(), 0)
				probes := read().Probes
				if len(probes) != 1 {
					t.Fatalf("%d probes", len(probes))
				}
				got := probes[0].V
				if got.OK || got.Status != tt.status || got.RetryAfter != tt.after || (got.Again != nil) != tt.again {
					t.Fatalf("%+v", got)
				}
				if tt.again && (got.Again.OK != tt.ok || got.Again.Start < got.End+record.Nanos(time.Second)) {
					t.Errorf("%+v, again %+v", got, *got.Again)
				}
			})
		})
	}
}

// TestProbesWantTheObject shows that no response counts but the object that was requested,
// whatever its status.
func TestProbesWantTheObject(t *testing.T) {
	const object = "any"
	for _, tt := range []struct {
		name, answer string
		ok           bool
	}{
		{"the object", `{"kind":"ConfigMap","metadata":{"name":"any"}}`, true},
		{"another object", `{"kind":"ConfigMap","metadata":{"name":"other"}}`, false},
		{"another kind", `{"kind":"Pod","metadata":{"name":"any"}}`, false},
		{"an empty object", `{}`, false},
		{"the page of a balancer", `<html><body>Sorry</body></html>`, false},
		{"nothing", ``, false},
	} {
		for _, kind := range []record.ProbeKind{record.ProbeRead, record.ProbeQuorumRead, record.ProbeWrite, record.ProbeWatch} {
			if kind == record.ProbeWatch && tt.ok {
				continue // an object is not an event
			}
			t.Run(tt.name+", "+string(kind), func(t *testing.T) {
				c := apitest.New(t, 1)
				w, read := recording(t)
				e := c.Entrances()[0]
				api, err := client.NewAPI(e.Config, client.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer api.Close()
				p := &prober{o: &Observers{w: w, cfg: Config{Cluster: c}}, api: api, entrance: e.Name, kind: kind, object: object, interval: time.Second, timeout: 10 * time.Second}
				c.Server(0).Hook(func(rw http.ResponseWriter, _ *http.Request) bool {
					_, _ = io.WriteString(rw, tt.answer)
					return true
				})
				p.probe(t.Context(), 0)
				got := read().Probes[0].V
				if got.OK != tt.ok || (got.Error == "") != tt.ok || got.Status != http.StatusOK {
					t.Errorf("%+v", got)
				}
			})
		}
	}
}
