package vnet

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

func TestCut(t *testing.T) {
	udp := frameSpec{from: "10.0.0.1", to: "10.0.0.2", protocol: protoUDP, sport: 9, dport: 40000}
	reply := frameSpec{from: "fd00::1", to: "fd00::2", protocol: protoTCP, sport: 40000, dport: 9}
	other := frameSpec{from: "10.0.0.1", to: "10.0.0.2", protocol: protoTCP, sport: 1, dport: 40000}
	later := frameSpec{from: "10.0.0.1", to: "10.0.0.2", protocol: protoTCP, sport: 9, dport: 9, fragment: 3}
	for _, tc := range []struct {
		name  string
		ports []uint16
		frame frameSpec
		cut   bool
	}{
		{"everything", nil, udp, true},
		{"everything, fragment", nil, later, true},
		{"source port", []uint16{8, 9}, udp, true},
		{"destination port", []uint16{9}, reply, true},
		{"other port", []uint16{9}, other, false},
		{"fragment without ports", []uint16{9}, later, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := newDesk(t, 0, "a", "b")
			id := d.put(Impairment{Cut: true}, tc.ports...)
			d.send(tc.frame)
			want := RuleCounters{}
			if tc.cut {
				want = RuleCounters{Matched: 1, Dropped: 1}
			}
			if got := d.count(id); got != want {
				t.Errorf("counters %+v, want %+v", got, want)
			}
			if got := len(d.out["b"].frames); (got == 0) != tc.cut {
				t.Errorf("%d frames came through, cut is %v", got, tc.cut)
			}
			d.Remove(id)
			d.send(tc.frame)
			if got := d.count(id); got != want {
				t.Errorf("counters after Remove %+v, want %+v", got, want)
			}
			if got := d.LinkCounters("a", "b"); got.Packets != 2 || got.Dropped != want.Dropped {
				t.Errorf("link counters %+v", got)
			}
			d.settle()
		})
	}
}

func TestCutDropsWhatIsUnderWay(t *testing.T) {
	d := newDesk(t, 0, "a", "b")
	slow := d.put(Impairment{Delay: time.Second})
	for port := range uint16(4) {
		d.send(frameSpec{from: "10.0.0.1", to: "10.0.0.2", protocol: protoUDP, sport: 40000, dport: port})
	}
	cut := d.put(Impairment{Cut: true}, 1, 2)
	if got := d.count(cut); got.Matched != 2 || got.Dropped != 2 {
		t.Errorf("counters of the cut %+v, want 2 dropped", got)
	}
	if got := d.LinkCounters("a", "b"); got.Queued != 2 || got.Dropped != 2 {
		t.Errorf("link counters %+v", got)
	}
	d.pass(2 * time.Second)
	if got := len(d.out["b"].frames); got != 2 {
		t.Errorf("%d frames came through, want 2", got)
	}
	if got := d.count(slow); got.Delayed != 4 {
		t.Errorf("counters of the delay %+v", got)
	}
	d.settle()
}

func TestDelaysAddUpAndHealInAnyOrder(t *testing.T) {
	delays := []time.Duration{10 * time.Millisecond, 200 * time.Millisecond, 3 * time.Second}
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			d := newDesk(t, 0, "a", "b")
			var ids []RuleID
			want := time.Duration(0)
			for _, delay := range delays {
				ids = append(ids, d.put(Impairment{Delay: delay}))
				want += delay
			}
			cut := d.put(Impairment{Cut: true}, 7)
			for i := 0; ; i++ {
				d.send(frameSpec{from: "10.0.0.1", to: "10.0.0.2", protocol: protoTCP, dport: 7})
				start := time.Duration(d.clock - 1)
				d.send(frameSpec{})
				d.pass(time.Minute)
				frames := d.out["b"].frames
				if len(frames) != i+1 || frames[i].at-start != want {
					t.Fatalf("after %d removals: %d frames, last after %v, want %d after %v", i, len(frames), frames[len(frames)-1].at-start, i+1, want)
				}
				if i == len(order) {
					break
				}
				d.Remove(ids[order[i]])
				d.Remove(ids[order[i]])
				want -= delays[order[i]]
			}
			if got := d.count(cut); got.Dropped != 4 || got.Matched != 4 {
				t.Errorf("counters of the cut %+v", got)
			}
			if got := d.count(ids[order[1]]); got.Matched != 4 { // two rounds of two packets
				t.Errorf("counters of the rule removed second %+v", got)
			}
			d.settle()
		})
	}
}

func TestRemoveReleasesWhatItHeld(t *testing.T) {
	d := newDesk(t, 0, "a", "b")
	long := d.put(Impairment{Delay: time.Hour})
	d.put(Impairment{Delay: time.Second})
	for i := range 5 {
		d.send(frameSpec{payload: i})
	}
	d.pass(500 * time.Millisecond)
	d.Remove(long)
	if got := len(d.out["b"].frames); got != 0 {
		t.Fatalf("%d frames came before the other rule's delay", got)
	}
	d.pass(500 * time.Millisecond)
	if got := len(d.out["b"].frames); got != 5 {
		t.Fatalf("%d frames, want 5", got)
	}
	for i, f := range d.out["b"].frames {
		if f.at != time.Second || len(f.buf) != headerLen+42+i {
			t.Errorf("frame %d after %v with %d bytes", i, f.at, len(f.buf))
		}
	}
	d.settle()
}

func TestRate(t *testing.T) {
	const rate = 8_000_000 // 1 byte per microsecond
	d := newDesk(t, 0, "a", "b")
	limit := d.put(Impairment{Rate: rate, Delay: 5 * time.Millisecond})
	size := 1000
	for range 3 {
		d.send(frameSpec{payload: size - 42})
	}
	d.pass(time.Second)
	for i, f := range d.out["b"].frames {
		if want := 5*time.Millisecond + time.Duration(i+1)*time.Millisecond; f.at != want {
			t.Errorf("frame %d after %v, want %v", i, f.at, want)
		}
	}
	// One second's worth in one burst: 200 ms of it fit the queue.
	for range 1000 {
		d.send(frameSpec{payload: size - 42})
	}
	d.pass(2 * time.Second)
	c := d.count(limit)
	if c.Matched != 1003 || c.Dropped < 795 || c.Dropped > 801 {
		t.Errorf("counters %+v, want about 800 dropped", c)
	}
	if got := len(d.out["b"].frames); uint64(got) != c.Matched-c.Dropped {
		t.Errorf("%d frames came through, %+v", got, c)
	}
	d.settle()
}

// Only what has a checksum is corrupted, or counts as a packet that could have been.
func TestCorruptLeavesARPAlone(t *testing.T) {
	d := newDesk(t, 0, "a", "b")
	id := d.put(Impairment{Corrupt: 1})
	arp := frameSpec{src: macA, dst: macB, from: "10.0.0.1", to: "10.0.0.2", protocol: protoUDP, payload: 28}.build()
	binary.BigEndian.PutUint16(arp[headerLen+etherHeaderLen-2:], 0x0806)
	d.receive(d.parties["a"].port, arp)
	d.send(frameSpec{payload: 28})
	d.pass(time.Second)
	if got, want := d.count(id), (RuleCounters{Matched: 1, Passed: 1, Corrupted: 1}); got != want || len(d.out["b"].frames) != 2 {
		t.Errorf("counters %+v, want %+v, %d frames", got, want, len(d.out["b"].frames))
	}
	d.settle()
}

func TestLargeSegmentsAreTakenApart(t *testing.T) {
	large := frameSpec{from: "10.0.0.1", to: "10.0.0.2", protocol: protoTCP, payload: 14480, gsoSize: 1448}
	for _, tc := range []struct {
		name   string
		imp    Impairment
		frames int
		want   RuleCounters
	}{
		{"nothing", Impairment{}, 1, RuleCounters{Matched: 10, Passed: 10}},
		{"cut", Impairment{Cut: true}, 0, RuleCounters{Matched: 10, Dropped: 10}},
		{"delay", Impairment{Delay: time.Second}, 1, RuleCounters{Matched: 10, Passed: 10, Delayed: 10, Held: 10, HeldFor: 10 * time.Second, HeldBytes: 14480 + 54}},
		{"duplicate", Impairment{Duplicate: 1}, 20, RuleCounters{Matched: 10, Passed: 20, Duplicated: 10}},
		{"loss", Impairment{Loss: 1}, 0, RuleCounters{Matched: 10, Dropped: 10}},
		{"rate", Impairment{Rate: 1e9}, 10, RuleCounters{Matched: 10, Passed: 10, Delayed: 10, Held: 10,
			HeldFor: 55 * 1502 * 8 * time.Nanosecond, HeldBytes: 10 * 1502}},
		{"corrupt", Impairment{Corrupt: 1}, 10, RuleCounters{Matched: 10, Passed: 10, Corrupted: 10}},
		{"reorder", Impairment{Reorder: 1}, 10, RuleCounters{Matched: 10, Passed: 10, Reordered: 10, Delayed: 10, Held: 10,
			HeldFor: 10 * reorderHold, HeldBytes: 10 * 1502}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := newDesk(t, 0, "a", "b")
			id := d.put(tc.imp)
			d.send(large)
			d.pass(2 * time.Second)
			if got := len(d.out["b"].frames); got != tc.frames {
				t.Errorf("%d frames, want %d", got, tc.frames)
			}
			if got := d.count(id); got != tc.want {
				t.Errorf("counters %+v, want %+v", got, tc.want)
			}
			if got := d.LinkCounters("a", "b"); got.Packets != 10 || got.Bytes != 14480+10*54 {
				t.Errorf("link counters %+v", got)
			}
			d.settle()
		})
	}
}

func TestProbabilities(t *testing.T) {
	const n = 20000
	d := newDesk(t, 42, "a", "b")
	id := d.put(Impairment{Loss: 0.1, Duplicate: 0.05, Reorder: 0.02, Corrupt: 0.03})
	for range n {
		d.send(frameSpec{})
	}
	d.pass(time.Second)
	c := d.count(id)
	kept := float64(n - c.Dropped)
	for _, tc := range []struct {
		name      string
		got       uint64
		of, share float64
	}{
		{"dropped", c.Dropped, n, 0.1},
		{"duplicated", c.Duplicated, kept, 0.05},
		{"reordered", c.Reordered, kept * 1.05, 0.02},
		{"corrupted", c.Corrupted, kept * 1.05, 0.03},
	} {
		want, sigma := tc.of*tc.share, math.Sqrt(tc.of*tc.share*(1-tc.share))
		if math.Abs(float64(tc.got)-want) > 5*sigma {
			t.Errorf("%s: %d, want %.0f ± %.0f", tc.name, tc.got, want, 5*sigma)
		}
	}
	d.settle()
}

func TestSameSeedSameDecisions(t *testing.T) {
	run := func(seed uint64) []time.Duration {
		d := newDesk(t, seed, "a", "b")
		d.put(Impairment{Loss: 0.5, Delay: time.Second, Jitter: 100 * time.Millisecond})
		for range 100 {
			d.send(frameSpec{})
		}
		d.pass(time.Minute)
		var at []time.Duration
		for _, f := range d.out["b"].frames {
			at = append(at, f.at)
		}
		return at
	}
	if first, again := run(1), run(1); !slices.Equal(first, again) {
		t.Errorf("the same seed gave %v and %v", first, again)
	}
	first := run(1)
	if slices.Equal(first, run(2)) {
		t.Error("two seeds gave the same")
	}
	for _, at := range first {
		if at < 900*time.Millisecond || at > 1100*time.Millisecond {
			t.Errorf("delay %v outside 1 s ± 100 ms", at)
		}
	}
}

func TestImpairRefuses(t *testing.T) {
	links := []Link{{From: "a", To: "b"}}
	for _, tc := range []struct {
		name string
		rule Rule
	}{
		{"no links", Rule{}},
		{"unknown sender", Rule{Links: []Link{{From: "x", To: "b"}}}},
		{"unknown receiver after a good link", Rule{Links: []Link{{From: "a", To: "b"}, {From: "a", To: "x"}}, Impairment: Impairment{Cut: true}}},
		{"link to itself", Rule{Links: []Link{{From: "a", To: "a"}}}},
		{"loss above 1", Rule{Links: links, Impairment: Impairment{Loss: 1.5}}},
		{"loss that is no number", Rule{Links: links, Impairment: Impairment{Loss: math.NaN()}}},
		{"negative delay", Rule{Links: links, Impairment: Impairment{Delay: -1}}},
		{"negative rate", Rule{Links: links, Impairment: Impairment{Rate: -1}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := newDesk(t, 0, "a", "b")
			if id, err := d.Impair(tc.rule); err == nil || id != 0 {
				t.Errorf("got rule %d, error %v; want an error", id, err)
			}
			d.send(frameSpec{})
			if len(d.out["b"].frames) != 1 {
				t.Error("a refused rule has an effect")
			}
		})
	}
}

func TestLearning(t *testing.T) {
	d := newDesk(t, 0, "a", "b", "c")
	send := func(from string, src, dst address) {
		d.receive(d.parties[from].port, frameSpec{src: src, dst: dst, payload: 46}.build())
	}
	expect := func(step string, want map[string]int) {
		t.Helper()
		for name, r := range d.out {
			if len(r.frames) != want[name] {
				t.Errorf("%s: %s got %d frames, want %d", step, name, len(r.frames), want[name])
			}
			r.frames = nil
		}
	}
	send("a", macA, macB)
	expect("unknown address", map[string]int{"b": 1, "c": 1})
	send("b", macB, macA)
	expect("known address", map[string]int{"a": 1})
	send("a", macA, macB)
	expect("learned address", map[string]int{"b": 1})
	send("a", macA, address{0x33, 0x33, 0, 0, 0, 1})
	expect("multicast", map[string]int{"b": 1, "c": 1})
	send("c", macB, all)
	expect("gratuitous message from a new place", map[string]int{"a": 1, "b": 1})
	send("a", macA, macB)
	expect("moved address", map[string]int{"c": 1})
	send("a", macC, macA)
	expect("address on the same port", map[string]int{})
	d.out["c"].full = true
	send("a", macA, macB)
	expect("full receiver", map[string]int{})
	if got := d.LinkCounters("a", "c"); got.Dropped != 1 {
		t.Errorf("link counters of a full receiver %+v", got)
	}
	d.parties["c"].port.Unplug()
	send("a", macA, macB)
	send("c", macC, macA)
	expect("unplugged", map[string]int{})
	d.settle()
}

func TestUnplugDropsWhatIsUnderWay(t *testing.T) {
	for _, name := range []string{"a", "b"} {
		d := newDesk(t, 0, "a", "b")
		d.put(Impairment{Delay: time.Second})
		d.send(frameSpec{})
		d.parties[name].port.Unplug()
		d.ports[0] = d.parties[name].port
		d.parties[name].port.Plug()
		d.pass(2 * time.Second)
		if got := d.LinkCounters("a", "b"); len(d.out["b"].frames) != 0 || got.Dropped != 1 || got.Queued != 0 {
			t.Errorf("unplugged %s: %d frames, %+v", name, len(d.out["b"].frames), got)
		}
		d.settle()
	}
}

func TestQueueIsBounded(t *testing.T) {
	d := newDesk(t, 0, "a", "b")
	id := d.put(Impairment{Delay: time.Hour})
	for range linkQueueLimit/60000 + 100 {
		d.send(frameSpec{from: "10.0.0.1", to: "10.0.0.2", protocol: protoUDP, payload: 60000})
	}
	c, l := d.count(id), d.LinkCounters("a", "b")
	if c.Dropped == 0 || c.Dropped != l.Dropped || d.queue.bytes > linkQueueLimit {
		t.Errorf("rule %+v, link %+v, %d bytes wait", c, l, d.queue.bytes)
	}
	d.settle()
}

// A rule counts for each link alone, and what is handed on is counted where it is, so that
// a cut that lets something through gives itself away.
func TestRuleCountersByLink(t *testing.T) {
	d := newDesk(t, 0, "a", "b", "c")
	id, err := d.Impair(Rule{Links: []Link{{From: "a", To: "b"}, {From: "a", To: "c", Ports: []uint16{9}}, {From: "b", To: "a"}}, Impairment: Impairment{Cut: true}})
	if err != nil {
		t.Fatal(err)
	}
	// To an address that the switch does not know, so that each goes to b and to c.
	for _, port := range []uint16{8, 9, 9} {
		d.send(frameSpec{from: "10.0.0.1", to: "10.0.0.2", protocol: protoUDP, dport: port})
	}
	all := func() []RuleCounters {
		t.Helper()
		c, ok := d.RuleCounters(id)
		if !ok || len(c) != 3 {
			t.Fatalf("counters %+v, %v", c, ok)
		}
		return c
	}
	if got := all(); got[0] != (RuleCounters{Matched: 3, Dropped: 3}) || got[1] != (RuleCounters{Matched: 2, Dropped: 2}) || got[2] != (RuleCounters{}) {
		t.Errorf("cut: %+v", got)
	}
	d.rules[id].Cut = false // a cut that is broken
	d.send(frameSpec{from: "10.0.0.1", to: "10.0.0.2", protocol: protoUDP, dport: 8})
	if got := all(); got[0] != (RuleCounters{Matched: 4, Passed: 1, Dropped: 3}) || got[1].Passed != 0 {
		t.Errorf("a cut that lets packets through: %+v", got)
	}
	d.Remove(id)
	d.send(frameSpec{from: "10.0.0.1", to: "10.0.0.2", protocol: protoUDP, dport: 9})
	if got := all(); total(got).Passed != 1 {
		t.Errorf("removed: %+v", got)
	}
}
