package observe

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// TestWatchProbes shows that a watch which brings nothing is noticed, opened again
// and continues, and that a watch through another server is none of its business.
func TestWatchProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.NewInMemory(t, 2)
		w, read := recording(t)
		var silent atomic.Bool
		var opened atomic.Int32
		c.Server(1).Hook(func(rw http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("watch") == "" || !strings.Contains(r.URL.RawQuery, watchedObject) {
				return false
			}
			opened.Add(1)
			if !silent.Load() {
				return false
			}
			rw.WriteHeader(200)
			rw.(http.Flusher).Flush()
			<-r.Context().Done()
			return true
		})
		c.Set(configMaps+"/"+watchedObject, `{"kind":"ConfigMap","metadata":{"name":"watched"}}`)
		o := &Observers{cfg: Config{Cluster: c, ProbeInterval: 20 * time.Millisecond, ReadTimeout: time.Second}, w: w}
		loops, err := o.watchProbes(t.Context())
		if err != nil || len(loops) != 3 {
			t.Fatal(len(loops), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		o.cancel = cancel
		for _, loop := range loops {
			o.running.Go(func() { loop(ctx) })
		}
		waitFor(t, "some writes", func() bool { return c.Revision() > 10 })
		silent.Store(true)
		before := opened.Load()
		c.Server(1).CloseClientConnections()
		time.Sleep(time.Millisecond) // what was on its way has arrived
		hung := w.Now()
		waitFor(t, "the silent watch to be opened again", func() bool { return opened.Load() >= before+3 })
		silent.Store(false)
		back, written := w.Now(), c.Revision()
		// The last silent watch takes a time-out to be noticed.
		waitFor(t, "many writes", func() bool { return c.Revision() > written+30 })
		o.Stop()
		type seen struct{ ok, failed int }
		var first, during, after, other seen
		for _, p := range read().Probes {
			if p.V.Kind != record.ProbeWatch || !p.V.Reused {
				continue
			}
			s := &other
			switch {
			case p.V.Entrance == "node-1":
			case p.V.End < hung:
				s = &first
			case p.V.Start >= hung && p.V.End < back:
				s = &during
			case p.V.Start > back:
				s = &after
			default:
				continue
			}
			if p.V.OK {
				s.ok++
			} else {
				s.failed++
			}
		}
		if first.ok == 0 || during.ok > 0 || during.failed == 0 || after.ok == 0 || other.ok == 0 || other.failed > 0 {
			t.Errorf("before %+v, silent %+v, afterwards %+v, the other watch %+v", first, during, after, other)
		}
	})
}

// TestWatchProbeOrder shows that it does not matter whether the event or the acknowledgement of
// the write arrives first.
func TestWatchProbeOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, read := recording(t)
		p := &watchProbe{o: &Observers{cfg: Config{ReadTimeout: 50 * time.Millisecond}, w: w}, entrance: "balancer", breakOff: func() {}}
		p.event(5)
		p.expect(5, 0)
		p.expect(6, 0)
		p.event(6)
		p.expect(7, 0)
		p.event(9) // started again: the state of 7 is past
		p.expect(9, 0)
		p.expect(11, 0)
		broken := 0
		p.breakOff = func() { broken++ }
		time.Sleep(60 * time.Millisecond)
		p.giveUp()
		p.event(11) // too late
		ok, failed := 0, 0
		for _, e := range read().Probes {
			if e.V.End < e.V.Start || e.V.Entrance != "balancer" || e.V.Kind != record.ProbeWatch {
				t.Errorf("probe %+v", e.V)
			}
			if e.V.OK {
				ok++
			} else {
				failed++
			}
		}
		if ok != 4 || failed != 1 || broken != 1 {
			t.Errorf("%d events came, %d did not, %d watches were broken off", ok, failed, broken)
		}
	})
}

// A watch that is given up at the moment in which it ends is an error, never nothing.
func TestWatchGivenUp(t *testing.T) {
	c := apitest.New(t, 1)
	api, err := client.NewAPI(c.Entrances()[0].Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	c.Server(0).Hook(func(rw http.ResponseWriter, _ *http.Request) bool {
		http.Error(rw, "no", http.StatusServiceUnavailable)
		return true
	})
	for i := range 300 {
		events, err := openWatch(t.Context(), api, watchedObject, 0, time.Duration(i)*time.Microsecond)
		if err == nil {
			events.Close()
			t.Fatalf("accepted after %d µs by a server that refuses", i)
		}
	}
}
