package vnet

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestJitter(t *testing.T) {
	const n = 200_000
	for _, tc := range []struct {
		distribution string
		deviation    float64 // in units of the jitter
		least, most  float64
		below        float64 // share of packets that are faster than the mean
	}{
		{"", 1 / math.Sqrt(3), -1, 1, 0.5},
		{uniform, 1 / math.Sqrt(3), -1, 1, 0.5},
		{normal, 1, -farthest, farthest, 0.5},
		// P(x < 3/2) of a Pareto variable of shape 3. Cutting the tail costs a quarter of its deviation.
		{pareto, 0.736, -0.5 / math.Sqrt(0.75), farthest, 1 - math.Pow(1/1.5, 3)},
	} {
		t.Run(tc.distribution, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			total, squares, below := 0.0, 0.0, 0
			for range n {
				x := float64(jitter(rng, tc.distribution, time.Second)) / 1e9
				if x < tc.least-1e-6 || x > tc.most+1e-6 {
					t.Fatalf("%v is outside %v to %v", x, tc.least, tc.most)
				}
				total, squares = total+x, squares+x*x
				if x < 0 {
					below++
				}
			}
			mean, deviation := total/n, math.Sqrt(squares/n)
			if math.Abs(mean) > 0.04 || math.Abs(deviation-tc.deviation) > 0.03 || math.Abs(float64(below)/n-tc.below) > 0.01 {
				t.Errorf("mean %.3f, deviation %.3f, %.3f below; want 0, %.3f, %.3f", mean, deviation, float64(below)/n, tc.deviation, tc.below)
			}
		})
	}
}

// The counters tell how long packets were really held.
func TestHeldFor(t *testing.T) {
	d := newDesk(t, 5, "a", "b")
	fixed := d.put(Impairment{Delay: 20 * time.Millisecond})
	bell := d.put(Impairment{Delay: 20 * time.Millisecond, Jitter: 5 * time.Millisecond, Distribution: normal})
	const n = 2000
	for range n {
		d.send(frameSpec{})
	}
	if c := d.count(fixed); c.Delayed != n || c.Held != 0 {
		t.Errorf("before anything left: %+v", c)
	}
	d.pass(time.Second)
	if c := d.count(fixed); c.Held != n || c.HeldFor != n*20*time.Millisecond {
		t.Errorf("fixed delay: %+v", c)
	}
	c := d.count(bell)
	if mean := c.HeldFor / n; c.Held != n || mean < 19*time.Millisecond || mean > 21*time.Millisecond {
		t.Errorf("jitter: mean %v, %+v", mean, c)
	}
	// What leaves early was not held for what was asked.
	d.send(frameSpec{})
	d.pass(5 * time.Millisecond)
	d.Remove(fixed)
	d.Remove(bell)
	if got := d.count(fixed); got.Held != n || len(d.out["b"].frames) != n+1 {
		t.Errorf("after Remove: %+v, %d frames", got, len(d.out["b"].frames))
	}
	d.settle()
}

func TestFlap(t *testing.T) {
	d := newDesk(t, 0, "a", "b")
	d.pass(123 * time.Millisecond) // phases count from the rule's beginning
	id := d.put(Impairment{Cut: true, FlapOn: 10 * time.Millisecond, FlapOff: 30 * time.Millisecond})
	for i := range 100 {
		before := len(d.out["b"].frames)
		d.send(frameSpec{})
		if passes := len(d.out["b"].frames) > before; passes != (i%40 >= 10) {
			t.Fatalf("after %d ms: passes is %v", i, passes)
		}
		d.pass(time.Millisecond)
	}
	if c := d.count(id); c.Matched != 30 || c.Dropped != 30 {
		t.Errorf("counters %+v", c)
	}
	d.settle()
}

// Each on phase takes the connections that it finds for established.
func TestFlapOfEstablished(t *testing.T) {
	d := newDesk(t, 0, "a", "b")
	id := d.put(Impairment{Cut: true, Established: true, FlapOn: 10 * time.Millisecond, FlapOff: 10 * time.Millisecond})
	data := frameSpec{from: "10.0.0.1", to: "10.0.0.2", protocol: protoTCP, sport: 40000, dport: 2380, tcpFlags: tcpACK}
	syn := data
	syn.tcpFlags = tcpSYN
	steps := []struct {
		frame frameSpec
		after time.Duration
		drops uint64
	}{{data, 0, 1}, {syn, 0, 1}, {data, 0, 1}, {data, 12 * time.Millisecond, 1}, {data, 10 * time.Millisecond, 2},
		{syn, 10 * time.Millisecond, 2}, {data, 0, 2}, {data, 10 * time.Millisecond, 3}}
	for i, step := range steps {
		d.pass(step.after)
		d.send(step.frame)
		if got := d.count(id).Dropped; got != step.drops {
			t.Fatalf("step %d: %d dropped, want %d", i, got, step.drops)
		}
	}
}

func TestImpairRefusesShapes(t *testing.T) {
	d := newDesk(t, 0, "a", "b")
	for words, imp := range map[string]Impairment{
		"uniform, normal, pareto": {Delay: time.Second, Jitter: 1, Distribution: "cauchy"},
		"1ms":                     {Cut: true, FlapOn: time.Second},
		"1ms or longer":           {Cut: true, FlapOn: time.Second, FlapOff: -time.Second},
		"cannot be combined":      {Cut: true, Reset: true},
	} {
		_, err := d.Impair(Rule{Links: []Link{{From: "a", To: "b"}}, Impairment: imp})
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%+v: %v, want words %q", imp, err, words)
		}
	}
}
