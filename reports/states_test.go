package reports

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// drawn renders a lane as "class from-to text", in seconds.
func drawn(bars []bar) string {
	var parts []string
	for _, b := range bars {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s %.1f-%.1f %s", b.class, float64(b.from)/1e9, float64(b.to)/1e9, b.text)))
	}
	return strings.Join(parts, " | ")
}

func expect(t *testing.T, what string, bars []bar, want string) {
	t.Helper()
	if got := drawn(bars); got != want {
		t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

func TestEndpointLanes(t *testing.T) {
	run := &record.Run{Meta: fixtureMeta("x")}
	see := func(at float64, source, revision string, addresses ...string) {
		appendAt(&run.Endpoints, sec(at), record.Endpoints{Source: source, Revision: revision, Addresses: addresses})
	}
	see(1, "endpoints", "10", "10.77.0.11", "10.77.0.12")
	see(1, "endpointslice", "11", "10.77.0.11", "10.77.0.12")
	see(5, "endpoints", "20", "10.77.0.11")
	see(6, "endpoints", "10", "10.77.0.11", "10.77.0.12") // from a stale cache
	see(8, "endpointslice", "21", "10.77.0.11")
	see(9, "endpoints", "30", "10.77.0.11", "10.77.0.99")
	see(9, "endpointslice", "31", "10.77.0.11", "10.77.0.99")
	lanes := endpointLanes(run, sec(10), 1)
	if len(lanes) != 4 {
		t.Fatalf("%d lanes, want one for each of 4 addresses", len(lanes))
	}
	expect(t, "stays", lanes[0].bars, "node n0 1.0-10.0 present")
	expect(t, "goes", lanes[1].bars, "node n1 1.0-5.0 present | partial 5.0-8.0 in endpointslice only | gone 8.0-10.0 absent 2s")
	expect(t, "never there", lanes[2].bars, "gone 1.0-10.0 absent 9s")
	expect(t, "unknown address", lanes[3].bars, "gone 1.0-9.0 absent 8s | node other 9.0-10.0 present")
}

func TestEtcdLanes(t *testing.T) {
	run := &record.Run{Meta: fixtureMeta("x")}
	see := func(at float64, node, leader string, term uint64) {
		appendAt(&run.Etcd, sec(at), record.EtcdStatus{Node: node, OK: term > 0, Member: "m-" + node, Leader: leader, Term: term})
	}
	for at := 0.0; at < 10; at++ {
		switch {
		case at < 3:
			see(at, "node-1", "m-node-1", 2)
			see(at, "node-2", "m-node-1", 2)
		case at < 5: // node-1 is cut off and still believes that it is the leader
			see(at, "node-1", "m-node-1", 2)
			see(at, "node-2", "", 3)
		case at < 7:
			see(at, "node-1", "", 0)
			see(at, "node-2", "m-node-2", 3)
		default: // one term, two leaders
			see(at, "node-1", "m-node-1", 3)
			see(at, "node-2", "m-node-2", 3)
		}
	}
	lanes := etcdLanes(run, sec(10), 1)
	expect(t, "leader", lanes[0].bars,
		"node n0 0.0-3.0 node-1, term 2 | bad 3.0-5.0 no leader 2s | node n1 5.0-7.0 node-2, term 3 | bad 7.0-10.0 2 leaders in term 3 3s")
	expect(t, "node-1", lanes[1].bars, "node n0 0.0-5.0 | gone 5.0-7.0 | node n0 7.0-10.0")
	expect(t, "node-2", lanes[2].bars, "node n0 0.0-3.0 | bad 3.0-5.0 | node n1 5.0-10.0")
}

// A leader that is elected again has another term, and so another bar; a record without terms has
// none.
func TestTermsOfLeader(t *testing.T) {
	run := &record.Run{Meta: fixtureMeta("x")}
	for at := range 9 {
		term := []uint64{6, 7, 0}[at/3]
		appendAt(&run.Etcd, sec(float64(at)), record.EtcdStatus{Node: "node-2", OK: true, Member: "b", Leader: []string{"b", "b", "c"}[at/3], Term: term})
	}
	lanes := etcdLanes(run, sec(9), 1)
	expect(t, "leader", lanes[0].bars, "node n1 0.0-3.0 node-2, term 6 | node n1 3.0-6.0 node-2, term 7 | node other 6.0-9.0 member c")
	if tip, want := lanes[0].bars[1].tip, "etcd leader: node-2, term 7\n3.00s to 6.00s (3s)"; tip != want {
		t.Errorf("the tip is %q, want %q", tip, want)
	}
	if tip, want := lanes[1].bars[0].tip, "leader as node-2 sees it: node-2, term 6\n0.00s to 3.00s (3s)"; tip != want {
		t.Errorf("the member's tip is %q, want %q", tip, want)
	}
}

func TestEtcdLaneDoesNotGuessOverSilence(t *testing.T) {
	run := &record.Run{Meta: fixtureMeta("x")}
	for _, at := range []float64{0, 1, 2, 20, 21, 22} {
		appendAt(&run.Etcd, sec(at), record.EtcdStatus{Node: "node-1", OK: true, Member: "a", Leader: "a", Term: 2})
	}
	expect(t, "node-1", etcdLanes(run, sec(23), 1)[1].bars, "node n0 0.0-7.0 | node n0 20.0-23.0")
}

func TestLeaseLanes(t *testing.T) {
	run := &record.Run{Meta: fixtureMeta("x")}
	see := func(at float64, node, revision string) {
		holder := node
		if node != "" {
			holder += "_uid"
		}
		appendAt(&run.Leases, sec(at), record.Lease{Name: "kube-scheduler", Holder: holder, HolderNode: node, Duration: 15, Revision: revision})
	}
	see(0, "node-1", "1")
	see(2, "node-1", "2")
	see(4, "node-1", "2") // the same renewal, read again
	see(20, "node-2", "3")
	see(21, "node-1", "2") // from a stale cache
	see(25, "", "4")
	see(26, "node-3", "5")
	expect(t, "lease", leaseLanes(run, sec(60), 1)[0].bars,
		"node n0 0.0-17.0 node-1 | gone 17.0-20.0 expired 3s | node n1 20.0-25.0 node-2 | gone 25.0-26.0 no holder 1s | node n2 26.0-41.0 node-3 | gone 41.0-60.0 expired 19s")
}

func TestOutages(t *testing.T) {
	s := &probeSeries{}
	for i, ok := range []bool{true, false, false, true, false, true, false} {
		s.probes = append(s.probes, record.Probe{Start: sec(float64(i)), End: sec(float64(i) + 0.5), OK: ok, Status: 503})
	}
	want := []outage{{sec(1), sec(2.5), 2, "HTTP 503"}, {sec(4), sec(4.5), 1, "HTTP 503"}, {sec(6), sec(6.5), 1, "HTTP 503"}}
	if got := s.outages(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("outages %v, want %v", got, want)
	}
	merged := mergeOutages(want, sec(1.6))
	if len(merged) != 1 || merged[0].probes != 4 || merged[0].to != sec(6.5) {
		t.Errorf("merged outages %v, want one of 4 probes until 6.5 s", merged)
	}
	if s.longest().Seconds() != 1.5 {
		t.Errorf("longest %v, want 1.5s", s.longest())
	}
}

func TestShortStatesMergeAndHideNothingBad(t *testing.T) {
	var tr track
	for i := range 10 {
		tr.set(sec(1+float64(i)/100), state{"node n" + fmt.Sprint(i%2), fmt.Sprint(i)})
	}
	tr.set(sec(1.1), state{"gone", "absent"})
	tr.set(sec(1.11), state{"node n0", "present"})
	expect(t, "track", tr.finish(sec(9), sec(0.5), "x"), "gone 1.0-1.1 changes too quick to draw 110ms | node n0 1.1-9.0 present")
}

// A component that was never down has no lane; one that was has a lane with its states.
func TestComponentLanes(t *testing.T) {
	at := func(seconds float64, p record.ProcessState) record.Timed[record.ProcessState] {
		return record.Timed[record.ProcessState]{At: record.Nanos(seconds * 1e9), V: p}
	}
	run := &record.Run{Meta: record.Meta{Nodes: []record.Node{{Name: "node-1"}, {Name: "node-2"}}}, Processes: []record.Timed[record.ProcessState]{
		at(1, record.ProcessState{Node: "node-1", Component: "etcd", PID: 10, State: "S"}),
		at(1, record.ProcessState{Node: "node-2", Component: "etcd", PID: 11, State: "S", Restarts: 3}), at(2, record.ProcessState{Node: "node-2", Component: "etcd", PID: 11, State: "S", Restarts: 3}),
		at(1, record.ProcessState{Node: "node-2", Component: "kube-scheduler", PID: 12, State: "S"}),
		at(5, record.ProcessState{Node: "node-1", Component: "etcd", LastExit: "signal: killed"}),
		at(6, record.ProcessState{Node: "node-2", Component: "kube-scheduler", PID: 12, State: "T"}),
		at(9, record.ProcessState{Node: "node-1", Component: "etcd", PID: 20, State: "S", Restarts: 1}),
	}}
	lanes := componentLanes(run, 12e9, 1e8)
	var got []string
	for _, l := range lanes {
		got = append(got, l.label+" on "+l.note+":")
		for _, b := range l.bars {
			got = append(got, b.class+" "+b.text)
		}
	}
	want := "etcd on node-1:|node n0 process 10|gone down signal: killed 4s|node n0 process 20|kube-scheduler on node-2:|node n1 process 12|bad frozen 6s"
	if strings.Join(got, "|") != want {
		t.Errorf("%q, want %q", strings.Join(got, "|"), want)
	}
}

func TestChartsOf(t *testing.T) {
	op := func(from, to float64, outcome record.Outcome, refusal record.Refusal) record.Timed[record.Op] {
		return record.Timed[record.Op]{V: record.Op{API: "kubernetes", Call: record.Nanos(from * 1e9), Return: record.Nanos(to * 1e9), Outcome: outcome, Refusal: refusal}}
	}
	run := &record.Run{Ops: []record.Timed[record.Op]{
		op(1, 1.01, record.OK, ""), op(1, 1.05, record.OK, ""), op(2, 4, record.OK, ""),
		op(3, 3.1, record.Refused, record.RefusedVersion), op(3, 3.1, record.Refused, ""), op(3, 8, record.Unknown, ""),
	}}
	charts := chartsOf(run, 5e8)
	if len(charts) != 2 || charts[0].full != 2 || charts[0].label != "median 50ms" || len(charts[0].samples) != 2 {
		t.Fatalf("%+v", charts)
	}
	if charts[1].label != "2 requests" || len(charts[1].samples) != 2 || charts[1].full != 1 {
		t.Errorf("%+v", charts[1])
	}
}
