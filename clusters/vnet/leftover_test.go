package vnet

import (
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"
)

// randomImpairment returns one that validates.
func randomImpairment(rng *rand.Rand) Impairment {
	all := []Impairment{
		{Cut: true}, {Reset: true}, {Cut: true, Established: true}, {Reset: true, Established: true},
		{Delay: 20 * time.Millisecond}, {Delay: 20 * time.Millisecond, Jitter: 5 * time.Millisecond, Distribution: pareto},
		{Loss: 0.3}, {Duplicate: 0.5}, {Reorder: 0.5}, {Corrupt: 0.5}, {Rate: 1e6}, {},
	}
	imp := all[rng.IntN(len(all))]
	if rng.IntN(3) == 0 {
		imp.FlapOn, imp.FlapOff = 3*time.Millisecond, 2*time.Millisecond
	}
	return imp
}

// TestOverlapLeavesNothing lays hundreds of random impairments over each other
// and removes them in random order: what is left is the switch as it was.
func TestOverlapLeavesNothing(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		d := newDesk(t, seed, "a", "b", "c")
		d.learn(macB, d.parties["b"])
		parties := []string{"a", "b", "c"}
		var active []RuleID
		for range 300 {
			switch {
			case len(active) < 6 && rng.IntN(2) == 0:
				r := Rule{Impairment: randomImpairment(rng)}
				for range 1 + rng.IntN(3) {
					from := rng.IntN(3)
					l := Link{From: parties[from], To: parties[(from+1+rng.IntN(2))%3]}
					if rng.IntN(2) == 0 {
						l.Ports = []uint16{7}
					}
					r.Links = append(r.Links, l)
				}
				id, err := d.Impair(r)
				if err != nil {
					t.Fatal(err)
				}
				active = append(active, id)
			case len(active) > 0:
				i := rng.IntN(len(active))
				d.Remove(active[i])
				active = slices.Delete(active, i, i+1)
			}
			flags := []uint8{tcpSYN, tcpACK, tcpACK, tcpFIN | tcpACK, tcpRST}[rng.IntN(5)]
			d.send(frameSpec{from: "10.0.0.1", to: "10.0.0.2", protocol: protoTCP, sport: uint16(rng.IntN(9)), dport: 7, payload: rng.IntN(3000), gsoSize: 1000, tcpFlags: flags})
			d.pass(time.Duration(rng.IntN(3)) * time.Millisecond)
		}
		for _, id := range active {
			d.Remove(id)
		}
		d.pass(time.Minute)
		for _, l := range d.Links() {
			if len(l.Rules) != 0 || l.Queued != 0 {
				t.Fatalf("seed %d: %s to %s has rules %v and %d packets", seed, l.From, l.To, l.Rules, l.Queued)
			}
		}
		if len(d.rules) > removedLimit || len(d.queue.heap) != 0 || d.queue.bytes != 0 {
			t.Errorf("seed %d: %d rules, %d bytes wait", seed, len(d.rules), d.queue.bytes)
		}
		// As at the start: every packet arrives immediately, once and intact.
		for _, r := range d.out {
			r.frames = nil
		}
		f := frameSpec{src: macA, dst: macB, from: "10.0.0.1", to: "10.0.0.2", protocol: protoTCP, sport: 3, dport: 7, tcpFlags: tcpACK, payload: 1000}
		now := time.Duration(d.clock - 1)
		d.send(f)
		if got := d.out["b"].frames; len(got) != 1 || got[0].at != now || !reflect.DeepEqual(got[0].buf, f.build()) || len(d.out["a"].frames)+len(d.out["c"].frames) != 0 {
			t.Errorf("seed %d: the switch is not as it was", seed)
		}
		d.settle()
	}
}

func TestCountersOfRemovedRules(t *testing.T) {
	d := newDesk(t, 0, "a", "b")
	var ids []RuleID
	for range removedLimit + 5 {
		id := d.put(Impairment{Cut: true})
		d.send(frameSpec{})
		d.Remove(id)
		d.Remove(id)
		ids = append(ids, id)
	}
	for i, id := range ids {
		c, ok := d.RuleCounters(id)
		if kept := i >= 5; ok != kept || kept && total(c).Dropped != 1 {
			t.Errorf("rule %d: %+v, %v", i, c, ok)
		}
	}
}

// TestPowerCyclesLeaveNothing attaches and closes ports again and again.
func TestPowerCyclesLeaveNothing(t *testing.T) {
	eachBackend(t, func(t *testing.T, backend Backend) {
		l := newLab(t, Config{}, backend, "a", "b")
		b := l.machines["b"]
		cycle := func() {
			if err := b.port.Close(); err != nil {
				t.Fatal(err)
			}
			id := l.impair(Impairment{Delay: time.Millisecond}, Link{From: "a", To: "b"}, Link{From: "b", To: "a"})
			b.port = l.attach("b", b, backend)
			if l.machines["a"].ping(b.addr, 1, 10*time.Second) != 1 {
				t.Fatal("no answer after a power cycle")
			}
			l.Remove(id)
		}
		for range 3 {
			cycle()
		}
		descriptors, goroutines := count(t, "/proc/self/fd"), runtime.NumGoroutine()
		threads := count(t, "/proc/self/task")
		for range 25 {
			cycle()
		}
		// A thread that could not be led back to its namespace ends a little
		// later, and the runtime starts some as it needs them.
		if now := count(t, "/proc/self/fd"); now > descriptors+1 {
			t.Errorf("%d descriptors, before %d", now, descriptors)
		}
		if now := runtime.NumGoroutine(); now > goroutines+1 {
			t.Errorf("%d goroutines, before %d", now, goroutines)
		}
		if now := count(t, "/proc/self/task"); now > threads+8 {
			t.Errorf("%d threads, before %d", now, threads)
		}
		if len(l.parties) != 2 || len(l.ports) != 2 || len(l.addresses) > 8 {
			t.Errorf("%d parties, %d ports, %d addresses", len(l.parties), len(l.ports), len(l.addresses))
		}
		checkBooks(t, l.Switch)
	})
}

func count(t *testing.T, dir string) int {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
