package workload

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
)

// An API server that does not serve at first is tried until it does.
func TestListWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.NewInMemory(t, 2)
		w, read := recording(t)
		traffic, err := Start(t.Context(), Config{Cluster: c, Settings: Settings{Profiles: []string{ProfileRegisters}}}, w)
		if err != nil {
			t.Fatal(err)
		}
		var asked atomic.Int32 // for a list or a watch
		c.Server(1).Hook(func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("labelSelector") == "" || asked.Add(1) > 6 {
				return false
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		})
		if err := traffic.ListWatch(t.Context(), "node-2"); err != nil {
			t.Error(err)
		}
		if err := traffic.ListWatch(t.Context(), "node-3"); err == nil {
			t.Error("node-3 does not exist")
		}
		traffic.Stop()
		refused, opened := 0, map[bool]int{} // by whether they are streaming lists
		for _, o := range read().Watches {
			switch {
			case o.V.Entrance != "node-2" || len(o.V.Server) == 0 && o.V.Phase == record.WatchOpened:
				t.Errorf("%+v", o.V)
			case o.V.Phase == record.WatchRefused:
				refused++
			case o.V.Phase == record.WatchOpened:
				opened[o.V.Initial]++
			}
		}
		if refused == 0 || opened[true] != 1 || opened[false] != 1 {
			t.Errorf("%d were refused, %v opened", refused, opened)
		}
	})
}

// TestListWatchAccepted: a watch that is accepted late has its whole time, and an API server may have
// no streaming lists.
func TestListWatchAccepted(t *testing.T) {
	for name, tc := range map[string]struct {
		answer   func(w http.ResponseWriter) bool
		streamed int
	}{
		"late":     {func(http.ResponseWriter) bool { time.Sleep(1900 * time.Millisecond); return false }, 1},
		"rejected": {func(w http.ResponseWriter) bool { w.WriteHeader(http.StatusUnprocessableEntity); return true }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := apitest.NewInMemory(t, 1)
				w, read := recording(t)
				traffic, err := Start(t.Context(), Config{Cluster: c, Settings: Settings{Profiles: []string{ProfileRegisters}}}, w)
				if err != nil {
					t.Fatal(err)
				}
				c.Server(0).Hook(func(w http.ResponseWriter, r *http.Request) bool {
					return r.URL.Query().Get("sendInitialEvents") == "true" && tc.answer(w)
				})
				if err := traffic.ListWatch(t.Context(), "node-1"); err != nil {
					t.Error(err)
				}
				traffic.Stop()
				streamed := 0
				began := map[string]record.Nanos{}
				for _, o := range read().Watches {
					switch {
					case !o.V.Initial:
					case o.V.Phase == record.WatchOpened:
						began[o.V.ID] = o.V.Seen
					case o.V.Phase == record.WatchEnded && time.Duration(o.V.Seen-began[o.V.ID]) < 2*time.Second:
						t.Errorf("it ended after %s: %s", time.Duration(o.V.Seen-began[o.V.ID]), o.V.Error)
					case o.V.Phase == record.WatchEnded:
						streamed++
					}
				}
				if streamed != tc.streamed {
					t.Errorf("%d streaming lists, want %d", streamed, tc.streamed)
				}
			})
		})
	}
}

// Each API server must send everything since the start.
func TestOldWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.NewInMemory(t, 2)
		w, read := recording(t)
		traffic, err := Start(t.Context(), Config{Cluster: c, Settings: Settings{Profiles: []string{ProfileRegisters}, Registers: RegisterSettings{Interval: 10 * time.Millisecond}}}, w)
		if err != nil {
			t.Fatal(err)
		}
		if err := (&Traffic{registers: &collection{}}).OldWatch(t.Context()); err == nil {
			t.Error("a traffic that has seen nothing has no old version")
		}
		waitFor(t, "some history", func() bool {
			oldest, newest := traffic.registers.span()
			return number(newest) > number(oldest)+20
		})
		if err := traffic.OldWatch(t.Context()); err != nil {
			t.Error(err)
		}
		c.Compact()
		if err := traffic.OldWatch(t.Context()); err != nil {
			t.Error(err)
		}
		traffic.Stop()
		whole, gone := 0, 0
		run := read()
		oldest, _ := traffic.registers.span()
		events := map[string]int{}
		for _, e := range run.Events {
			events[e.V.Watch]++
		}
		for _, o := range run.Watches {
			if o.V.From != oldest {
				t.Errorf("%+v", o.V)
			}
			if o.V.Phase == record.WatchOpened {
				continue
			}
			if o.V.Status == http.StatusGone {
				gone++
			} else if events[o.V.ID] >= 10 {
				whole++
			}
		}
		if whole != 2 || gone != 2 {
			t.Errorf("%d watches showed the history, %d were told that it is gone", whole, gone)
		}
	})
}

func TestSpreadWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.NewInMemory(t, 3)
		w, read := recording(t)
		traffic, err := Start(t.Context(), Config{Cluster: c, Settings: Settings{Profiles: []string{ProfileRegisters}}}, w)
		if err != nil {
			t.Fatal(err)
		}
		if err := traffic.SpreadWatch(t.Context()); err == nil {
			t.Error("a cluster without a balancer spreads nothing")
		}
		traffic.cfg.Cluster = balanced{c}
		if err := traffic.SpreadWatch(t.Context()); err != nil {
			t.Error(err)
		}
		traffic.cfg.Cluster = c
		traffic.Stop()
		opened := 0
		for _, o := range read().Watches {
			if o.V.Phase == record.WatchOpened && o.V.Entrance == "balancer" {
				opened++
			}
		}
		if opened == 0 || opened > 45 { // on a busy machine some are late
			t.Errorf("%d watches", opened)
		}
	})
}

// balanced is a cluster with one more entrance, which leads to the first API server.
type balanced struct{ *apitest.Cluster }

func (b balanced) Entrances() []framework.Entrance {
	all := b.Cluster.Entrances()
	e := all[0]
	e.Name, e.Kind, e.Node = "balancer", framework.EntranceBalancer, ""
	return append(all, e)
}
