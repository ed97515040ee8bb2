package reports

import (
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// The fixture is a run of two scenarios. In api-server-killed, the API server on node-2 is killed
// at 20 s and held down for 40 s: its address is removed 13.9 s later, the balancer keeps sending
// to it for too long, and a scheduler lease moves. In etcd-leader-killed, node-1's etcd is
// killed, and the record is truncated.

func sec(s float64) record.Nanos { return record.Nanos(s * 1e9) }

func dur(s float64) *time.Duration {
	d := time.Duration(s * 1e9)
	return &d
}

var fixtureStart = time.Date(2026, 8, 20, 3, 15, 0, 0, time.UTC)

func fixtureRun() Run {
	run := Run{
		ID: "20260820-031500-5f3a", Provider: "local", Profile: "smoke", Seed: 16045690984833335023,
		Started: fixtureStart, Ended: fixtureStart.Add(214 * time.Second),
		Versions: Versions{Kubernetes: "v1.37.1", Etcd: "v3.7.3", Kwok: "v0.8.0", Holdfast: "v0.1.0"},
		Machine:  Machine{OS: "linux", Arch: "amd64", Kernel: "6.18.2", Cores: 2, MemoryBytes: 8 << 30},
		Command:  []string{"holdfast", "run", "--profile", "smoke", "--seed", "16045690984833335023"},
	}
	for i := 1; i <= 3; i++ {
		run.Nodes = append(run.Nodes, Node{Name: fmt.Sprintf("node-%d", i), Address: fmt.Sprintf("10.77.0.1%d", i),
			Versions: map[string]string{"kube-apiserver": "v1.37.1", "etcd": "v3.7.3"}})
	}
	run.Nodes[2].Versions["kube-apiserver"] = "v1.36.3"
	settings := func(e time.Duration) map[string]time.Duration {
		return map[string]time.Duration{"L": 15 * time.Second, "R": 10 * time.Second, "P": 2 * time.Second, "T": 15 * time.Second, "I": 10 * time.Second,
			"E": e, "H": 2 * time.Second, "M": 2 * time.Second, "G": 50 * time.Second, "N": 5 * time.Second, "A": time.Minute}
	}
	run.Clusters = []Cluster{
		{Name: "cluster-1", Scenarios: []string{"api-server-killed", "another-killed"}, Nodes: run.Nodes, Versions: run.Versions,
			LoadBalancer: "builtin", Disk: "none", Settings: settings(time.Second), Took: *dur(132), Made: *dur(6.2)},
		{Name: "cluster-2", Scenarios: []string{"etcd-leader-killed"}, Nodes: []Node{}, Versions: run.Versions, LoadBalancer: "haproxy", Disk: "fuse",
			Arguments: []string{"etcd --election-timeout=3000"}, Settings: settings(3 * time.Second), Took: *dur(41), Made: *dur(5.9),
			Problem: "the worker ended: signal: killed"},
	}
	run.Times = []ScenarioTime{
		{"api-server-killed", "cluster-1", Spent{Waiting: *dur(61), Work: *dur(12.3), Overhead: *dur(6.8)}},
		{"etcd-leader-killed", "cluster-2", Spent{Waiting: *dur(22.5), Work: *dur(3.1), Overhead: *dur(4)}},
	}
	return run
}

func fixtureMeta(scenario string) record.Meta {
	m := record.Meta{
		Version: record.Version, Run: "20260820-031500-5f3a", Scenario: scenario, Seed: 16045690984833335023,
		Started: fixtureStart.Add(12 * time.Second), Harness: "v0.1.0", Provider: "local",
		Entrances: []string{"balancer", "node-1", "node-2", "node-3"},
	}
	for _, n := range fixtureRun().Nodes {
		m.Nodes = append(m.Nodes, record.Node{Name: n.Name, Address: n.Address,
			Components: []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}})
	}
	return m
}

func appendAt[T any](list *[]record.Timed[T], at record.Nanos, v T) {
	*list = append(*list, record.Timed[T]{At: at, V: v})
}

func phasesOf(run *record.Run, begin, fault, heal, after float64) {
	for _, p := range []struct {
		at   float64
		name string
	}{{0, "steady state"}, {begin, "baseline"}, {fault, "fault"}, {heal, "recovery"}, {after, "steady state"}} {
		appendAt(&run.Phases, sec(p.at), record.Phase{Name: p.name})
	}
}

func fixtureRecords() map[string]*record.Run {
	return map[string]*record.Run{"api-server-killed": apiServerKilled(), "etcd-leader-killed": etcdLeaderKilled()}
}

func apiServerKilled() *record.Run {
	const killed, gone, healed, back, end = 20.0, 33.9, 60.0, 62.6, 80.0
	run := &record.Run{Meta: fixtureMeta("api-server-killed"), Complete: true, EndAt: sec(end)}
	phasesOf(run, 4.2, killed, healed, 70)
	appendAt(&run.Steadies, sec(4.1), record.Steady{Phase: "before", OK: true, Took: 340 * time.Millisecond, Limit: 30 * time.Second})
	appendAt(&run.Steadies, sec(74), record.Steady{Phase: "after", OK: true, Took: 3210 * time.Millisecond, Limit: 30 * time.Second})
	fault := record.Fault{ID: "kill-api-server", Name: "kill", Target: "kube-apiserver/node-2", Node: "node-2", Component: "kube-apiserver", Phase: record.FaultInjected,
		Called: sec(killed), Effect: sec(killed + 0.0034), Proven: true, Proof: "process 41 (started at tick 7719) is gone"}
	appendAt(&run.Faults, sec(killed+0.004), fault)
	fault.Phase, fault.Called, fault.Effect, fault.Proof = record.FaultHealed, sec(healed), sec(healed+1.9), "process 97 runs and /readyz answers"
	appendAt(&run.Faults, sec(healed+1.9), fault)

	for i, n := range run.Meta.Nodes {
		process := record.ProcessState{Node: n.Name, Component: "kube-apiserver", PID: 40 + i}
		appendAt(&run.Processes, sec(0.2), process)
		if n.Name == "node-2" {
			process.PID, process.LastExit = 0, "signal: killed"
			appendAt(&run.Processes, sec(killed+0.2), process)
			process.PID, process.Restarts = 97, 1
			appendAt(&run.Processes, sec(healed+0.4), process)
		}
	}

	leaderTerms(run, end, func(at float64) (string, uint64) { return "node-1", 2 }, nil)
	for i := 0; float64(i) < end; i++ {
		at := float64(i) + 0.3
		endpoints(run, at, at >= gone && at < back, true)
		late := 2 * time.Millisecond
		if i == 21 {
			late = 38 * time.Millisecond
		}
		appendAt(&run.Harness, sec(at), record.Harness{Late: late + time.Duration(i*7919%11)*time.Millisecond/4})
	}
	endpoints(run, gone, true, false)
	endpoints(run, back, false, false)
	for at := 0.5; at < end; at += 2 {
		lease(run, at, "kube-controller-manager", "node-1", 0)
		switch {
		case at < killed:
			lease(run, at, "kube-scheduler", "node-2", 0)
		case at > killed+16.4:
			lease(run, at, "kube-scheduler", "node-3", 1)
		}
	}
	for i := 0; i < int(end*10); i++ {
		at := float64(i) / 10
		for _, entrance := range run.Meta.Entrances {
			for kind := range 4 {
				down := entrance == "node-2" && at >= killed && at < back
				if entrance == "balancer" && at >= killed && at < killed+9.1 {
					// Every third connection goes to the dead API server.
					down = kind%2 == 0 && i%3 == 0 || kind == 1 && at < killed+1
				}
				probe(run, at, entrance, kind, down)
			}
		}
	}
	for i := range 2000 {
		traffic(run, i, float64(i)/25, killed, back)
	}
	return run
}

// traffic adds the operation with a number. Those in flight to node-2 when its API server is killed
// have an unknown outcome, later ones are refused; for a while, the balancer finds the others only
// after a retry, or not at all.
func traffic(run *record.Run, i int, at, killed, back float64) {
	entrance := run.Meta.Entrances[i%4]
	op := record.Op{Client: fmt.Sprintf("%s/%d", entrance, i/4%2), Entrance: entrance, API: "kubernetes", Type: record.OpGet, Key: fmt.Sprintf("r%d", i%8+1),
		Outcome: record.OK, Call: sec(at)}
	took := 0.003 + float64(i*7919%11)/2000
	if i/4%2 == 1 {
		op.Type, took = record.OpUpdate, took+0.004
	}
	switch {
	case entrance == "node-2" && at >= killed && at < killed+0.9:
		op.Outcome, op.Error, took = record.Unknown, "EOF", 0.01
	case entrance == "node-2" && at >= killed && at < back, entrance == "balancer" && at >= killed && at < killed+9.1 && i%12 == 0:
		op.Outcome, op.Error, took = record.Refused, "dial tcp: connect: connection refused", 0.001
	case at >= killed && at < killed+9.1:
		took += 0.09 / (1 + at - killed)
	case at >= back && at < back+2:
		took += 0.02
	}
	op.Return = op.Call + sec(took)
	appendAt(&run.Ops, op.Return, op)
}

func etcdLeaderKilled() *record.Run {
	const killed, elected, end = 15.0, 16.19, 34.4
	run := &record.Run{Meta: fixtureMeta("etcd-leader-killed"), EndAt: sec(end),
		Problem: "line 8127: the line is cut short"}
	phasesOf(run, 3.8, killed, 25, end)
	run.Phases = run.Phases[:4]
	appendAt(&run.Steadies, sec(3.7), record.Steady{Phase: "before", OK: true, Took: 290 * time.Millisecond, Limit: 30 * time.Second})
	fault := record.Fault{ID: "kill-leader", Name: "kill", Target: "etcd/leader", Node: "node-1", Component: "etcd", Phase: record.FaultInjected,
		Called: sec(killed), Effect: sec(killed + 0.0021), Proven: true, Proof: "process 23 (started at tick 7702) is gone"}
	appendAt(&run.Faults, sec(killed+0.003), fault)

	leaderTerms(run, end, func(at float64) (string, uint64) {
		switch {
		case at < killed+0.9:
			return "node-1", 2
		case at < elected:
			return "", 3
		}
		return "node-3", 3
	}, func(node string, at float64) bool { return node == "node-1" && at >= killed })
	for i := 0; float64(i) < end; i++ {
		endpoints(run, float64(i)+0.3, false, true)
		appendAt(&run.Harness, sec(float64(i)+0.3), record.Harness{Late: time.Millisecond})
	}
	for at := 0.5; at < end; at += 2 {
		lease(run, at, "kube-controller-manager", "node-1", 0)
		lease(run, at, "kube-scheduler", "node-2", 0)
	}
	for i := 0; i < int(end*10); i++ {
		at := float64(i) / 10
		for _, entrance := range run.Meta.Entrances {
			for kind := range 4 {
				probe(run, at, entrance, kind, kind >= 2 && at >= killed && at < elected+0.1)
			}
		}
	}
	return run
}

func leaderTerms(run *record.Run, end float64, leader func(at float64) (string, uint64), dead func(node string, at float64) bool) {
	members := map[string]string{"": "", "node-1": "8e9e05c52164694d", "node-2": "91bc3c398fb3c146", "node-3": "fd422379fda50e48"}
	for i := 0; float64(i)/4 < end; i++ {
		at := float64(i) / 4
		for _, n := range run.Meta.Nodes {
			s := record.EtcdStatus{Node: n.Name, OK: true, Member: members[n.Name]}
			name, term := leader(at)
			s.Leader, s.Term = members[name], term
			if dead != nil && dead(n.Name, at) {
				s = record.EtcdStatus{Node: n.Name, Error: "connection refused"}
			}
			appendAt(&run.Etcd, sec(at), s)
		}
	}
}

func endpoints(run *record.Run, at float64, gone, sample bool) {
	addresses, revision := []string{"10.77.0.11", "10.77.0.12", "10.77.0.13"}, "100"
	switch {
	case gone:
		addresses, revision = []string{"10.77.0.11", "10.77.0.13"}, "900"
	case at > 60:
		revision = "2100"
	}
	for _, source := range []string{"endpoints", "endpointslice"} {
		appendAt(&run.Endpoints, sec(at), record.Endpoints{Source: source, Via: "node-1", Addresses: addresses, Revision: revision, Sample: sample})
	}
}

func lease(run *record.Run, at float64, name, node string, transitions int) {
	appendAt(&run.Leases, sec(at), record.Lease{Name: name, Via: "node-1", Holder: node + "_6b1f", HolderNode: node,
		Duration: 15, Transitions: transitions, Revision: fmt.Sprint(int(at * 100))})
}

func probe(run *record.Run, at float64, entrance string, kind int, down bool) {
	p := record.Probe{Entrance: entrance, Reused: kind%2 == 1, Kind: []record.ProbeKind{record.ProbeRead, record.ProbeWrite}[kind/2], Start: sec(at), End: sec(at + 0.004), OK: !down, Status: 200}
	if down {
		p.Status, p.Error = 0, "dial tcp: connect: connection refused"
	}
	appendAt(&run.Probes, p.End, p)
}

func fixtureBound(formula string, limit float64, inputs map[string]float64) *judge.Bound {
	b := &judge.Bound{Formula: formula, Limit: *dur(limit), Inputs: map[string]time.Duration{}}
	for symbol, s := range inputs {
		b.Inputs[symbol] = *dur(s)
	}
	return b
}

func fixtureResults() []judge.Result {
	gone := fixtureBound("T + I + M", 27, map[string]float64{"T": 15, "I": 10, "M": 2})
	election := fixtureBound("2E + M", 8, map[string]float64{"E": 3, "M": 2})
	cut := "the record is damaged or was cut short: line 8127: the line is cut short"
	return []judge.Result{
		{Requirement: "HA-EP-003", Level: "MUST", Scenario: "api-server-killed", Judge: "endpoint-removed", Verdict: judge.Pass,
			Bound: gone, Measured: "13.9s", MeasuredDuration: dur(13.9), Sentence: "address 10.77.0.12 gone after 13.9s",
			Evidence: []string{"killed at 20.003s, first state without 10.77.0.12 at 33.900s (endpointslice, revision 900)"}},
		{Requirement: "HA-EP-006", Level: "MUST", Scenario: "api-server-killed", Judge: "endpoint-back", Verdict: judge.Pass,
			Bound:    fixtureBound("I + M", 12, map[string]float64{"I": 10, "M": 2}),
			Measured: "700ms", MeasuredDuration: dur(0.7), Sentence: "address 10.77.0.12 back after 700ms, once"},
		{Requirement: "HA-CL-003", Level: "MUST", Scenario: "api-server-killed", Judge: "availability", Verdict: judge.Fail,
			Bound:    fixtureBound("H + M", 4, map[string]float64{"H": 2, "M": 2}),
			Measured: "8.9s", MeasuredDuration: dur(8.9), Sentence: "a client pinned to the load balancer saw errors for 8.9s after the API server on node-2 was killed",
			Evidence: []string{"62 failed probes on new connections through balancer, 20.1s to 29.0s", `first: dial tcp: connect: connection refused`}},
		{Requirement: "HA-LE-002", Level: "MUST", Scenario: "api-server-killed", Judge: "lease-takeover", Verdict: judge.Pass,
			Bound:    fixtureBound("L + P + M", 19, map[string]float64{"L": 15, "P": 2, "M": 2}),
			Measured: "16.5s", MeasuredDuration: dur(16.5), Sentence: "node-3 took over kube-scheduler after 16.5s"},
		{Requirement: "HA-QR-001", Level: "MUST", Scenario: "api-server-killed", Judge: "cross-read", Verdict: judge.Pass,
			Measured: "6 of 6", Sentence: "every write was seen by the next read through each other API server (6 of 6 ordered pairs)"},
		{Requirement: "HA-EP-003", Level: "MUST", Scenario: "another-killed", Judge: "endpoint-removed", Verdict: judge.Pass,
			Bound: gone, Measured: "11.2s", MeasuredDuration: dur(11.2), Sentence: "address 10.77.0.13 gone after 11.2s"},
		{Requirement: "HA-QR-005", Level: "MUST", Scenario: "etcd-leader-killed", Judge: "election", Verdict: judge.Inconclusive, Bound: election, Sentence: cut},
		{Requirement: "HA-QR-003", Level: "INFO", Scenario: "etcd-leader-killed", Judge: "stale-read", Verdict: judge.NotApplicable,
			Sentence: "the provider cannot isolate etcd's peer traffic"},
		{Requirement: "HA-INV-001", Level: "MUST", Scenario: "api-server-killed", Judge: "linearizable", Verdict: judge.Pass,
			Sentence: "the history of 2000 operations on 8 keys is linearizable"},
		{Requirement: "HA-INV-001", Level: "MUST", Scenario: "etcd-leader-killed", Judge: "linearizable", Verdict: judge.Inconclusive, Sentence: cut},
		{Requirement: "RUN/harness", Level: "INFO", Scenario: "api-server-killed", Judge: "harness", Verdict: judge.Pass,
			Measured: "38ms", MeasuredDuration: dur(0.038), Sentence: "timers of the harness fired at most 38ms late"},
	}
}

func fixtureTitles() map[string]string {
	return map[string]string{
		"HA-INV-001": "The history of reads and writes through the API servers is linearizable.",
		"HA-EP-003":  "API server killed: its address is gone.",
		"HA-EP-006":  "API server back: its address is back, once.",
		"HA-CL-003":  "API server killed: a client pinned to the load balancer sees errors for no longer than the bound.",
		"HA-LE-002":  "Active instance killed: a standby takes over.",
		"HA-QR-001":  "A write through one API server is seen by the very next read through every other one.",
		"HA-QR-005":  "etcd leader killed: writes through surviving nodes resume.",
		"HA-QR-003":  "A serializable read on the isolated member returns old data.",
	}
}
