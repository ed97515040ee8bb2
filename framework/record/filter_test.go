package record

import (
	"slices"
	"testing"
	"time"
)

func TestFilter(t *testing.T) {
	ms := Nanos(time.Millisecond)
	entries := []struct {
		name string
		at   Nanos
		v    any
	}{
		{"phase", 1 * ms, Phase{Name: "baseline"}},
		{"op", 2 * ms, Op{Client: "c1", Entrance: "node-1", Key: "k1"}},
		{"op2", 3 * ms, Op{Client: "c2", Entrance: "balancer", Key: "k2"}},
		{"opened", 4 * ms, Watch{ID: "w1", Phase: WatchOpened, Client: "c1", Entrance: "node-1"}},
		{"other watch", 5 * ms, Watch{ID: "w2", Phase: WatchOpened, Client: "c2", Entrance: "node-2", Key: "k2"}},
		{"event", 6 * ms, Event{Watch: "w1", Key: "k1"}},
		{"other event", 7 * ms, Event{Watch: "w2", Key: "k2"}},
		{"ended", 8 * ms, Watch{ID: "w1", Phase: WatchEnded, Client: "c1", Entrance: "node-1"}},
		{"list", 9 * ms, List{Client: "c1", Entrance: "node-3", Items: []Item{{Key: "k1"}, {Key: "k3"}}}},
		{"probe", 10 * ms, Probe{Entrance: "node-1"}},
		{"endpoints", 11 * ms, Endpoints{Via: "node-1"}},
		{"lease", 12 * ms, Lease{Via: "node-2", HolderNode: "node-1"}},
		{"etcd", 13 * ms, EtcdStatus{Node: "node-1"}},
		{"process", 14 * ms, ProcessState{Node: "node-1"}},
		{"fault", 15 * ms, Fault{Nodes: []string{"node-1", "node-2"}}},
		{"host", 16 * ms, Fault{Host: "balancer"}},
		{"steady", 17 * ms, Steady{}},
		{"harness", 18 * ms, Harness{}},
		{"object", 19 * ms, Object{Name: "k4", Via: "node-4"}},
	}
	all := make([]string, len(entries))
	for i, e := range entries {
		all[i] = e.name
	}
	for _, tt := range []struct {
		name   string
		filter Filter
		want   []string
	}{
		{"all", Filter{}, all},
		{"kinds", Filter{Kinds: []Kind{KindFault, KindOp}}, []string{"op", "op2", "fault", "host"}},
		{"times", Filter{Since: 5 * ms, Until: 7 * ms}, []string{"other watch", "event", "other event"}},
		{"node", Filter{Node: "node-1"}, []string{"op", "opened", "event", "ended", "probe", "endpoints", "lease", "etcd", "process", "fault"}},
		{"entrance", Filter{Node: "balancer"}, []string{"op2", "host"}},
		{"client", Filter{Client: "c1"}, []string{"op", "opened", "event", "ended", "list"}},
		{"object", Filter{Key: "k4", Node: "node-4"}, []string{"object"}},
		{"key", Filter{Key: "k2"}, []string{"op2", "other watch", "other event"}},
		{"key of a list", Filter{Key: "k3"}, []string{"list"}},
		{"several", Filter{Client: "c1", Key: "k1", Kinds: []Kind{KindEvent}}, []string{"event"}},
		{"nothing", Filter{Node: "node-9"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, e := range entries {
				kind := kindOf(t, e.v)
				if tt.filter.Takes(Entry{At: e.at, Kind: kind}, e.v) {
					got = append(got, e.name)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("it takes %q, want %q", got, tt.want)
			}
		})
	}
}
