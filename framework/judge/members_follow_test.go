package judge

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// lists records that a member said which members vote.
func (s *story) lists(t float64, node string, members ...string) *story {
	s.at(t)
	return add(s, &s.run.Etcd, record.EtcdStatus{Node: node, OK: true, Cluster: "c1", Member: "m" + node[len(node)-1:], Leader: "m1", Members: members})
}

// steps records that a change of a node took these steps, one second each.
func (s *story) steps(node string, from float64, names ...string) *story {
	for i, name := range names {
		t := from + float64(i)
		s.at(t + 1)
		add(s, &s.run.Steps, record.Step{Node: node, Name: name, Began: sec(t), Done: sec(t + 1)})
	}
	return s
}

var (
	joining = []string{record.StepLearner, record.StepStart, record.StepPromote, record.StepReady, record.StepBalance}
	losing  = []string{record.StepUnbalance, record.StepRemove, record.StepDiscard} // without power
	leaving = []string{record.StepUnbalance, record.StepStop, record.StepLeader, record.StepRemove, record.StepDiscard}
)

// joinedAndLeft has node-4 join at 10 s, and node-1 leave at 20 s.
func joinedAndLeft() *story {
	s := newStory().lists(5, "node-1", "m1", "m2", "m3").lists(5, "node-2", "m1", "m2", "m3")
	s.steps("node-4", 10, joining...).changed("four", record.NodeAdded, "node-4", "10.77.0.14", 10, 15)
	s.lists(15.1, "node-2", "m1", "m2", "m3", "m4").lists(15.2, "node-4", "m4", "m1", "m2", "m3")
	s.steps("node-1", 20, leaving...).changed("one", record.NodeRemoved, "node-1", "10.77.0.11", 20, 25)
	return s.lists(25.1, "node-2", "m2", "m3", "m4").lists(25.2, "node-4", "m2", "m3", "m4").at(30)
}

// replacedByName has node-1 join again after it left in joinedAndLeft, with a member m9, and node-4
// leave; that node then has the member that the last lists lack.
func replacedByName(gone string) *story {
	s := joinedAndLeft()
	s.steps("node-1", 30, joining...).changed("again", record.NodeAdded, "node-1", "10.77.0.11", 30, 35)
	s.lists(35.1, "node-2", "m2", "m3", "m4", "m9")
	add(s, &s.run.Etcd, record.EtcdStatus{Node: "node-1", OK: true, Cluster: "c1", Member: "m9", Leader: "m2", Members: []string{"m2", "m3", "m4", "m9"}})
	s.steps("node-1", 40, leaving...).changed("twice", record.NodeRemoved, "node-1", "10.77.0.11", 40, 45)
	left := slices.DeleteFunc([]string{"m2", "m3", "m4", "m9"}, func(m string) bool { return m == gone })
	return s.lists(45.1, "node-2", left...).at(50)
}

// sight is something seen at a time.
type sight interface{ put(*story) }

// backendAt is a balancer's report of a backend.
type backendAt struct {
	t    float64
	name string
	up   bool
}

func (b backendAt) put(s *story) { s.at(b.t).backend(b.name, b.up, b.t) }

// viewAt is a balancer's report of a backend, and when the balancer was queried for it.
type viewAt struct {
	asked float64
	backendAt
}

func (v viewAt) put(s *story) {
	v.backendAt.put(s)
	s.run.Backends[len(s.run.Backends)-1].V.Asked = sec(v.asked)
}

// listAt is a member's list of the members that vote.
type listAt struct {
	t       float64
	node    string
	members []string
}

func (l listAt) put(s *story) { s.lists(l.t, l.node, l.members...) }

func TestMembersFollow(t *testing.T) {
	// with changes the list that was made at a time.
	with := func(at float64, change func(*record.EtcdStatus)) func() *story {
		return func() *story {
			return joinedAndLeft().change(func(r *record.Run) {
				for i := range r.Etcd {
					if r.Etcd[i].At == sec(at) {
						change(&r.Etcd[i].V)
					}
				}
			})
		}
	}
	undone := func(after ...string) func() *story {
		return func() *story {
			s := newStory().lists(5, "node-2", "m1", "m2", "m3").at(15)
			add(s, &s.run.Nodes, record.NodeChange{Name: "cut", Phase: record.NodeUndone, Called: sec(10), Error: "interrupted"})
			return s.lists(15.1, "node-2", after...).at(20)
		}
	}
	// seen adds what a balancer reported and what members listed while the nodes changed.
	seen := func(all ...sight) func() *story {
		return func() *story {
			s := joinedAndLeft()
			for _, one := range all {
				one.put(s)
			}
			backendAt{15.3, "node-4", true}.put(s)
			slices.SortStableFunc(s.run.Backends, func(a, b record.Timed[record.Backend]) int { return cmp.Compare(a.At, b.At) })
			slices.SortStableFunc(s.run.Etcd, func(a, b record.Timed[record.EtcdStatus]) int { return cmp.Compare(a.At, b.At) })
			return s.at(30)
		}
	}
	// lost removes a node that the balancer found down when it had lost its power.
	lost := func(after viewAt) func() *story {
		return func() *story {
			s := newStory().lists(5, "node-1", "m1", "m2", "m3").lists(5, "node-2", "m1", "m2", "m3")
			viewAt{2.9, backendAt{3, "node-2", true}}.put(s)
			viewAt{11.4, backendAt{11.5, "node-2", false}}.put(s)
			s.steps("node-2", 12, losing...).changed("two", record.NodeLost, "node-2", "10.77.0.12", 10, 11)
			s.run.Nodes[0].At = sec(15)
			s.lists(15.1, "node-1", "m1", "m3")
			after.put(s)
			return s.at(20)
		}
	}
	rule(t, record.Check{Requirement: "HA-MB-003", Judge: "members-follow"}, []ruling{
		{name: "one joins, one leaves", want: Pass, took: "2 changes", says: "steps came in the required order", story: joinedAndLeft},
		{name: "the member stays", want: Fail, says: "0 of 4 members have left", story: func() *story {
			s := joinedAndLeft()
			s.run.Etcd = s.run.Etcd[:len(s.run.Etcd)-2]
			return s.lists(25.1, "node-2", "m1", "m2", "m3", "m4").at(30)
		}},
		{name: "one member lists it still", want: Fail, says: "others m1, m2, m3 and m4", story: with(25.2, func(s *record.EtcdStatus) { s.Members = []string{"m1", "m2", "m3", "m4"} })},
		{name: "another member joined", want: Fail, says: "the member that joined is m4, but the node's member is m9", story: with(15.2, func(s *record.EtcdStatus) { s.Member = "m9" })},
		{name: "the new member never answered", want: Inconclusive, says: "the etcd member on node-4 did not answer after the addition of node-4", story: func() *story {
			return joinedAndLeft().change(func(r *record.Run) {
				r.Etcd = slices.DeleteFunc(r.Etcd, func(e record.Timed[record.EtcdStatus]) bool { return e.V.Node == "node-4" })
			})
		}},
		{name: "another member left", want: Fail, says: "the member that left is m2, but the node's member was m1", story: func() *story {
			s := joinedAndLeft()
			s.run.Etcd = s.run.Etcd[:len(s.run.Etcd)-2]
			return s.lists(25.1, "node-2", "m1", "m3", "m4").at(30)
		}},
		{name: "a member too many", want: Fail, says: "1 of 4 members have left and 1 have joined", story: func() *story {
			s := joinedAndLeft()
			s.run.Etcd = s.run.Etcd[:len(s.run.Etcd)-2]
			return s.lists(25.1, "node-2", "m2", "m3", "m4", "m9").at(30)
		}},
		{name: "a cluster of its own", want: Fail, says: "the cluster ID is c2, and was c1 before", story: with(15.2, func(s *record.EtcdStatus) { s.Cluster = "c2" })},
		{name: "no vote", want: Fail, says: "etcd has a member that does not vote (m9)", story: with(15.2, func(s *record.EtcdStatus) { s.Learners = []string{"m9"} })},
		{name: "clients before it is ready", want: Fail, says: `"await API server" began`, story: func() *story {
			return joinedAndLeft().change(func(r *record.Run) {
				r.Steps[3].V.Name, r.Steps[4].V.Name = record.StepBalance, record.StepReady
			})
		}},
		{name: "the member goes before the balancer", want: Fail, says: `"remove from the load balancer" began`, story: func() *story {
			return joinedAndLeft().change(func(r *record.Run) {
				r.Steps[5].V.Name, r.Steps[6].V.Name = record.StepStop, record.StepUnbalance
			})
		}},
		{name: "never taken from the balancer", want: Fail, says: `removal of node-1 must include the step "remove from the load balancer"`, story: func() *story {
			return joinedAndLeft().change(func(r *record.Run) { r.Steps = slices.Delete(r.Steps, 5, 6) })
		}},
		{name: "never given to the balancer", want: Fail, says: `addition of node-4 must include the step "add to the load balancer"`, story: func() *story {
			return joinedAndLeft().change(func(r *record.Run) { r.Steps = slices.Delete(r.Steps, 4, 5) })
		}},
		{name: "there is no balancer", want: Pass, story: func() *story {
			return joinedAndLeft().change(func(r *record.Run) {
				r.Meta.Entrances = r.Meta.Entrances[1:]
				r.Steps = slices.DeleteFunc(r.Steps, func(s record.Timed[record.Step]) bool {
					return s.V.Name == record.StepBalance || s.V.Name == record.StepUnbalance
				})
			})
		}},
		{name: "the machine goes before the leader is moved", want: Fail, says: `"move etcd leadership" began`, story: func() *story {
			return joinedAndLeft().change(func(r *record.Run) {
				r.Steps[7].V.Name, r.Steps[8].V.Name = record.StepRemove, record.StepLeader
			})
		}},
		{name: "the balancer reports the order", want: Pass, took: "2 changes", story: seen(
			backendAt{3, "node-1", true}, backendAt{14.5, "node-4", true}, listAt{14.4, "node-1", []string{"m1", "m2", "m3", "m4"}},
			backendAt{19, "node-1", false}, listAt{23.5, "node-2", []string{"m2", "m3", "m4"}}, backendAt{24, "node-2", false})},
		{name: "the balancer loses the node after its member is gone", want: Fail, says: "node-2 did not list that member at 21.000s any more, and the load balancer still reported the backend at 23.500s",
			story: seen(listAt{21, "node-2", []string{"m2", "m3", "m4"}}, backendAt{23.5, "node-1", false})},
		{name: "the balancer never loses the node", want: Fail, says: "node-2 did not list that member at 25.100s any more, and the load balancer still reported the backend at 25.400s",
			story: seen(viewAt{2.9, backendAt{3, "node-1", true}}, viewAt{23.9, backendAt{24, "node-1", false}}, viewAt{25.3, backendAt{25.4, "node-1", false}}, viewAt{25.3, backendAt{25.4, "node-2", true}})},
		{name: "the balancer has the other nodes after the change", want: Pass, took: "2 changes",
			story: seen(viewAt{2.9, backendAt{3, "node-1", true}}, viewAt{25.3, backendAt{25.4, "node-2", true}}, viewAt{25.3, backendAt{25.4, "node-4", true}})},
		{name: "the balancer reports the node again after a silence", want: Fail, says: "must remove the node from the load balancer before its etcd member is removed",
			story: seen(backendAt{28, "node-1", true})},
		{name: "the balancer was queried before the member was gone, and answered late", want: Pass, took: "2 changes",
			story: seen(listAt{24.9, "node-2", []string{"m2", "m3", "m4"}}, viewAt{24.8, backendAt{26.7, "node-1", false}})},
		{name: "the balancer was queried just after the member was gone", want: Fail, says: "still reported the backend at 21.200s",
			story: seen(listAt{21, "node-2", []string{"m2", "m3", "m4"}}, viewAt{21.1, backendAt{21.2, "node-1", true}})},
		{name: "the balancer reports late", want: Pass, took: "2 changes", story: seen(listAt{21, "node-2", []string{"m2", "m3", "m4"}}, backendAt{22.9, "node-1", false})},
		{name: "the balancer fails once the member is gone", want: Pass, took: "2 changes", story: func() *story {
			s := seen(listAt{21, "node-2", []string{"m2", "m3", "m4"}})()
			return silence(s.at(23.5)).at(30)
		}},
		{name: "the balancer has the node before its member votes", want: Fail, says: "etcd's leader on node-1 did not list that member among those that vote at 12.600s",
			story: seen(backendAt{10.2, "node-4", false}, listAt{12.6, "node-1", []string{"m1", "m2", "m3"}})},
		{name: "a member that lags behind the leader", want: Pass, took: "2 changes",
			story: seen(backendAt{10.2, "node-4", false}, listAt{12.6, "node-2", []string{"m1", "m2", "m3"}})},
		{name: "a list from just after the balancer's report", want: Pass, took: "2 changes",
			story: seen(backendAt{12.5, "node-4", false}, listAt{14.4, "node-1", []string{"m1", "m2", "m3"}})},
		{name: "the balancer has the node again under its name", want: Pass, took: "4 changes", story: func() *story {
			return replacedByName("m9").change(func(r *record.Run) {
				for _, b := range []backendAt{{15.3, "node-4", true}, {34.5, "node-1", true}} {
					r.Backends = append(r.Backends, record.Timed[record.Backend]{At: sec(b.t), V: record.Backend{Name: b.name, Up: b.up, Asked: sec(b.t - 0.1)}})
				}
			})
		}},
		{name: "the balancer keeps a node without power", want: Fail, says: "loss of node-2 must remove the node from the load balancer before its etcd member is removed", story: lost(viewAt{15.3, backendAt{15.4, "node-2", false}})},
		{name: "the balancer finds a node without power down, and loses it", want: Pass, took: "1 change", story: lost(viewAt{15.3, backendAt{15.4, "node-1", true}})},
		{name: "no step", want: Inconclusive, says: "no step", story: func() *story { return joinedAndLeft().change(func(r *record.Run) { r.Steps = nil }) }},
		{name: "no list of members", want: Inconclusive, says: "no etcd member listed", story: func() *story { return joinedAndLeft().change(func(r *record.Run) { r.Etcd = r.Etcd[:4] }) }},
		{name: "no change", want: Inconclusive, says: "no change of nodes", story: func() *story { return newStory() }},
		{name: "interrupted and undone", want: Pass, story: undone("m1", "m2", "m3")},
		{name: "interrupted and left", want: Fail, says: "1 have joined", story: undone("m1", "m2", "m3", "m4")},
		{name: "replaced under its name, and removed again", want: Pass, took: "4 changes", story: func() *story { return replacedByName("m9") }},
		{name: "the first member under its name is removed again", want: Fail, says: "0 of 4 members have left", story: func() *story { return replacedByName("m1") }},
		{name: "two lost at once", want: Pass, took: "2 changes", story: func() *story {
			s := newStory().lists(5, "node-1", "m1", "m2", "m3", "m4", "m5").lists(5, "node-2", "m1", "m2", "m3", "m4", "m5").lists(5, "node-3", "m1", "m2", "m3", "m4", "m5")
			s.steps("node-2", 12, losing...).changed("two", record.NodeLost, "node-2", "10.77.0.12", 10, 11).at(15)
			s.run.Nodes[0].At = sec(15)
			s.lists(15.1, "node-1", "m1", "m3", "m4", "m5")
			s.steps("node-3", 15.2, losing...).changed("two", record.NodeLost, "node-3", "10.77.0.13", 10.1, 11)
			s.run.Nodes[1].At = sec(18.3)
			return s.lists(18.4, "node-1", "m1", "m4", "m5").at(20)
		}},
	})
	rule(t, record.Check{Requirement: "HA-MB-004", Judge: "members-follow", Params: map[string]string{"changes": "one", "leader": "true"}}, []ruling{
		{name: "the leader leaves", want: Pass, took: "1 change", story: joinedAndLeft},
		{name: "the leader leaves without handing over", want: Fail, says: `removal of node-1 must include the step "move etcd leadership"`, story: func() *story {
			return joinedAndLeft().change(func(r *record.Run) { r.Steps = slices.Delete(r.Steps, 7, 8) })
		}},
		{name: "another one leads", want: Inconclusive, says: "was not seen to lead", story: func() *story {
			return joinedAndLeft().change(func(r *record.Run) {
				for i := range r.Etcd {
					r.Etcd[i].V.Leader = "m2"
				}
			})
		}},
	})
}

// TestMembersFollowUnderLoad: what members list may be older than the change before it unless the
// list is linearizable, and a loaded machine delays what they learn. It does not change the order of
// a change's steps.
func TestMembersFollowUnderLoad(t *testing.T) {
	loaded := func(s *story, current bool) *story {
		for i := range s.run.Etcd {
			if e := &s.run.Etcd[i]; current {
				e.V.Listed = e.At - 1000
			}
		}
		return s.loaded()
	}
	stays := func(current bool) func() *story {
		return func() *story {
			s := joinedAndLeft()
			s.run.Etcd = s.run.Etcd[:len(s.run.Etcd)-2]
			return loaded(s.lists(25.1, "node-2", "m1", "m2", "m3", "m4").at(30), current)
		}
	}
	rule(t, record.Check{Requirement: "HA-MB-003", Judge: "members-follow"}, []ruling{
		{name: "the member stays, in linearizable lists", want: Fail, says: "0 of 4 members have left", story: stays(true)},
		{name: "the member stays, in its own lists", want: Inconclusive, says: "the machine was overloaded: 7.0 tasks", story: stays(false)},
		{name: "a linearizable list from before the change ended", want: Inconclusive, says: "the machine was overloaded", story: func() *story {
			return stays(true)().change(func(r *record.Run) { r.Etcd[len(r.Etcd)-1].V.Listed = sec(24.9) })
		}},
		{name: "the order of the steps", want: Fail, says: `"remove from the load balancer" began`, story: func() *story {
			return loaded(joinedAndLeft(), false).change(func(r *record.Run) {
				r.Steps[5].V.Name, r.Steps[6].V.Name = record.StepStop, record.StepUnbalance
			})
		}},
		{name: "a step that is left out", want: Fail, says: `must include the step "remove from the load balancer"`, story: func() *story {
			return loaded(joinedAndLeft(), false).change(func(r *record.Run) { r.Steps = slices.Delete(r.Steps, 5, 6) })
		}},
		{name: "nothing is wrong", want: Pass, story: func() *story { return loaded(joinedAndLeft(), true) }},
	})
}

// TestMembersFollowBackend checks that the load balancer uses a node that was added.
func TestMembersFollowBackend(t *testing.T) {
	joined := func(end float64, views ...viewAt) func() *story {
		return func() *story {
			s := newStory().lists(5, "node-1", "m1", "m2", "m3").lists(5, "node-2", "m1", "m2", "m3")
			s.steps("node-4", 10, joining...).changed("four", record.NodeAdded, "node-4", "10.77.0.14", 10, 15)
			s.lists(15.1, "node-2", "m1", "m2", "m3", "m4").lists(15.2, "node-4", "m4", "m1", "m2", "m3")
			for _, v := range views {
				v.put(s)
			}
			s.run.EndAt = sec(end)
			return s
		}
	}
	others := viewAt{15.3, backendAt{15.4, "node-1", true}}
	own := viewAt{15.3, backendAt{15.4, "node-4", true}}
	rule(t, record.Check{Requirement: "HA-MB-001", Judge: "members-follow"}, []ruling{
		{name: "it reports the node", want: Pass, story: joined(30, others, own)},
		{name: "it reports the node soon afterwards", want: Pass, story: joined(30, others, viewAt{17.3, backendAt{17.4, "node-4", true}})},
		{name: "it reports only the others", want: Fail, took: "15s", says: "must use a node within 4s (H + M) of the addition of node-4: it reported its backends, and did not use this one for 15s", story: joined(30, others)},
		{name: "it reports the node as down", want: Fail, took: "15s", says: "did not use this one for 15s", story: joined(30, others, viewAt{15.3, backendAt{15.4, "node-4", false}})},
		{name: "it uses the node late", want: Fail, took: "6.5s", says: "did not use this one for 6.5s", story: joined(30, others, viewAt{21.5, backendAt{21.6, "node-4", true}})},
		{name: "the next node is added soon afterwards", want: Fail, took: "15s", says: "did not use this one for 15s", story: func() *story {
			s := joined(30, others, viewAt{17.9, backendAt{18, "node-5", true}})()
			return s.steps("node-5", 15.5, joining...).changed("five", record.NodeAdded, "node-5", "10.77.0.15", 15.5, 17).lists(17.2, "node-2", "m1", "m2", "m3", "m4", "m5").lists(17.3, "node-5", "m5", "m1", "m2", "m3", "m4")
		}},
		{name: "for less than the limit", want: Inconclusive, says: "observed for 4s after the addition of node-4, which is less than 4s (H + M)", story: joined(19, others)},
		{name: "it was silent until it uses the node", want: Pass, story: func() *story {
			s := silence(joined(30, viewAt{14.3, backendAt{14.4, "node-1", true}})().at(15.5))
			for _, v := range []viewAt{{22.9, backendAt{23, "node-1", true}}, {22.9, backendAt{23, "node-4", true}}} {
				v.put(s)
			}
			return s
		}},
		{name: "it was silent from before the addition on", want: Pass, story: func() *story {
			s := silence(joined(30)().at(14))
			for _, v := range []viewAt{{22.9, backendAt{23, "node-1", true}}, {22.9, backendAt{23, "node-4", true}}} {
				v.put(s)
			}
			return s
		}},
		{name: "it was silent, and does not use the node afterwards", want: Fail, took: "7.1s", says: "did not use this one for 7.1s", story: func() *story {
			s := silence(joined(30)().at(15.5))
			viewAt{22.9, backendAt{23, "node-1", true}}.put(s)
			return s
		}},
		{name: "while a fault is active", want: Inconclusive, says: "a fault was active", story: func() *story { return joined(30, others)().fault("kill", "kill", "node-1", "kube-apiserver", 16, 20) }},
		{name: "it had reported before the addition only", want: Pass, story: joined(30, viewAt{14.3, backendAt{14.4, "node-1", true}})},
		{name: "it does not report", want: Pass, story: func() *story { return silence(joined(30)().at(16)) }},
	})
}

// TestMembersFollowListed: that a dead node was found in the list of members takes a list from
// after its death.
func TestMembersFollowListed(t *testing.T) {
	died := func(at float64, members ...string) func() *story {
		return func() *story {
			s := newStory().lists(5, "node-1", "m1", "m2", "m3").lists(5, "node-2", "m1", "m2", "m3")
			s.lists(at, "node-1", members...)
			s.steps("node-2", 12, losing...).changed("two", record.NodeLost, "node-2", "10.77.0.12", 10, 11).at(15)
			s.run.Nodes[0].At = sec(15)
			return s.lists(15.1, "node-1", "m1", "m3").at(20)
		}
	}
	rule(t, record.Check{Requirement: "HA-MB-011", Judge: "members-follow", Params: map[string]string{"listed": "true"}}, []ruling{
		{name: "still listed", want: Pass, story: died(11.5, "m1", "m2", "m3")},
		{name: "listed before its death alone", want: Inconclusive, says: "no etcd member was seen to list that of node-2 once the node had lost its power", story: died(9, "m1", "m2", "m3")},
		{name: "not listed any more", want: Inconclusive, says: "no etcd member was seen", story: died(11.5, "m1", "m3")},
		{name: "no node died", want: Inconclusive, says: "no node has died", story: joinedAndLeft},
	})
}

// What the changes led through, and where additions were interrupted, is part of some
// guarantees.
func TestMembersFollowSizesAndCuts(t *testing.T) {
	rule(t, record.Check{Requirement: "HA-MB-001", Judge: "members-follow", Params: map[string]string{"sizes": "3, 4, 3"}}, []ruling{
		{name: "three, four, three", want: Pass, story: joinedAndLeft},
	})
	rule(t, record.Check{Requirement: "HA-MB-001", Judge: "members-follow", Params: map[string]string{"sizes": "1, 2, 1"}}, []ruling{
		{name: "another cluster", want: Inconclusive, says: "led through 3, 4, 3 voting members", story: joinedAndLeft},
	})
	// A whole addition, and ones that were interrupted after these of its steps.
	cut := func(after ...int) func() *story {
		return func() *story {
			s := joinedAndLeft()
			for i := range s.run.Steps[:len(joining)] {
				s.run.Steps[i].V.Change = "four"
			}
			for i, steps := range after {
				name, from := fmt.Sprintf("cut-%d", i+1), float64(30+6*i)
				for _, step := range joining[:steps] {
					s.at(from + 1)
					add(s, &s.run.Steps, record.Step{Change: name, Node: "node-9", Name: step, Began: sec(from), Done: sec(from + 1)})
				}
				s.at(from + 5)
				add(s, &s.run.Nodes, record.NodeChange{Name: name, Phase: record.NodeUndone, Called: sec(from), Error: "interrupted"})
				s.lists(from+5.5, "node-2", "m2", "m3", "m4")
			}
			return s.at(60)
		}
	}
	view := func(asked float64, name string) func() *story {
		return func() *story {
			s := cut(1, 2, 3, 4, 5)()
			viewAt{asked, backendAt{59.6, name, false}}.put(s)
			return s.at(60)
		}
	}
	rule(t, record.Check{Requirement: "HA-MB-008", Judge: "members-follow", Params: map[string]string{"changes": "cut-1, cut-2, cut-3, cut-4, cut-5", "cut": "true"}}, []ruling{
		{name: "after each step", want: Pass, took: "5 changes", story: cut(1, 2, 3, 4, 5)},
		{name: "not after the promotion", want: Inconclusive, says: `no addition was interrupted after "promote etcd member"`, story: cut(1, 2, 2, 4, 5)},
		{name: "one left a backend", want: Fail, says: "must leave nothing behind: the load balancer still reported a backend of node-9 at 59.600s", story: view(59.4, "node-9")},
		{name: "the balancer was queried before one was undone", want: Pass, story: view(58.9, "node-9")},
		{name: "the balancer has the nodes", want: Pass, story: view(59.4, "node-2")},
		{name: "one left a member", want: Fail, says: "1 have joined", story: func() *story {
			s := cut(1, 2, 3, 4, 5)()
			return s.change(func(r *record.Run) { r.Etcd[len(r.Etcd)-1].V.Members = []string{"m2", "m3", "m4", "m9"} })
		}},
	})
}

func TestUnsafeMemberRefused(t *testing.T) {
	asked := func(outcome record.Outcome, at float64) func() *story {
		return func() *story {
			s := newStory().fault("down", "kill", "node-2", "etcd", 10, 20)
			o := during(at, at+0.1)
			o.API, o.Type, o.Entrance, o.Key, o.Purpose, o.Outcome, o.Error = "etcd", record.OpCreate, "node-1", "https://10.77.0.11:2399", "add-member", outcome, "unhealthy cluster"
			return s.op(o)
		}
	}
	rule(t, record.Check{Requirement: "HA-MB-007", Judge: "unsafe-member-refused", Fault: "down"}, []ruling{
		{name: "refused", want: Pass, took: "1 refusal", story: asked(record.Refused, 12)},
		{name: "taken", want: Fail, says: "must refuse another voting member", story: asked(record.OK, 12)},
		{name: "taken by one of three", want: Fail, story: func() *story { return leaders(asked(record.OK, 12)()) }},
		{name: "taken, and one more is a quorum still", want: NotApplicable, says: "4 of 5 members are left, a quorum even with one more", story: func() *story {
			return leaders(asked(record.OK, 12)()).change(eachEtcd(func(_ record.Nanos, e *record.EtcdStatus) { e.Members = []string{"m1", "m2", "m3", "m4", "m5"} }))
		}},
		{name: "taken while two of five are down", want: Fail, story: func() *story {
			return leaders(asked(record.OK, 12)()).fault("other", "kill", "node-3", "etcd", 11, 20).
				change(eachEtcd(func(_ record.Nanos, e *record.EtcdStatus) { e.Members = []string{"m1", "m2", "m3", "m4", "m5"} }))
		}},
		{name: "no answer", want: Inconclusive, says: "unhealthy cluster", story: asked(record.Unknown, 12)},
		{name: "refused before", want: Inconclusive, says: "no etcd member was seen", story: asked(record.Refused, 5)},
		{name: "taken afterwards", want: Inconclusive, says: "no etcd member was seen", story: asked(record.OK, 25)},
	})
}

// TestAvailableThroughScaling checks clients while nodes come and go.
func TestAvailableThroughScaling(t *testing.T) {
	through := func(from, to float64) func() *story {
		return func() *story {
			s := joinedAndLeft().probes("balancer", true, 5, from).probes("balancer", false, from, to).probes("balancer", true, to, 40)
			return s.at(45)
		}
	}
	// together has quorum reads wait from 21 s on until they fail at 21.25 s, and one that is made
	// after that fail too.
	together := func(n int, again bool) func() *story {
		return func() *story {
			s := joinedAndLeft().probes("balancer", true, 5, 21)
			for i := range n {
				s.probe(record.Probe{Entrance: "balancer", Kind: record.ProbeQuorumRead, Start: sec(21 + float64(i)/100), End: sec(21.25)})
			}
			if again {
				s.probe(record.Probe{Entrance: "balancer", Kind: record.ProbeQuorumRead, Start: sec(21.3), End: sec(21.35)})
			}
			return s.probes("balancer", true, 21.4, 40).at(45)
		}
	}
	rule(t, record.Check{Requirement: "HA-MB-002", Judge: "available-through-changes", Bound: "H + M", Params: map[string]string{"inARow": "1"}}, []ruling{
		{name: "always", want: Pass, took: "0s", story: through(5, 5)},
		{name: "one retry", want: Pass, took: "50ms", story: through(21, 21.1)},
		{name: "more than one", want: Fail, says: "4 times in a row", story: through(21, 21.4)},
		{name: "two at the same time", want: Pass, story: together(2, false)},
		{name: "ten at the same time, and one after that", want: Fail, says: "2 times in a row", story: together(10, true)},
		{name: "long", want: Fail, says: "must not go without a successful request", story: through(21, 28)},
	})
	// lost has a node lose its power at 10 s, and its member removed by 20 s.
	lost := func(from, to float64) func() *story {
		return func() *story {
			s := newStory().changed("lost", record.NodeLost, "node-2", "10.77.0.12", 9, 10)
			s.run.Nodes[0].At = sec(20)
			return s.probes("balancer", true, 5, from).probes("balancer", false, from, to).probes("balancer", true, to, 40).at(45)
		}
	}
	rule(t, record.Check{Requirement: "HA-MB-005", Judge: "available-through-changes", Bound: "H + M"}, []ruling{
		{name: "just after the loss of power", want: Fail, took: "5.95s", story: lost(11, 17)},
		{name: "while the member is removed", want: Fail, took: "5.95s", story: lost(18, 24)},
		{name: "just after the removal", want: Fail, took: "5.9s", story: lost(23, 29)},
		{name: "short, while the member is removed", want: Pass, took: "2.95s", story: lost(18, 21)},
		{name: "long after the removal", want: Pass, took: "0s", story: lost(24.5, 31)},
	})
}
