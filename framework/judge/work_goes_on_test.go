package judge

import (
	"fmt"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func TestWorkGoesOn(t *testing.T) {
	rule(t, record.Check{Requirement: "HA-LE-008", Judge: "work-goes-on", Fault: "lost", Bound: "L + 4.4P + 2M"}, []ruling{
		{name: "as it should be", want: Pass, took: "21s", says: "All 1 Deployments that were created while kube-controller-manager had no active instance had their pods within 21s", story: func() *story { return converging().sorted() }},
		{name: "too late", want: Fail, took: "29s", says: "batch, created by 20.000s, had not been reconciled after 29s: its controller has not observed", story: func() *story {
			a := petstore()
			a.scaled(20, record.OpCreate, "batch", 0, 2, 19)
			return a.sorted()
		}},
		{name: "never", want: Fail, says: "has not been seen", story: func() *story {
			a := petstore()
			a.change(20, record.OpCreate, "batch", 2)
			return a.sorted()
		}},
		{name: "up to the nodes", want: Inconclusive, says: "batch was not in its desired state for 48s, but the control plane had work left for only 21s of that", story: func() *story {
			a := petstore()
			a.change(20, record.OpCreate, "batch", 2)
			a.object(31, record.Object{Kind: record.ObjectDeployment, Name: "batch", Part: "batch", Deployment: &record.DeploymentState{
				Wanted: 2, Generation: 10, Observed: 10, Replicas: 2, Updated: 2}})
			for i := range 2 {
				a.pod(31, "batch", i, func(o *record.Object) { o.Pod.Phase, o.Pod.Ready = "Pending", false })
			}
			a.node(58, "worker-1", "True")
			return a.sorted()
		}},
		{name: "a pod too many", want: Fail, took: "4 of 3 pods", says: "at 31.000s, pod store-3 was the 4th of store, although at most 3 were wanted", story: func() *story {
			a := petstore()
			a.scaled(20, record.OpCreate, "batch", 0, 2, 11)
			a.change(25, record.OpPatch, "store", 2)
			a.pod(31, "store", 3, nil)
			return a.sorted()
		}},
		{name: "of three that act", want: Fail, says: "at 15.000s, pod batch-2 was the 3rd of batch, although at most 2 were wanted", story: func() *story {
			a := converging()
			a.change(14, record.OpCreate, "batch", 2)
			a.pod(15, "batch", 0, nil)
			a.pod(15, "batch", 1, nil)
			a.pod(15, "batch", 2, nil)
			return a.sorted()
		}},
		{name: "as many as were wanted for a while", want: Pass, story: func() *story {
			a := converging() // 3 were wanted when the controller was lost, 2 from 12 s on
			a.pod(25, "store", 0, deleting)
			a.pod(25.5, "store", 5, nil)
			a.pod(26, "store", 5, gone)
			return a.sorted()
		}},
		{name: "a change of unknown outcome", want: Pass, story: func() *story {
			a := converging()
			a.change(13, record.OpPatch, "store", 5)
			a.last().Outcome, a.last().Revision = record.Unknown, ""
			a.pod(25, "store", 3, nil)
			a.pod(25, "store", 4, nil)
			a.pod(26, "store", 3, gone)
			a.pod(26, "store", 4, gone)
			return a.sorted()
		}},
		{name: "nothing created", want: Inconclusive, says: "no Deployment was created between the kill", story: func() *story {
			a := petstore()
			a.scaled(31, record.OpCreate, "batch", 0, 2, 1)
			return a.sorted()
		}},
	})
}

// streamed has a pod created every 2 s and bound 0.2 s later, or, from 10 s to 30 s, at
// 31 s.
func streamed() *application {
	a := petstore()
	a.run.Faults = nil
	a.fault("lost", "kill", "node-2", "kube-scheduler", 10, 40)
	n := 0
	for t := range steps(2, 50, 2) {
		bound := t + 0.2
		if t >= 10 && t < 30 {
			bound = 31
		}
		a.stream(t, bound, n)
		n++
	}
	a.node(58, "worker-1", "True")
	return a
}

func (a *application) stream(t, bound float64, n int) {
	name := fmt.Sprintf("pod-%d", n)
	a.write(record.OpCreate, "balancer", "pods/"+name, name, 0, t-0.01, t)
	a.bare(t, name, "")
	if bound > 0 {
		a.bare(bound, name, "worker-1")
		a.action("node-1", bound-0.1)
		a.lastAction(func(e *record.Timed[record.Action]) { e.V.Name = name })
	}
}

func (a *application) bare(t float64, name, node string) {
	a.object(t, record.Object{Kind: record.ObjectPod, Name: name, Pod: &record.PodState{Node: node}})
}

func TestPodsBound(t *testing.T) {
	// late has a pod that is bound 29 s after the kill, with a second worker that is not ready.
	late := func(change func(*application)) func() *story {
		return func() *story {
			a := streamed()
			a.stream(9.5, 39, 99)
			a.node(5, "worker-2", "Unknown")
			change(a)
			return a.sorted()
		}
	}
	rule(t, record.Check{Requirement: "HA-LE-009", Judge: "pods-bound", Fault: "lost", Bound: "L + 4.4P + 2M"}, []ruling{
		{name: "as it should be", want: Pass, took: "21s", says: "Each of 24 pods was bound once, 15 of them created during the kill", story: func() *story { return streamed().sorted() }},
		{name: "forgotten", want: Fail, took: "44s", says: "No pod may be forgotten, and each must be bound within 27.8s", story: func() *story {
			a := streamed()
			a.stream(14, 0, 99)
			return a.sorted()
		}},
		{name: "never seen", want: Fail, says: "pod-99, created at 14.000s, was never seen, although its creation was acknowledged", story: func() *story {
			a := streamed()
			a.write(record.OpCreate, "balancer", "pods/pod-99", "pod-99", 0, 13.9, 14)
			return a.sorted()
		}},
		{name: "deleted by others", want: Fail, says: "pod-99, created at 14.000s, was gone at 20.000s and had never been bound", story: func() *story {
			a := streamed()
			a.stream(14, 0, 99)
			a.object(20, record.Object{Kind: record.ObjectPod, Name: "pod-99", Gone: true, Pod: &record.PodState{}})
			return a.sorted()
		}},
		{name: "late", want: Fail, took: "29s", says: "pod-99, created at 9.500s, was bound only after 29s", story: late(func(*application) {})},
		{name: "late, since no node could take it before", want: Pass, says: "the longest took 19s", story: late(func(a *application) {
			a.node(5, "worker-1", "Unknown")
			a.node(20, "worker-1", "True")
		})},
		{name: "late, although a node could take it", want: Fail, took: "28s", story: late(func(a *application) {
			a.node(5, "worker-1", "Unknown")
			a.node(11, "worker-1", "True")
		})},
		{name: "late, although the other node could take it", want: Fail, took: "29s", story: late(func(a *application) {
			a.node(6, "worker-2", "True")
			a.node(6, "worker-1", "Unknown")
		})},
		{name: "late, and no node was ready for as long as the bound", want: Inconclusive, says: "pod-99, created at 9.500s, waited for 29s", story: late(func(a *application) {
			for t := range steps(5, 50, 20) {
				a.node(t, "worker-1", "Unknown")
				a.node(t+10, "worker-1", "True")
			}
		})},
		{name: "late, since nodes were tainted", want: Pass, says: "the longest took 19s", story: late(func(a *application) {
			a.node(5, "worker-1", "True")
			a.run.Objects[len(a.run.Objects)-1].V.Node.Tainted = true
			a.node(20, "worker-1", "True")
		})},
		{name: "bound twice by the log", want: Fail, says: "the binding of pod-3 was acknowledged 2 times", story: func() *story {
			a := streamed()
			a.action("node-3", 12)
			a.lastAction(func(e *record.Timed[record.Action]) { e.V.Name = "pod-3" })
			return a.sorted()
		}},
		{name: "a second try was refused", want: Pass, story: func() *story {
			a := streamed()
			a.action("node-3", 12)
			a.lastAction(func(e *record.Timed[record.Action]) { e.V.Name, e.V.Code = "pod-3", 409 })
			return a.sorted()
		}},
		{name: "moved", want: Fail, says: `pod-3 was bound to worker-1, and then to "worker-2" at 20.000s`, story: func() *story {
			a := streamed()
			a.bare(20, "pod-3", "worker-2")
			return a.sorted()
		}},
		{name: "creation unknown", want: Pass, story: func() *story {
			a := streamed()
			a.write(record.OpCreate, "balancer", "pods/pod-99", "pod-99", 0, 13.9, 14)
			a.outcome(record.Unknown)
			return a.sorted()
		}},
		{name: "pods of other traffic", want: Pass, story: func() *story {
			a := streamed()
			a.write(record.OpCreate, "node-1", "pods/node-0", "k1", 0, 13.9, 14)
			return a.sorted()
		}},
		{name: "created shortly before the end", want: Pass, says: "Each of 24 pods was bound once, 15 of them", story: func() *story {
			a := streamed()
			a.stream(57.9, 0, 99)
			return a.sorted()
		}},
		{name: "created after the healing, and not bound for a while", want: Inconclusive, says: "pod pod-99 was not bound when it was last seen, 13s", story: func() *story {
			a := streamed()
			a.stream(45, 0, 99)
			return a.sorted()
		}},
		{name: "short of the end", want: Inconclusive, says: "pod pod-99 was not bound when it was last seen, 19s", story: func() *story {
			a := streamed()
			a.stream(39, 0, 99)
			return a.sorted()
		}},
		{name: "no stream", want: Inconclusive, says: "no pod was created during", story: func() *story { return petstore().sorted() }},
	})
}
