package judge

import (
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// sick is the record of a cluster that was unhealthy before an experiment without faults.
func sick(s *story, problem string) *story {
	return s.change(func(r *record.Run) {
		r.Steadies = r.Steadies[:1]
		r.Steadies[0].V.OK, r.Steadies[0].V.Problems = false, []string{problem}
	})
}

// answering has the API server on a node answer that many probes with a status.
func answering(s *story, node string, status, n int) *story {
	for i := range n {
		at := float64(i)
		s.probe(record.Probe{Entrance: node, Kind: record.ProbeQuorumRead, Start: sec(at), End: sec(at + .1), OK: status == 200, Status: status, Error: "etcd failed"})
	}
	return s
}

// down is a component that does not run, as seen at the start and at the end.
func down(s *story, node, component string) *story {
	return s.change(func(r *record.Run) {
		var kept []record.Timed[record.ProcessState]
		for _, p := range r.Processes {
			if p.V.Node != node || p.V.Component != component {
				kept = append(kept, p)
			}
		}
		r.Processes = kept
	}).at(1).process(node, component, 0).at(59).process(node, component, 0)
}

// TestDefectsOfControlPlane: a cluster that is unhealthy from the start fails for what it answers
// itself, and not for what the harness may be unable to reach.
func TestDefectsOfControlPlane(t *testing.T) {
	rule(t, record.Check{Requirement: "HA-TOP-002", Judge: "control-plane-complete"}, []ruling{
		{name: "a scheduler never ran", want: Fail, took: "defects: 1", says: "from the start of the record to its end, kube-scheduler does not run on node-2", story: func() *story {
			return sick(down(complete(), "node-2", "kube-scheduler"), "x")
		}},
		{name: "a scheduler came up", want: Inconclusive, says: "the baseline was unhealthy: x", story: func() *story { return sick(complete(), "x") }},
		{name: "seen once", want: Inconclusive, says: "the baseline was unhealthy", story: func() *story {
			return sick(newStory().at(1).process("node-2", "kube-scheduler", 0), "x")
		}},
		{name: "its agent is silent", want: Inconclusive, says: "the baseline was unhealthy", story: func() *story {
			return sick(down(complete(), "node-2", "kube-scheduler"), "x").change(func(r *record.Run) { r.Processes[len(r.Processes)-1].V.Error = "no route" })
		}},
		{name: "it stands by", want: Inconclusive, says: "the baseline was unhealthy", story: func() *story {
			return sick(down(complete(), "node-2", "kube-scheduler"), "x").change(func(r *record.Run) { r.Processes[len(r.Processes)-1].V.Standby = true })
		}},
		{name: "an API server answers only errors", want: Fail, says: "the API server on node-3 answers every request with an error", story: func() *story {
			return sick(answering(complete(), "node-3", 500, 20), "/readyz through node-3: status 500")
		}},
		{name: "and does not answer others", want: Fail, says: "the API server on node-3", story: func() *story {
			return sick(answering(answering(complete(), "node-3", 500, 20), "node-3", 0, 20), "x")
		}},
		{name: "too few errors", want: Inconclusive, says: "the baseline was unhealthy", story: func() *story {
			return sick(answering(complete(), "node-3", 500, 9), "x")
		}},
		{name: "it answered one request", want: Inconclusive, says: "the baseline was unhealthy", story: func() *story {
			return sick(answering(answering(complete(), "node-3", 500, 20), "node-3", 200, 1), "x")
		}},
		{name: "it refuses the harness", want: Inconclusive, says: "the baseline was unhealthy", story: func() *story {
			return sick(answering(complete(), "node-3", 403, 20), "x")
		}},
		{name: "it cannot be reached, which may be a firewall's doing", want: Inconclusive, says: "the baseline was unhealthy: /readyz through node-3", story: func() *story {
			return sick(answering(complete(), "node-3", 0, 50), "/readyz through node-3: connection timed out")
		}},
		{name: "the harness starved", want: Inconclusive, says: "starved", story: func() *story {
			return sick(answering(complete(), "node-3", 500, 20), "x").change(func(r *record.Run) { r.Harness[3].V.Late = time.Second })
		}},
		{name: "an experiment with a fault, which was not reached", want: Inconclusive, says: "the baseline was unhealthy", story: func() *story {
			return sick(down(complete(), "node-2", "kube-scheduler"), "x").change(func(r *record.Run) {
				r.Meta.Checks = []record.Check{{Requirement: "HA-TOP-002", Level: "MUST", Judge: "control-plane-complete"}, {Requirement: "HA-EP-003", Level: "MUST", Judge: "endpoints-follow", Fault: "kill"}}
			})
		}},
		{name: "an experiment with a fault", want: Inconclusive, says: "the baseline was unhealthy", story: func() *story {
			return sick(down(complete(), "node-2", "kube-scheduler").fault("kill", "kill", "node-2", "kube-scheduler", 2, 58), "x")
		}},
		{name: "a record that was cut short", want: Inconclusive, says: "no end entry", story: func() *story {
			return sick(down(complete(), "node-2", "kube-scheduler"), "x").change(func(r *record.Run) { r.Complete = false })
		}},
	})
}

// statuses is a record in which every member reports every second what a function makes of it.
func statuses(change func(at float64, e *record.EtcdStatus)) *story {
	s := newStory()
	for at := range 60 {
		for _, n := range threeNodes {
			s.at(float64(at)).etcd(n, "m1", 2)
			change(float64(at), &s.run.Etcd[len(s.run.Etcd)-1].V)
		}
	}
	return s
}

func TestDefectsOfEtcd(t *testing.T) {
	rule(t, record.Check{Requirement: "HA-TOP-001", Judge: "etcd-membership"}, []ruling{
		{name: "an alarm", want: Fail, took: "defects: 3", says: "the member on node-1 reports alarm:NOSPACE", story: func() *story {
			return sick(statuses(func(_ float64, e *record.EtcdStatus) { e.Alarms = []string{"alarm:NOSPACE"} }), "x")
		}},
		{name: "an alarm that was cleared", want: Inconclusive, says: "the baseline was unhealthy: x", story: func() *story {
			return sick(statuses(func(at float64, e *record.EtcdStatus) {
				if at < 30 {
					e.Alarms = []string{"alarm:NOSPACE"}
				}
			}), "x")
		}},
		{name: "no leader", want: Fail, says: "the member on node-1 knows no leader, the member on node-2 knows no leader and the member on node-3", story: func() *story {
			return sick(statuses(func(_ float64, e *record.EtcdStatus) { e.Leader = "" }), "x")
		}},
		{name: "a leader in the end", want: Inconclusive, says: "the baseline was unhealthy", story: func() *story {
			return sick(statuses(func(at float64, e *record.EtcdStatus) {
				if at < 59 {
					e.Leader = ""
				}
			}), "x")
		}},
		{name: "two clusters", want: Fail, says: "the members belong to several clusters (c1 on node-1, c1 on node-2 and c2 on node-3)", story: func() *story {
			return sick(statuses(func(_ float64, e *record.EtcdStatus) {
				if e.Node == "node-3" {
					e.Cluster = "c2"
				}
			}), "x")
		}},
		{name: "a member does not answer, which may be its certificate", want: Inconclusive, says: "the baseline was unhealthy: etcd on node-3", story: func() *story {
			return sick(statuses(func(_ float64, e *record.EtcdStatus) {
				if e.Node == "node-3" {
					*e = record.EtcdStatus{Node: e.Node, Error: "deadline exceeded"}
				}
			}), "etcd on node-3: deadline exceeded")
		}},
		{name: "a member that never ran", want: Fail, took: "defects: 1", says: "no member runs on node-3", story: func() *story {
			return sick(down(statuses(func(_ float64, e *record.EtcdStatus) {
				if e.Node == "node-3" {
					*e = record.EtcdStatus{Node: e.Node, Error: "connection refused"}
				}
			}), "node-3", "etcd"), "x")
		}},
		{name: "all is well later", want: Inconclusive, says: "the baseline was unhealthy", story: func() *story {
			return sick(statuses(func(float64, *record.EtcdStatus) {}), "x")
		}},
		{name: "other judges conclude nothing", want: Inconclusive, says: "the baseline was unhealthy", story: func() *story {
			return sick(statuses(func(_ float64, e *record.EtcdStatus) { e.Leader = "" }), "x").change(func(r *record.Run) {
				r.Meta.Checks = []record.Check{{Requirement: "HA-TOP-001", Level: "MUST", Judge: "cross-read"}}
			})
		}},
	})
}
