package fault

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// A cut is proven by each of its links, in each direction, and by nothing having passed.
func TestCutIsProvenByEachLink(t *testing.T) {
	links := func(names ...string) map[string]bool {
		set := map[string]bool{}
		for _, n := range names {
			set[n] = true
		}
		return set
	}
	quiet := links("node-2>node-1", "node-2>node-3", "node-2>balancer", "node-2>workers", "node-2>harness")
	for _, tc := range []struct {
		name     string
		prepare  func(*fakeCluster)
		noProber bool
		want     string // empty: it is proven
	}{
		{name: "all links carry packets", prepare: func(*fakeCluster) {}},
		{name: "one link lets packets through", prepare: func(c *fakeCluster) { c.leaks = links("node-2>node-3") }, want: "packets passed from node-2 to node-3"},
		{name: "the other direction of it", prepare: func(c *fakeCluster) { c.leaks = links("node-1>node-2") }, want: "packets passed from node-1 to node-2"},
		{name: "one link carries nothing by itself", prepare: func(c *fakeCluster) { c.idle = links("node-2>node-3") }},
		{name: "one direction carries nothing by itself", prepare: func(c *fakeCluster) { c.idle = quiet }},
		{name: "a link is not cut", prepare: func(c *fakeCluster) { c.idle, c.whole = links("node-2>node-3"), links("node-2>node-3") },
			want: "none of the packets sent from node-2 to node-3 was counted"},
		{name: "an idle link, and nothing can be sent", noProber: true, prepare: func(c *fakeCluster) { c.idle = links("node-2>node-3") }},
		{name: "an idle direction, and nothing can be sent", noProber: true, prepare: func(c *fakeCluster) { c.idle = quiet }, want: "no packet came from node-2"},
	} {
		for _, f := range []*Fault{Cut, Isolate, Split, BlackHole} {
			t.Run(tc.name+", "+f.Name, func(t *testing.T) {
				want := tc.want
				if f == Split && tc.noProber { // node-3 has one link that is cut
					want = "no packet "
				}
				synctest.Test(t, func(t *testing.T) {
					c := newFake(framework.APIServer, framework.Etcd)
					time.Sleep(time.Minute)
					tc.prepare(c)
					var cluster framework.Cluster = probingCluster{c}
					if tc.noProber {
						cluster = c
					}
					i, err := f.Inject(t.Context(), cluster, wholeTarget("node-2"), Params{TTL: ttl})
					if err != nil {
						t.Fatal(err)
					}
					if p := i.Proof(); p.Proven != (want == "") || !strings.Contains(p.What, want) {
						t.Errorf("%+v, want proven unless %q", p, want)
					}
				})
			})
		}
	}
}

// A cut that lets packets through later on has not been one.
func TestCutLeaksLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFake(framework.APIServer)
		time.Sleep(time.Minute)
		i := proofs{fault: Cut, target: wholeTarget("node-2")}.inject(t, c)
		if !i.Proof().Proven {
			t.Fatalf("%+v", i.Proof())
		}
		c.leaks = map[string]bool{"node-3>node-2": true}
		time.Sleep(time.Second)
		if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven {
			t.Errorf("%+v, %v", healed, err)
		}
		if p := i.Proof(); p.Proven || !strings.Contains(p.What, "while it was active") {
			t.Errorf("%+v", p)
		}
	})
}

// An impairment whose rules another program has removed has not lasted, whatever its share.
func TestRulesRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFake(framework.APIServer)
		time.Sleep(time.Minute)
		i := proofs{fault: Loss, target: wholeTarget("node-2"), params: map[string]string{"share": "50%"}}.inject(t, c)
		if !i.Proof().Proven {
			t.Fatalf("%+v", i.Proof())
		}
		c.bypassed = true
		time.Sleep(time.Second)
		if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven {
			t.Errorf("%+v, %v", healed, err)
		}
		if p := i.Proof(); p.Proven || !strings.Contains(p.What, "another program removed the rules of the impairment") {
			t.Errorf("%+v", p)
		}
	})
}

// If a link carries little, packets are sent along it until the share is known.
func TestShareOfAnIdleLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFake(framework.APIServer)
		c.idle = map[string]bool{}
		for _, from := range c.Parties() {
			for _, to := range c.Parties() {
				c.idle[from+">"+to] = true
			}
		}
		inject := func(cluster framework.Cluster) Proof {
			t.Helper()
			i, err := Loss.Inject(t.Context(), cluster, wholeTarget("node-2"), Params{TTL: ttl, Values: map[string]string{"share": "1%", "peer": "node-1"}})
			if err != nil {
				t.Fatal(err)
			}
			return i.Proof()
		}
		if p := inject(probingCluster{c}); !p.Proven || c.probes < 1000 {
			t.Errorf("%+v, %d packets sent", p, c.probes)
		}
		if p := inject(c); p.Proven {
			t.Errorf("proven by nothing: %+v", p)
		}
	})
}

func links(n ...framework.LinkCounters) (all []counted) {
	for i, c := range n {
		all = append(all, counted{framework.Link{From: fmt.Sprintf("node-%d", i+1), To: "node-9"}, c})
	}
	return all
}

// What counters show of shares, rates and delays, and what they do not.
func TestFindings(t *testing.T) {
	loss := func(matched, dropped uint64) framework.LinkCounters {
		return framework.LinkCounters{Matched: matched, Dropped: dropped, Passed: matched - dropped}
	}
	reorder := func(matched, passed, reordered uint64) framework.LinkCounters {
		return framework.LinkCounters{Matched: matched, Passed: passed, Reordered: reordered}
	}
	held := func(n uint64, bytes uint64, d time.Duration) framework.LinkCounters {
		return framework.LinkCounters{Matched: n, Held: n, HeldBytes: bytes, HeldFor: d}
	}
	for _, tc := range []struct {
		name    string
		shows   shows
		asked   framework.Impairment
		links   []counted
		shown   bool
		refuted bool
	}{
		{"half is lost", losses, framework.Impairment{Loss: .5}, links(loss(1000, 490)), true, false},
		{"one of many is lost", losses, framework.Impairment{Loss: .5}, links(loss(100_000, 1)), true, true},
		{"all are lost, half was asked for", losses, framework.Impairment{Loss: .5}, links(loss(100, 100)), true, true},
		{"a tenth is lost, half was asked for", losses, framework.Impairment{Loss: .5}, links(loss(200, 20)), true, true},
		{"one link of two loses none", losses, framework.Impairment{Loss: .1}, links(loss(1000, 100), loss(1000, 0)), true, true},
		{"one link of two has carried little", losses, framework.Impairment{Loss: .1}, links(loss(1000, 100), loss(20, 0)), true, false},
		{"everything is lost", losses, framework.Impairment{Loss: 1}, links(loss(50, 50)), true, false},
		{"everything but half", losses, framework.Impairment{Loss: 1}, links(loss(50, 25)), true, true},
		{"few packets", losses, framework.Impairment{Loss: .1}, links(loss(20, 1)), false, false},
		{"none has come", losses, framework.Impairment{Loss: .1}, links(loss(0, 0)), false, false},
		{"all are reordered", reorders, framework.Impairment{Reorder: 1}, links(reorder(1000, 980, 1000)), true, false},
		{"one is reordered", reorders, framework.Impairment{Reorder: 1}, links(reorder(100_000, 100_000, 1)), true, true},
		{"what is left of what another one drops", reorders, framework.Impairment{Reorder: .5}, links(reorder(1000, 100, 50)), true, false},
		{"duplicated", duplicates, framework.Impairment{Duplicate: .5}, links(framework.LinkCounters{Matched: 1000, Passed: 1500, Duplicated: 500}), true, false},
		{"not duplicated", duplicates, framework.Impairment{Duplicate: .5}, links(framework.LinkCounters{Matched: 1000, Passed: 1001, Duplicated: 1}), true, true},
		{"duplicated while it flaps", duplicates, framework.Impairment{Duplicate: .5, FlapOn: time.Second}, links(framework.LinkCounters{Matched: 1000, Duplicated: 500}), true, false},
		{"not duplicated while it flaps", duplicates, framework.Impairment{Duplicate: .5, FlapOn: time.Second}, links(framework.LinkCounters{Matched: 1000}), false, true},
		{"reordered while it flaps", reorders, framework.Impairment{Reorder: .5, FlapOn: time.Second}, links(reorder(1000, 0, 500)), true, false},
		{"not reordered while it flaps", reorders, framework.Impairment{Reorder: .5, FlapOn: time.Second}, links(reorder(1000, 0, 0)), false, true},
		{"corrupted", corrupts, framework.Impairment{Corrupt: .5}, links(framework.LinkCounters{Matched: 1000, Passed: 1000, Corrupted: 510}), true, false},
		{"one is corrupted", corrupts, framework.Impairment{Corrupt: .5}, links(framework.LinkCounters{Matched: 1000, Passed: 1000, Corrupted: 1}), true, true},
		{"too few to show corruption", corrupts, framework.Impairment{Corrupt: .01}, links(framework.LinkCounters{Matched: 100, Passed: 100, Corrupted: 1}), false, false},
		{"as slow as asked", rates, framework.Impairment{Rate: 8000}, links(held(10, 10_000, 10*time.Second)), true, false},
		{"slower, since packets wait", rates, framework.Impairment{Rate: 8000}, links(held(10, 10_000, 55*time.Second)), true, false},
		{"faster than asked", rates, framework.Impairment{Rate: 8000}, links(held(10, 10_000, 5*time.Second)), true, true},
		{"one link is faster", rates, framework.Impairment{Rate: 8000}, links(held(10, 10_000, 10*time.Second), held(10, 10_000, time.Second)), true, true},
		{"nothing has passed", rates, framework.Impairment{Rate: 1000}, links(framework.LinkCounters{Matched: 1}), false, false},
		{"delayed", delays, framework.Impairment{Delay: time.Second}, links(held(3, 300, 3*time.Second)), true, false},
		{"one link is not delayed", delays, framework.Impairment{Delay: time.Second}, links(held(3, 300, 9*time.Second), held(3, 300, time.Second)), false, false},
		{"cut", drops, framework.Impairment{Cut: true}, links(loss(1000, 1000)), true, false},
		{"one of a thousand dropped", drops, framework.Impairment{Cut: true}, links(loss(1000, 1)), true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := tc.shows(tc.asked, tc.links)
			if f.shown != tc.shown || (f.refuted != "") != tc.refuted {
				t.Errorf("%+v", f)
			}
		})
	}
}

// Chance alone does not refute a share, however often it is checked.
func TestSharesByChance(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for share := range maps.Keys(map[float64]bool{.001: true, .1: true, .5: true, .99: true, 1: true}) {
		for range 200 {
			n, hit := 0, 0
			for range 50 {
				for range 100 {
					if n++; random.Float64() < share {
						hit++
					}
				}
				if h := (hits{float64(hit), float64(n), float64(n)}); h.unlikely(share) {
					t.Fatalf("%d of %d at %v", hit, n, share)
				}
			}
		}
	}
}
