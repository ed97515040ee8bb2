package observe

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// watchOnly starts the watches of both sources through the first server.
func watchOnly(t *testing.T, c *apitest.Cluster, w *record.Writer) (stop func()) {
	t.Helper()
	o := &Observers{cfg: Config{Cluster: c}.withDefaults(), w: w}
	api, err := client.NewAPI(c.Entrances()[0].Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	for _, src := range sources() {
		ch := &chain{o: o, api: api, src: src, via: "node-1"}
		o.running.Go(func() { ch.watch(ctx) })
	}
	return func() {
		cancel()
		o.running.Wait()
		api.Close()
	}
}

// TestWatchResumes shows that a broken watch misses no change, and that one whose history is gone
// starts again.
func TestWatchResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.NewInMemory(t, 1)
		setEndpoints(c, "10.0.0.1", "10.0.0.2", "10.0.0.3")
		var watches atomic.Int32
		c.Server(0).Hook(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("watch") != "" {
				watches.Add(1)
			}
			return false
		})
		w, read := recording(t)
		stop := watchOnly(t, c, w)
		settle := func(n int32) {
			t.Helper()
			waitFor(t, "watches", func() bool { return watches.Load() >= n })
			time.Sleep(100 * time.Millisecond)
		}
		settle(2)
		setEndpoints(c, "10.0.0.1", "10.0.0.2")
		time.Sleep(100 * time.Millisecond)
		c.Server(0).CloseClientConnections()
		setEndpoints(c, "10.0.0.1") // between two watches
		setEndpoints(c, "10.0.0.1", "10.0.0.4")
		settle(4)
		c.Server(0).CloseClientConnections()
		setEndpoints(c, "10.0.0.1", "10.0.0.5")
		setEndpoints(c, "10.0.0.6")
		c.Compact()
		settle(8) // 2 with that error, 2 after a new list
		setEndpoints(c, "10.0.0.7")
		time.Sleep(100 * time.Millisecond)
		stop()

		want := []string{
			"10.0.0.1 10.0.0.2 10.0.0.3 sample", "10.0.0.1 10.0.0.2", "10.0.0.1", "10.0.0.1 10.0.0.4",
			"10.0.0.6 sample", "10.0.0.7",
		}
		got := map[string][]string{}
		for _, e := range read().Endpoints {
			s := strings.Join(e.V.Addresses, " ")
			if e.V.Sample {
				s += " sample"
			}
			got[e.V.Source] = append(got[e.V.Source], s)
		}
		for _, source := range []string{"endpoints", "endpointslice"} {
			if !slices.Equal(got[source], want) {
				t.Errorf("%s: %q, want %q", source, got[source], want)
			}
		}
	})
}

// TestSlices shows that several slices are one set, that only ready endpoints
// count, and that a deleted slice takes its addresses with it.
func TestSlices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.NewInMemory(t, 1)
		c.Set(slicesPath+"a", `{"metadata":{"name":"a"},"endpoints":[{"addresses":["10.0.0.1"]},{"addresses":["10.0.0.8"],"conditions":{"ready":false}}]}`)
		c.Set(slicesPath+"b", `{"metadata":{"name":"b"},"endpoints":[{"addresses":["10.0.0.2"],"conditions":{"ready":true}}]}`)
		w, read := recording(t)
		stop := watchOnly(t, c, w)
		time.Sleep(300 * time.Millisecond)
		api, err := client.NewAPI(c.Entrances()[0].Config, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if a := api.Do(t.Context(), client.Request{Method: http.MethodDelete, Path: slicesPath + "b"}); a.Outcome() != record.OK {
			t.Fatal(a.Problem())
		}
		time.Sleep(300 * time.Millisecond)
		stop()
		var got []string
		for _, e := range read().Endpoints {
			if e.V.Source == "endpointslice" {
				got = append(got, strings.Join(e.V.Addresses, " "))
			}
		}
		if want := []string{"10.0.0.1 10.0.0.2", "10.0.0.1"}; !slices.Equal(got, want) {
			t.Errorf("states %q, want %q", got, want)
		}
	})
}

// TestChainKeepsOrder shows that samples that are overtaken are left out, and changes never.
func TestChainKeepsOrder(t *testing.T) {
	w, read := recording(t)
	ch := &chain{o: &Observers{w: w}, src: sources()[0], via: "node-1"}
	before := w.Now()
	ch.add(before, "10", true, nil)
	ch.add(0, "9", false, nil)        // a late event
	ch.add(0, "10", false, nil)       // in the sample already
	ch.add(0, "12", false, nil)       // a change
	ch.add(before, "11", true, nil)   // a sample that was under way
	ch.add(w.Now()+1, "5", true, nil) // the past, served again: evidence
	ch.add(0, "6", false, nil)        // continues from there
	ch.add(w.Now()+1, "6", true, nil) // unchanged
	time.Sleep(time.Millisecond)
	var got []string
	for _, e := range read().Endpoints {
		got = append(got, e.V.Revision)
		if e.V.Addresses == nil {
			t.Error("no list of addresses, want an empty one")
		}
	}
	if want := []string{"10", "9", "12", "5", "6", "6"}; !slices.Equal(got, want) {
		t.Errorf("revisions %v, want %v", got, want)
	}
}
