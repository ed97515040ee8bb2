package judge

import (
	"fmt"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
)

const (
	release35 = "v1.35.8"
	release36 = "v1.36.3"
	release37 = "v1.37.1"
	etcd36    = "v3.6.16"
	etcd37    = "v3.7.3"
)

// fleetOf is a record of three nodes of a version, whose components can say it.
func fleetOf(version string) *story {
	s := newStory()
	s.run.Meta.Versions = map[string]map[string]string{}
	for _, n := range []string{"node-1", "node-2", "node-3"} {
		s.run.Meta.Versions[n] = map[string]string{"etcd": "v3.6.16", "kube-apiserver": version, "kube-controller-manager": version, "kube-scheduler": version}
	}
	return s
}

// says records the version that a component of a node reports.
func (s *story) says(node, component, version string, t float64) *story {
	o := during(t, t+0.01)
	o.Type, o.Entrance, o.Key, o.Value, o.Found, o.Purpose = record.OpGet, node, component, version, true, "version"
	return s.op(o)
}

// members records the versions that etcd members report, from the first node on.
func (s *story) members(t float64, versions ...string) *story {
	s.at(t)
	for i, v := range versions {
		add(s, &s.run.Etcd, record.EtcdStatus{Node: fmt.Sprintf("node-%d", i+1), OK: true, Version: v})
	}
	return s
}

// inPlace is a change of a node that stays, with its components restarted in order.
func (s *story) inPlace(name, action, node, from, to string, called, effect float64, components ...string) *story {
	s.at(effect)
	step := (effect - called) / float64(len(components))
	for i, c := range components {
		add(s, &s.run.Steps, record.Step{Change: name, Node: node, Name: "restart " + c, Component: c, Version: to,
			Began: sec(called + float64(i)*step), Done: sec(called + float64(i+1)*step)})
	}
	return add(s, &s.run.Changes, record.NodeChange{Name: name, Phase: record.NodeChanged, Action: action, From: from, To: to, Called: sec(called), Effect: sec(effect),
		Node: record.Node{Name: node, Components: []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}}})
}

var inOrder = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"}

// upgraded upgrades a node, and its components report that.
func (s *story) upgraded(name, node, from, to string, called float64) *story {
	s.inPlace(name, "upgrade", node, from, to, called, called+6, inOrder...)
	for _, c := range inOrder {
		s.says(node, c, to, called+6.5)
	}
	return s
}

// asked has the API servers of the nodes answer which version they are of.
func asked(s *story, t float64, versions ...string) *story {
	for i, v := range versions {
		s.says(fmt.Sprintf("node-%d", i+1), "kube-apiserver", v, t)
	}
	return s
}

func upgradedAll() *story {
	return fleetOf(release36).upgraded("one", "node-1", release36, release37, 10).upgraded("two", "node-2", release36, release37, 20).upgraded("three", "node-3", release36, release37, 30)
}

func TestChangedOneByOne(t *testing.T) {
	failed := func(missing string) func() *story {
		return func() *story {
			return newStory().change(func(r *record.Run) {
				r.Changes = []record.Timed[record.NodeChange]{{V: record.NodeChange{Name: "one", Action: "upgrade", Phase: record.NodeFailed, Error: "no such version", Missing: missing}}}
			})
		}
	}
	twoAtOnce := func() *story {
		return fleetOf(release36).upgraded("one", "node-1", release36, release37, 10).upgraded("two", "node-2", release36, release37, 14).upgraded("three", "node-3", release36, release37, 30)
	}
	schedulerFirst := func() *story {
		return fleetOf(release36).inPlace("one", "upgrade", "node-1", release36, release37, 10, 16, "kube-scheduler", "kube-apiserver", "kube-controller-manager")
	}
	rule(t, record.Check{Requirement: "HA-UP-001", Judge: "changed-one-by-one", Params: map[string]string{"complete": "true"}}, []ruling{
		{name: "one after the other", want: Pass, took: "3 changes", says: "after each of 9 steps", story: upgradedAll},
		{name: "two at once", want: Fail, says: "must be changed one after the other: upgrade of node-2", story: twoAtOnce},
		{name: "two at once, on a loaded machine", want: Fail, says: "must be changed one after the other", story: func() *story { return twoAtOnce().loaded() }},
		{name: "the scheduler before the API server", want: Fail, says: "kube-scheduler v1.37.1 on node-1 runs beside kube-apiserver v1.36.3", story: schedulerFirst},
		{name: "the scheduler before the API server, on a loaded machine", want: Fail, says: "runs beside kube-apiserver v1.36.3", story: func() *story { return schedulerFirst().loaded() }},
		{name: "two minor versions", want: Fail, says: "kube-controller-manager v1.35.8 on node-1 runs beside kube-apiserver v1.37.1", story: func() *story {
			return fleetOf("v1.35.8").upgraded("one", "node-1", "v1.35.8", release37, 10)
		}},
		{name: "a component that stays behind", want: Fail, says: "kube-scheduler reported v1.36.3", story: func() *story {
			return upgradedAll().says("node-3", "kube-scheduler", release36, 40)
		}},
		{name: "a component that says nothing", want: Inconclusive, says: "kube-scheduler on node-3 did not report its version", story: func() *story {
			s := fleetOf(release36).upgraded("one", "node-1", release36, release37, 10).upgraded("two", "node-2", release36, release37, 20)
			return s.inPlace("three", "upgrade", "node-3", release36, release37, 30, 36, inOrder...).says("node-3", "kube-apiserver", release37, 37).says("node-3", "kube-controller-manager", release37, 37)
		}},
		{name: "one node is left", want: Fail, says: "node-3 runs v1.36.3", story: func() *story {
			return fleetOf(release36).upgraded("one", "node-1", release36, release37, 10).upgraded("two", "node-2", release36, release37, 20)
		}},
		{name: "a host with etcd alone", want: Pass, took: "3 changes", story: func() *story {
			return upgradedAll().change(func(r *record.Run) {
				r.Meta.Nodes = append(r.Meta.Nodes, record.Node{Name: "etcd-1", Components: []string{"etcd"}})
				r.Meta.Versions["etcd-1"] = map[string]string{"etcd": etcd36}
			})
		}},
		{name: "steps that nobody recorded", want: Inconclusive, says: "no restart of a component by upgrade of node-1", story: func() *story {
			return upgradedAll().change(func(r *record.Run) { r.Steps = nil })
		}},
		{name: "each asked before and after", want: Pass, took: "3 changes", story: func() *story {
			s := asked(fleetOf(release36), 5, release36, release36, release36)
			s = asked(s.upgraded("one", "node-1", release36, release37, 10), 18, release37, release36, release36)
			s = asked(s.upgraded("two", "node-2", release36, release37, 20), 28, release37, release37, release36)
			return asked(s.upgraded("three", "node-3", release36, release37, 30), 38, release37, release37, release37)
		}},
		{name: "all upgraded with the first", want: Fail, says: "kube-apiserver on node-2 reported v1.37.1 before its turn (its own upgrade began 20.000s)", story: func() *story {
			s := asked(fleetOf(release36), 5, release36, release36, release36)
			s = asked(s.upgraded("one", "node-1", release36, release37, 10), 18, release37, release37, release37)
			// Its own turn finds nothing to do.
			return s.inPlace("two", "upgrade", "node-2", release37, release37, 20, 21).inPlace("three", "upgrade", "node-3", release37, release37, 30, 31)
		}},
		{name: "a scheduler upgraded with the first node", want: Fail, says: "after upgrade of node-1 from v1.36.3 to v1.37.1, kube-scheduler v1.37.1 on node-2 runs beside kube-apiserver v1.36.3", story: func() *story {
			return asked(upgradedAll(), 18, release37, release36, release36).says("node-2", "kube-scheduler", release37, 18)
		}},
		{name: "a scheduler upgraded with the first node, whose API server is down", want: Fail, says: "kube-scheduler on node-2 reported v1.37.1 before its turn (its own upgrade began 20.000s)", story: func() *story {
			return upgradedAll().says("node-2", "kube-scheduler", release36, 5).says("node-2", "kube-scheduler", release37, 18)
		}},
		{name: "of the new version from the start", want: Inconclusive, says: "no restart of a component by upgrade of node-2", story: func() *story {
			s := asked(fleetOf(release36), 5, release36, release37, release36)
			s = asked(s.upgraded("one", "node-1", release36, release37, 10), 18, release37, release37, release36)
			return s.inPlace("two", "upgrade", "node-2", release37, release37, 20, 21).upgraded("three", "node-3", release36, release37, 30)
		}},
		{name: "not asked before", want: Pass, took: "3 changes", story: func() *story {
			return asked(fleetOf(release36).upgraded("one", "node-1", release36, release37, 10), 18, release37, release37, release37).
				upgraded("two", "node-2", release36, release37, 20).upgraded("three", "node-3", release36, release37, 30)
		}},
		{name: "a server answers of two minor versions less", want: Fail, says: "must hold at every step: after upgrade of node-1 from v1.36.3 to v1.37.1, kube-apiserver v1.35.3 on node-3 and kube-apiserver v1.37.1 on node-1 run in one cluster", story: func() *story {
			s := fleetOf(release36).upgraded("one", "node-1", release36, release37, 10)
			return asked(s, 18, release37, release36, "v1.35.3").upgraded("two", "node-2", release36, release37, 20).upgraded("three", "node-3", release36, release37, 30)
		}},
		{name: "a server that answered before it was upgraded", want: Pass, took: "3 changes", story: func() *story {
			return fleetOf("v1.35.8").upgraded("one", "node-1", "v1.35.8", release36, 10).upgraded("two", "node-2", "v1.35.8", release36, 20).
				says("node-3", "kube-apiserver", "v1.35.8", 28).upgraded("three", "node-3", "v1.35.8", release36, 30)
		}},
		{name: "two minor versions, one after the other", want: Pass, took: "6 changes", says: "after each of 18 steps", story: func() *story {
			s := fleetOf(release35)
			for i, n := range threeNodes {
				s.upgraded("first-"+n, n, release35, release36, float64(1+8*i))
			}
			for i, n := range threeNodes {
				s.upgraded("second-"+n, n, release36, release37, float64(25+8*i))
			}
			return s
		}},
		{name: "the second minor version before the first is complete", want: Fail, says: "kube-apiserver v1.35.8 on node-3 and kube-apiserver v1.37.1 on node-1 run in one cluster", story: func() *story {
			s := fleetOf(release35).upgraded("first-1", "node-1", release35, release36, 1).upgraded("first-2", "node-2", release35, release36, 9)
			return s.upgraded("second-1", "node-1", release36, release37, 17).upgraded("first-3", "node-3", release35, release36, 25)
		}},
		{name: "the second minor version on some nodes only", want: Fail, says: "node-3 runs v1.36.3", story: func() *story {
			s := fleetOf(release35)
			for i, n := range threeNodes {
				s.upgraded("first-"+n, n, release35, release36, float64(1+8*i))
			}
			return s.upgraded("second-1", "node-1", release36, release37, 25).upgraded("second-2", "node-2", release36, release37, 33)
		}},
		{name: "it could not be done", want: Inconclusive, says: "no such version", story: failed("")},
		{name: "the cluster cannot do it", want: NotApplicable, says: "no such version", story: failed("Upgrader")},
		{name: "no change", want: Inconclusive, says: "no change of nodes", story: func() *story { return newStory() }},
	})
	rule(t, record.Check{Requirement: "HA-UP-002", Judge: "changed-one-by-one", Params: map[string]string{"changes": "one, back"}}, []ruling{
		{name: "there and back", want: Pass, took: "2 changes", story: func() *story {
			s := fleetOf(release36).upgraded("one", "node-1", release36, release37, 10)
			s.inPlace("back", "upgrade", "node-1", release37, release36, 20, 26, "kube-scheduler", "kube-controller-manager", "kube-apiserver")
			for _, c := range inOrder {
				s.says("node-1", c, release36, 27)
			}
			return s.upgraded("again", "node-1", release36, release37, 30)
		}},
		{name: "the API server back first", want: Fail, says: "runs beside kube-apiserver v1.36.3", story: func() *story {
			s := fleetOf(release36).upgraded("one", "node-1", release36, release37, 10)
			return s.inPlace("back", "upgrade", "node-1", release37, release36, 20, 26, inOrder...)
		}},
	})
	takenBack := func() *story {
		return fleetOf(release36).inPlace("one", "upgrade", "node-1", release36, release36, 10, 16, "kube-apiserver", "kube-apiserver").change(func(r *record.Run) {
			r.Steps[0].V.Version, r.Changes[0].V.Interrupted = release37, 1
		}).says("node-1", "kube-controller-manager", release36, 17).says("node-1", "kube-scheduler", release36, 17)
	}
	rule(t, record.Check{Requirement: "HA-UP-002", Judge: "changed-one-by-one", Params: map[string]string{"interrupted": "one"}}, []ruling{
		{name: "interrupted and finished", want: Pass, took: "1 change", story: func() *story {
			return fleetOf(release36).upgraded("one", "node-1", release36, release37, 10).change(func(r *record.Run) { r.Changes[0].V.Interrupted = 2 })
		}},
		{name: "another one is not interrupted", want: Pass, took: "2 changes", story: func() *story {
			return fleetOf(release36).upgraded("one", "node-1", release36, release37, 10).upgraded("two", "node-2", release36, release37, 20).
				change(func(r *record.Run) { r.Changes[0].V.Interrupted = 2 })
		}},
		{name: "not interrupted", want: Inconclusive, says: "upgrade of node-1 from v1.36.3 to v1.37.1 was not interrupted", story: func() *story {
			return fleetOf(release36).upgraded("one", "node-1", release36, release37, 10)
		}},
		{name: "interrupted and taken back", want: Pass, took: "1 change", story: func() *story {
			return takenBack().says("node-1", "kube-apiserver", release36, 17)
		}},
		{name: "not taken back", want: Fail, says: "After upgrade of node-1, interrupted after step 1 and rolled back to v1.36.3 every component of the node must have the new version: kube-apiserver reported v1.37.1", story: func() *story {
			return takenBack().says("node-1", "kube-apiserver", release37, 17)
		}},
	})
	etcd := func(version string) func() *story {
		return func() *story {
			return fleetOf(release36).inPlace("one", "upgrade-etcd", "node-1", etcd36, etcd37, 10, 16, "etcd").members(17, version)
		}
	}
	// members upgrades all members, whose versions are reported before, between and after that.
	members := func(between ...string) func() *story {
		return func() *story {
			s := fleetOf(release36).members(5, "3.6.16", "3.6.16", "3.6.16").inPlace("one", "upgrade-etcd", "node-1", etcd36, etcd37, 10, 16, "etcd").members(17, between...)
			s.inPlace("two", "upgrade-etcd", "node-2", etcd36, etcd37, 20, 26, "etcd").members(27, "3.7.3", "3.7.3", between[2])
			return s.inPlace("three", "upgrade-etcd", "node-3", etcd36, etcd37, 30, 36, "etcd").members(37, "3.7.3", "3.7.3", "3.7.3")
		}
	}
	rule(t, record.Check{Requirement: "HA-UP-003", Judge: "changed-one-by-one"}, []ruling{
		{name: "etcd", want: Pass, took: "1 change", story: etcd("3.7.3")},
		{name: "etcd as before", want: Fail, says: "etcd reported v3.6.16", story: etcd("3.6.16")},
		{name: "every member", want: Pass, took: "3 changes", story: members("3.7.3", "3.6.16", "3.6.16")},
		{name: "two members at the same time", want: Fail, says: "etcd on node-2 reported v3.7.3 before its turn (its own upgrade began 20.000s)", story: members("3.7.3", "3.7.3", "3.6.16")},
		{name: "a member of two minor versions less", want: Fail, says: "after upgrade-etcd of node-1 from v3.6.16 to v3.7.3, etcd v3.5.9 on node-3 and etcd v3.7.3 on node-1 run in one cluster", story: members("3.7.3", "3.6.16", "3.5.9")},
	})
	rule(t, record.Check{Requirement: "HA-UP-008", Judge: "changed-one-by-one"}, []ruling{
		{name: "other arguments", want: Pass, took: "2 changes", story: func() *story { return reconfigured(everyComponent, everyComponent) }},
		{name: "only some components are named", want: Pass, took: "2 changes", story: func() *story {
			return reconfigured(everyComponent[:1], everyComponent[:1]).change(func(r *record.Run) {
				for i := range r.Changes {
					r.Changes[i].V.Restarts = everyComponent[:1]
				}
			}).lives("node-1", "kube-scheduler", 17, 5, 50)
		}},
		{name: "a component runs as before", want: Fail, says: "kube-scheduler was process 17 both before and after the reconfigure of node-2", story: func() *story {
			return reconfigured(everyComponent, everyComponent).lives("node-2", "kube-scheduler", 17, 5, 50)
		}},
		{name: "a component runs as before without a step", want: Fail, says: "kube-scheduler was process 17 both before and after the reconfigure of node-2", story: func() *story {
			return reconfigured(everyComponent, everyComponent[:3]).lives("node-2", "kube-scheduler", 17, 5, 50)
		}},
		{name: "a component runs as before until something else restarts it", want: Fail, says: "kube-scheduler was process 17 both before and after the reconfigure of node-2", story: func() *story {
			return reconfigured(everyComponent, everyComponent).lives("node-2", "kube-scheduler", 17, 5).lives("node-2", "kube-scheduler", 18, 40).queried(39)
		}},
		{name: "a component runs as before until it is killed", want: Fail, says: "kube-scheduler was process 17 both before and after the reconfigure of node-2", story: func() *story {
			return reconfigured(everyComponent, everyComponent).lives("node-2", "kube-scheduler", 17, 5).lives("node-2", "kube-scheduler", 0, 40).queried(39).lives("node-2", "kube-scheduler", 18, 42).queried(41)
		}},
		{name: "another process, and not queried since the change", want: Pass, took: "2 changes", story: func() *story {
			return reconfigured(everyComponent, everyComponent).lives("node-2", "kube-scheduler", 17, 5).lives("node-2", "kube-scheduler", 18, 40).queried(25)
		}},
		{name: "restarted in the change, and again later", want: Pass, took: "2 changes", story: func() *story {
			return reconfigured(everyComponent, everyComponent).lives("node-2", "kube-scheduler", 17, 5).lives("node-2", "kube-scheduler", 18, 24).queried(23).lives("node-2", "kube-scheduler", 19, 40).queried(39)
		}},
		{name: "stopped in the change, and started after it", want: Pass, took: "2 changes", story: func() *story {
			return reconfigured(everyComponent, everyComponent).lives("node-2", "kube-scheduler", 17, 5).lives("node-2", "kube-scheduler", 0, 24).queried(23).lives("node-2", "kube-scheduler", 18, 40).queried(39)
		}},
		{name: "a node that did not answer until after another restart", want: Pass, took: "2 changes", story: func() *story {
			s := reconfigured(everyComponent, everyComponent).lives("node-2", "kube-scheduler", 17, 5).lives("node-2", "kube-scheduler", 0, 24).queried(23).lives("node-2", "kube-scheduler", 18, 40).queried(39)
			return s.change(func(r *record.Run) { r.Processes[1].V.Error = "no answer" })
		}},
		{name: "a process that had exited in the change, and was started later", want: Pass, took: "2 changes", story: func() *story {
			s := reconfigured(everyComponent, everyComponent).lives("node-2", "kube-scheduler", 17, 5, 24).queried(23).lives("node-2", "kube-scheduler", 18, 40).queried(39)
			return s.change(func(r *record.Run) { r.Processes[1].V.State = "Z" })
		}},
		{name: "processes whose start is unknown, until one is restarted later", want: Pass, took: "2 changes", story: func() *story {
			return reconfigured(everyComponent, everyComponent).at(5).process("node-2", "kube-scheduler", 1).at(40).process("node-2", "kube-scheduler", 2).queried(39)
		}},
		{name: "restarted as another process", want: Pass, took: "2 changes", story: func() *story {
			return reconfigured(everyComponent, everyComponent).lives("node-2", "kube-scheduler", 17, 5).lives("node-2", "kube-scheduler", 18, 28, 50)
		}},
		{name: "a process seen only before the end of the change", want: Pass, took: "2 changes", story: func() *story {
			return reconfigured(everyComponent, everyComponent).lives("node-2", "kube-scheduler", 17, 5, 22)
		}},
		{name: "a process that had exited", want: Pass, took: "2 changes", story: func() *story {
			return reconfigured(everyComponent, everyComponent).lives("node-2", "kube-scheduler", 17, 5, 50).change(func(r *record.Run) { r.Processes[1].V.State = "Z" })
		}},
		{name: "a component stands by", want: Pass, took: "2 changes", story: func() *story {
			return reconfigured(everyComponent, everyComponent).lives("node-2", "kube-scheduler", 0, 5, 50)
		}},
		{name: "a process whose start is unknown", want: Pass, took: "2 changes", story: func() *story {
			return reconfigured(everyComponent, everyComponent).at(5).process("node-2", "kube-scheduler", 1).at(50).process("node-2", "kube-scheduler", 1)
		}},
		{name: "no step of one", want: Inconclusive, says: "no restart of kube-scheduler by the reconfigure of node-2", story: func() *story { return reconfigured(everyComponent, everyComponent[:3]) }},
		{name: "no step of the second change of a node", want: Inconclusive, says: "no restart of a component by reconfigure of node-1", story: func() *story {
			return reconfigured(everyComponent, nil).change(func(r *record.Run) { r.Changes[1].V.Node.Name = "node-1" })
		}},
		{name: "an older record", want: Pass, took: "2 changes", story: func() *story {
			return unnamed(reconfigured(everyComponent, everyComponent))
		}},
		{name: "an older record without a restart of one", want: Inconclusive, says: "nor which components it was to restart", story: func() *story {
			return unnamed(reconfigured(everyComponent, everyComponent[:3])).lives("node-2", "kube-scheduler", 17, 5, 50)
		}},
	})
}

var everyComponent = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}

// reconfigured restarts components of two nodes; all four were to be restarted.
func reconfigured(first, second []string) *story {
	s := fleetOf(release36).inPlace("one", "reconfigure", "node-1", "", "", 10, 16, first...).inPlace("two", "reconfigure", "node-2", "", "", 20, 26, second...)
	return s.change(func(r *record.Run) {
		for i := range r.Steps {
			r.Steps[i].V.Version = r.Meta.Versions["node-1"][r.Steps[i].V.Component]
		}
		for i := range r.Changes {
			r.Changes[i].V.Restarts = everyComponent
		}
	})
}

// unnamed makes a record one that does not have what reconfigurations name.
func unnamed(s *story) *story {
	return s.change(func(r *record.Run) {
		for i := range r.Changes {
			r.Changes[i].V.Restarts = nil
		}
	})
}

// lives records that a component is seen as one process at some times.
func (s *story) lives(node, component string, pid int, at ...float64) *story {
	for _, t := range at {
		s.at(t).process(node, component, pid)
		p := &s.run.Processes[len(s.run.Processes)-1].V
		p.StartTicks, p.Asked = uint64(100*pid), sec(t-0.01)
	}
	return s
}

// queried sets when the node was queried for the last time before the last process state.
func (s *story) queried(t float64) *story {
	s.run.Processes[len(s.run.Processes)-1].V.Before = sec(t)
	return s
}
