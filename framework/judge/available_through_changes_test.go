package judge

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func TestAvailableThroughChanges(t *testing.T) {
	through := func(bad ...[2]float64) func() *story {
		return func() *story {
			s := upgradedAll()
			at := 5.0
			for _, b := range bad {
				s.probes("balancer", true, at, b[0]).probes("balancer", false, b[0], b[1])
				at = b[1]
			}
			return s.probes("balancer", true, at, 45)
		}
	}
	rule(t, record.Check{Requirement: "HA-UP-001", Judge: "available-through-changes", Bound: "H + M"}, []ruling{
		{name: "always", want: Pass, took: "0s", says: "0 of", story: through()},
		{name: "short errors with each node", want: Pass, took: "2.95s", says: "failed, for 4.7s in all", story: through([2]float64{12, 13}, [2]float64{22, 25}, [2]float64{31, 32})},
		{name: "longer than the balancer takes", want: Fail, says: "for 6.95s", story: through([2]float64{22, 29})},
		{name: "just after a node", want: Fail, says: "must not go without a successful request", story: through([2]float64{35.5, 42})},
		{name: "from late after a node on", want: Fail, says: "for 5.4s", story: through([2]float64{39.5, 45})},
		{name: "long before", want: Pass, took: "0s", story: through([2]float64{6, 9})},
		{name: "long after", want: Pass, took: "0s", story: through([2]float64{41.5, 44})},
		{name: "not probed", want: Inconclusive, says: "nothing probed balancer", story: upgradedAll},
		{name: "not probed soon after the last node", want: Inconclusive, says: "nothing probed balancer for", story: func() *story {
			return upgradedAll().probes("balancer", true, 5, 36.2).probes("balancer", true, 40, 45)
		}},
		{name: "nothing probed soon after the last node, at the end of the run", want: Pass, story: func() *story { return upgradedAll().probes("balancer", true, 5, 36.2) }},
		{name: "one kind pauses", want: Inconclusive, says: "no write on a new connection was tried for 5.1", story: func() *story { return through()().change(unprobed(record.ProbeWrite, false, 20, 25.05)) }},
		{name: "one kind pauses, another fails", want: Fail, story: func() *story {
			return through([2]float64{30, 37})().change(unprobed(record.ProbeWrite, false, 20, 25.05))
		}},
	})
	// some has this many of every three requests of one kind fail from one time to another.
	some := func(from, to float64, fail int) func() *story {
		return func() *story {
			tried := 0
			return through()().change(func(r *record.Run) {
				for i := range r.Probes {
					p := &r.Probes[i].V
					if p.Kind == record.ProbeWrite && p.Reused && p.Start >= sec(from) && p.Start < sec(to) {
						p.OK = tried%3 >= fail
						tried++
					}
				}
			})
		}
	}
	rule(t, record.Check{Requirement: "HA-UP-001", Judge: "available-through-changes", Bound: "H + M"}, []ruling{
		{name: "one of three requests fails through changes that may cost 12s of 30s", want: Pass, says: "100 of 2100", story: some(10, 40, 1)},
		{name: "two of three requests fail", want: Fail, took: "19.7s", says: "must not add up to more than 12s (3 × (H + M), H = 2s, M = 2s): 200 of 300 tries of a write on a persistent connection failed within 30s from 10.000s, as many as in an outage of 19.7s", story: some(10, 40, 2)},
		{name: "two of three requests fail, with four or five tasks for each CPU", want: Inconclusive, says: "4.5 tasks shared each CPU on average", story: func() *story {
			s := some(10, 40, 2)().loaded()
			for i := range s.run.Harness {
				s.run.Harness[i].V.Queue = 4.5
			}
			return s
		}},
		{name: "two of three requests fail during one change", want: Pass, story: some(20, 30, 2)},
		{name: "two of three requests fail after the changes", want: Pass, story: some(40.1, 45, 2)},
	})
	// waits has requests wait from one time to another: a read fails after 3 s, a write after 10 s.
	waits := func(from, to float64) *story {
		s := upgradedAll().probes("balancer", true, 5, from).probes("balancer", true, to, 45)
		for t := range steps(from, to, 0.1) {
			for i := range 6 {
				kind, limit := []record.ProbeKind{record.ProbeQuorumRead, record.ProbeWrite, record.ProbeRead}[i/2], 3.0
				if kind == record.ProbeWrite {
					limit = 10
				}
				end := min(t+limit, to+0.05)
				s.probe(record.Probe{Entrance: "balancer", Reused: i&1 > 0, Kind: kind, Start: sec(t), End: sec(end), OK: end < t+limit})
			}
		}
		return s
	}
	// slow makes all writes on kept connections from one time to another take as long.
	slow := func(from, to, by float64) func(*record.Run) {
		return func(r *record.Run) {
			for i := range r.Probes {
				if p := &r.Probes[i].V; p.Kind == record.ProbeWrite && p.Reused && p.Start >= sec(from-0.01) && p.Start < sec(to-0.01) {
					p.End = p.Start + sec(by)
				}
			}
		}
	}
	hangs := func(s *story, from float64) *story {
		return s.probe(record.Probe{Entrance: "balancer", Reused: true, Kind: record.ProbeWrite, Start: sec(from), End: sec(from + 10), Error: "timed out"})
	}
	rule(t, record.Check{Requirement: "HA-UP-003", Judge: "available-through-changes", Bound: "2E + M"}, []ruling{
		{name: "requests wait, then fail or succeed", want: Fail, took: "5.95s", says: "must not go without a successful request for longer than 4s", story: func() *story { return waits(22, 28) }},
		{name: "requests wait for less than the bound", want: Pass, took: "3.45s", story: func() *story { return waits(22, 25.5) }},
		{name: "requests wait from before the change on", want: Pass, took: "2s", story: func() *story { return waits(7, 12) }},
		{name: "requests wait long after the change", want: Pass, took: "0s", story: func() *story { return waits(40.5, 44.9) }},
		{name: "requests wait for an election with a split vote", want: Pass, took: "5.45s", says: "within 6s (2E + M + split votes", story: func() *story {
			return newLeaders(waits(22, 27.5)).at(27).etcd("node-1", "m3", 4)
		}},
		{name: "requests wait longer than for an election with a split vote", want: Fail, took: "6.95s", says: "for longer than 6s", story: func() *story {
			return newLeaders(waits(22, 29)).at(27).etcd("node-1", "m3", 4)
		}},
		{name: "requests wait for an election without a split vote", want: Fail, took: "5.45s", story: func() *story { return newLeaders(waits(22, 27.5), 27) }},
	})
	rule(t, record.Check{Requirement: "HA-UP-003", Judge: "available-through-changes", Bound: "H + 2E + M"}, []ruling{
		{name: "requests wait for the balancer to notice that a member restarts", want: Pass, took: "5.45s", story: func() *story { return waits(22, 27.5) }},
		{name: "requests wait longer than for the balancer", want: Fail, took: "6.95s", says: "for longer than 6s", story: func() *story { return waits(22, 29) }},
	})
	rule(t, record.Check{Requirement: "HA-UP-001", Judge: "available-through-changes", Bound: "H + M"}, []ruling{
		{name: "each write takes long", want: Fail, took: "9.5s", says: "no write on a persistent connection succeeded for 9.5s", story: func() *story { return through()().change(slow(12, 35, 9.5)) }},
		{name: "each write took long before the change", want: Pass, story: func() *story { return through()().change(slow(5, 35, 3.5)) }},
		{name: "each write takes a while", want: Pass, took: "3.5s", story: func() *story { return through()().change(slow(12, 35, 3.5)) }},
		{name: "one write takes long", want: Pass, took: "50ms", story: func() *story { return through()().change(slow(12, 12.1, 9.5)) }},
		{name: "one write hangs on a dead connection", want: Pass, took: "50ms", story: func() *story { return hangs(through()(), 12.001) }},
		{name: "rare writes, one of which hangs on a dead connection", want: Pass, took: "50ms", story: func() *story {
			return hangs(through()().change(unprobed(record.ProbeWrite, true, 12, 16)), 12)
		}},
		{name: "one that hangs from before the change on", want: Pass, took: "0s", story: func() *story { return hangs(through()(), 4) }},
	})
	// served has all requests through the balancer answered by one API server.
	served := func(by string) func() *story {
		return func() *story {
			return through()().change(func(r *record.Run) {
				for i := range r.Probes {
					r.Probes[i].V.Server = by
				}
			})
		}
	}
	rule(t, record.Check{Requirement: "HA-UP-001", Judge: "available-through-changes", Bound: "H + M"}, []ruling{
		{name: "clients used the last node", want: Pass, story: served("node-3")},
	})
	rule(t, record.Check{Requirement: "HA-UP-002", Judge: "available-through-changes", Bound: "H + M", Params: map[string]string{"changes": "one, two"}}, []ruling{
		{name: "clients used the second node", want: Pass, story: served("node-2")},
		{name: "clients used none of the nodes", want: Inconclusive, says: "no client of balancer used an API server in the 10s before its node was changed (node-1 and node-2)", story: served("node-3")},
		{name: "clients used none of the nodes, and yet had to wait", want: Fail, says: "must not go without a successful request", story: func() *story {
			return through([2]float64{22, 29})().change(func(r *record.Run) {
				for i := range r.Probes {
					r.Probes[i].V.Server = "node-3"
				}
			})
		}},
		{name: "only etcd was changed", want: Pass, story: func() *story {
			return served("node-3")().change(func(r *record.Run) {
				for i := range r.Changes {
					r.Changes[i].V.Action = "upgrade-etcd"
				}
			})
		}},
		{name: "only the schedulers were restarted", want: Pass, story: func() *story {
			return served("node-3")().change(func(r *record.Run) {
				for i := range r.Changes {
					r.Changes[i].V.Action, r.Changes[i].V.Restarts = "reconfigure", []string{"kube-scheduler"}
				}
			})
		}},
	})
	rule(t, record.Check{Requirement: "HA-UP-001", Judge: "available-through-changes", Bound: "H + M", Params: map[string]string{"entrance": "vip"}}, []ruling{
		{name: "no such entrance", want: NotApplicable, says: `no entrance "vip"`, story: through()},
	})
}

// The evidence has the numbers of every entrance that was probed.
func TestAvailableThroughChangesOfEachEntrance(t *testing.T) {
	s := upgradedAll().probes("balancer", true, 5, 12).probes("balancer", false, 12, 13).probes("balancer", true, 13, 20).
		probes("balancer", false, 20, 20.5).probes("balancer", true, 20.5, 45).probes("node-2", true, 5, 45)
	s.run.Meta.Checks = []record.Check{{Requirement: "HA-UP-001", Level: "MUST", Judge: "available-through-changes", Bound: "H + M"}}
	r := Evaluate(s.run)[0]
	want := []string{
		"through balancer from 10.000s to 40.000s, 90 of 1800 probes failed, for 1.3s in all; the longest time without a successful probe of one kind was 950ms",
		"through node-2 from 10.000s to 40.000s, 0 of 1800 probes failed, for 0s in all; the longest time without a successful probe of one kind was 0s",
	}
	if r.Verdict != Pass || len(r.Evidence) < 2 || !slices.Equal(r.Evidence[:2], want) {
		t.Errorf("%s: %s\n%s", r.Verdict, r.Sentence, strings.Join(r.Evidence, "\n"))
	}
}
