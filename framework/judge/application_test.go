package judge

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// application tells a story of an application, one object after another; each state
// has a version of its own.
type application struct {
	*story
	revision int
}

func (a *application) object(t float64, o record.Object) {
	a.revision++
	o.Revision, o.Via = fmt.Sprint(a.revision), "node-1"
	if o.UID == "" {
		o.UID = string(o.Kind) + "/" + o.Name
	}
	a.at(t)
	add(a.story, &a.run.Objects, o)
}

// deployment is one whose controller has carried out what it wants, but for the last
// generations.
func (a *application) deployment(t float64, name string, wanted, ready, behind int) {
	a.object(t, record.Object{Kind: record.ObjectDeployment, Name: name, Part: name, Deployment: &record.DeploymentState{
		Wanted: wanted, Generation: 10, Observed: int64(10 - behind), Replicas: ready, Updated: ready, Ready: ready, Served: name != "batch"}})
}

func (a *application) pod(t float64, part string, n int, change func(*record.Object)) {
	o := record.Object{Kind: record.ObjectPod, Name: fmt.Sprintf("%s-%d", part, n), Part: part,
		Pod: &record.PodState{Controller: "ReplicaSet/" + part, Node: "worker-1", Phase: "Running", Ready: true}}
	if change != nil {
		change(&o)
	}
	a.object(t, o)
}

func gone(o *record.Object)     { o.Gone = true }
func deleting(o *record.Object) { o.Pod.Deleting = true }

func (a *application) slice(t float64, part string, pods int) {
	s := &record.SliceState{Ready: []string{}}
	for i := range pods {
		s.Ready = append(s.Ready, fmt.Sprintf("Pod/%s-%d", part, i))
	}
	a.object(t, record.Object{Kind: record.ObjectSlice, Name: part, Part: part, Slice: s})
}

// change is an acknowledged change of a Deployment, of 10 ms.
func (a *application) change(t float64, typ record.OpType, name string, replicas int) {
	o := during(t-0.01, t)
	o.Type, o.Entrance, o.Key, o.Value = typ, "balancer", "deployments/"+name, fmt.Sprintf("%d replicas (%g)", replicas, t)
	if typ != record.OpDelete {
		o.Revision = fmt.Sprint(a.revision + 1) // of the state that follows
	}
	a.op(o)
}

// scaled is a change and, some time later, what comes of it.
func (a *application) scaled(t float64, typ record.OpType, name string, from, to int, took float64) {
	a.change(t, typ, name, to)
	a.deployment(t+0.01, name, to, from, 1)
	for i := from; i < to; i++ {
		a.pod(t+took/2, name, i, nil)
	}
	for i := to; i < from; i++ {
		a.pod(t+took/2, name, i, deleting)
		a.pod(t+took/2, name, i, gone)
	}
	if name != "batch" {
		a.slice(t+took-0.02, name, to)
	}
	a.deployment(t+took, name, to, to, 0)
}

// node is a worker's state, heartbeats are what it renews every 2 s.
func (a *application) node(t float64, name, ready string) {
	a.object(t, record.Object{Kind: record.ObjectNode, Name: name, Node: &record.NodeState{Ready: ready}})
}

func (a *application) heartbeats(name string, from, to float64) {
	for t := range steps(from, to, 2) {
		a.object(t, record.Object{Kind: record.ObjectHeartbeat, Name: name, Heartbeat: &record.HeartbeatState{}})
	}
}

// sorted puts the objects in the order of time.
func (a *application) sorted() *story {
	sortTimed(a.run.Objects)
	return a.story
}

// petstore is an application of which the store is scaled all the time and the catalog
// never, on a cluster whose node-2 is lost from 10 to 40 s; with the lease of its
// controller manager taken over at 30 s. What is asked for in between is done at 31 s.
func petstore() *application {
	a := &application{story: newStory()}
	a.scaled(1, record.OpCreate, "catalog", 0, 2, 1)
	a.scaled(1, record.OpCreate, "store", 0, 1, 1)
	for _, n := range []string{"worker-1", "worker-2"} {
		a.node(1, n, "True")
		a.heartbeats(n, 1, 58)
	}
	a.scaled(5, record.OpPatch, "store", 1, 3, 1)
	a.fault("lost", "kill", "node-2", "kube-controller-manager", 10, 40)
	a.at(2).lease("kube-controller-manager", "node-2_a", 1, 2)
	a.at(30).lease("kube-controller-manager", "node-3_b", 2, 30)
	return a
}

func converging() *application {
	a := petstore()
	a.scaled(12, record.OpPatch, "store", 3, 2, 19)
	a.scaled(20, record.OpCreate, "batch", 0, 2, 11)
	a.scaled(35, record.OpPatch, "store", 2, 4, 1)
	a.scaled(45, record.OpPatch, "store", 4, 1, 1)
	return a
}

func TestApplicationConverges(t *testing.T) {
	rule(t, record.Check{Requirement: "HA-WL-001", Judge: "application-converges", Fault: "lost", Bound: "L + 4.4P + 2M"}, []ruling{
		{name: "as it should be", want: Pass, took: "19s", says: "2 Deployments, changed 3 times during the kill", story: func() *story { return converging().sorted() }},
		{name: "too late", want: Fail, took: "29s", says: "store was not for 29s (12.000s to 41.000s): its controller has not looked at generation 10", story: func() *story {
			a := petstore()
			a.scaled(12, record.OpPatch, "store", 3, 2, 29)
			a.heartbeats("worker-1", 58, 59)
			return a.sorted()
		}},
		{name: "too late, harness starved", want: Inconclusive, says: "starved", story: func() *story {
			a := petstore()
			a.scaled(12, record.OpPatch, "store", 3, 2, 29)
			return a.sorted().change(func(r *record.Run) { r.Harness[30].V.Late = 4e9 })
		}},
		{name: "never", want: Fail, says: "store was not for 46s (12.000s to 58.000s)", story: func() *story {
			a := petstore()
			a.change(12, record.OpPatch, "store", 2)
			a.node(58, "worker-1", "True")
			return a.sorted()
		}},
		{name: "lost by everybody", want: Fail, says: "version 99 of the Deployment was acknowledged", story: func() *story {
			a := petstore()
			a.change(12, record.OpPatch, "store", 2)
			a.last().Revision = "99"
			a.node(58, "worker-1", "True")
			return a.sorted()
		}},
		{name: "a duplicate stays", want: Fail, says: "it has 3 pods, 3 of them ready, and 2 are wanted", story: func() *story {
			a := converging()
			a.pod(13, "catalog", 7, nil)
			return a.sorted()
		}},
		{name: "an orphan stays", want: Fail, says: "pod catalog-1 has no controller", story: func() *story {
			a := converging()
			a.pod(13, "catalog", 1, func(o *record.Object) { o.Pod.Controller = "" })
			return a.sorted()
		}},
		{name: "a Service lists what is gone", want: Fail, says: "its Service lists 3 ready pods that are not exactly the 2 ready ones", story: func() *story {
			a := converging()
			a.slice(13, "catalog", 3)
			return a.sorted()
		}},
		{name: "pods of a deleted Deployment stay", want: Fail, says: "it has 2 pods, 2 of them ready, and 0 are wanted", story: func() *story {
			a := converging()
			a.change(32, record.OpDelete, "batch", 0)
			a.object(32.01, record.Object{Kind: record.ObjectDeployment, Name: "batch", Part: "batch", Gone: true, Deployment: &record.DeploymentState{}})
			a.node(64, "worker-1", "True")
			return a.sorted()
		}},
		{name: "a deletion is carried out", want: Pass, story: func() *story {
			a := converging()
			a.change(32, record.OpDelete, "batch", 0)
			a.object(32.01, record.Object{Kind: record.ObjectDeployment, Name: "batch", Part: "batch", Gone: true, Deployment: &record.DeploymentState{}})
			a.pod(33, "batch", 0, gone)
			a.pod(33, "batch", 1, gone)
			return a.sorted()
		}},
		{name: "short of the end", want: Inconclusive, says: "store was not yet as it is wanted when it was last looked at, 11s", story: func() *story {
			a := petstore()
			a.scaled(12, record.OpPatch, "store", 3, 2, 19)
			a.change(38, record.OpPatch, "store", 5)
			a.cut(50)
			return a.sorted()
		}},
		{name: "the next fault's time does not count", want: Inconclusive, says: "not yet as it is wanted when it was last looked at, 2s", story: func() *story {
			a := petstore()
			a.scaled(12, record.OpPatch, "store", 3, 2, 19)
			a.change(40.6, record.OpPatch, "store", 5)
			a.fault("next", "kill", "node-3", "etcd", 42.6, 80)
			a.node(90, "worker-1", "True")
			return a.sorted()
		}},
		{name: "nobody scaled", want: Inconclusive, says: "no change of the application was acknowledged", story: func() *story { return petstore().sorted() }},
		{name: "no application", want: Inconclusive, says: "shows no application", story: func() *story {
			return newStory().fault("lost", "kill", "node-2", "", 10, 40)
		}},
	})
}

// cut leaves out all that was seen of objects after a time.
func (a *application) cut(t float64) {
	sortTimed(a.run.Objects)
	for i := range a.run.Objects {
		if a.run.Objects[i].At > sec(t) {
			a.run.Objects = a.run.Objects[:i]
			return
		}
	}
}

func TestPodsUntouched(t *testing.T) {
	touched := func(change func(*application)) func() *story {
		return func() *story {
			a := converging()
			change(a)
			return a.sorted()
		}
	}
	rule(t, record.Check{Requirement: "HA-WL-002", Judge: "pods-untouched", Fault: "lost", Bound: "30s"}, []ruling{
		{name: "as it should be", want: Pass, took: "2 pods", says: "All 2 running pods of catalog, which nobody changed, stayed as they were", story: touched(func(*application) {})},
		{name: "told again", want: Pass, story: touched(func(a *application) { a.pod(20, "catalog", 1, nil) })},
		{name: "not ready", want: Fail, says: "pod catalog-1 on worker-1, of catalog, which nobody changed, was no longer ready (phase Running) at 20.000s", story: touched(func(a *application) {
			a.pod(20, "catalog", 1, func(o *record.Object) { o.Pod.Ready = false })
		})},
		{name: "not ready, harness starved", want: Inconclusive, says: "starved", story: func() *story {
			a := converging()
			a.pod(20, "catalog", 1, func(o *record.Object) { o.Pod.Ready = false })
			return a.sorted().change(func(r *record.Run) { r.Harness[15].V.Late = 4e9 })
		}},
		{name: "deleted", want: Fail, says: "was being deleted at 20.000s", story: touched(func(a *application) { a.pod(20, "catalog", 0, deleting) })},
		{name: "gone", want: Fail, says: "was gone at 20.000s", story: touched(func(a *application) { a.pod(20, "catalog", 0, gone) })},
		{name: "restarted", want: Fail, says: "was restarted (1 times in all)", story: touched(func(a *application) {
			a.pod(20, "catalog", 0, func(o *record.Object) { o.Pod.Restarts = 1 })
		})},
		{name: "moved", want: Fail, says: "pod catalog-0 on worker-2, of catalog, which nobody changed, was moved there from worker-1", story: touched(func(a *application) {
			a.pod(20, "catalog", 0, func(o *record.Object) { o.Pod.Node = "worker-2" })
		})},
		{name: "one more", want: Fail, says: "pod catalog-5 on worker-1, of catalog, which nobody changed, was added", story: touched(func(a *application) { a.pod(20, "catalog", 5, nil) })},
		{name: "pods that are scaled", want: Pass, story: touched(func(a *application) { a.pod(20, "store", 9, deleting) })},
		{name: "before and after", want: Pass, story: touched(func(a *application) {
			a.pod(9, "catalog", 9, nil)
			a.pod(9.5, "catalog", 9, gone)
			a.fault("next", "kill", "node-3", "etcd", 50, 55)
			a.pod(51, "catalog", 1, deleting)
		})},
		{name: "not watched for long enough", want: Inconclusive, says: "the pods were watched for 29s", story: func() *story {
			a := petstore()
			a.run.Faults = nil
			a.fault("lost", "kill", "node-2", "kube-controller-manager", 10, 30)
			a.cut(39)
			return a.story
		}},
		{name: "not seen afterwards", want: Inconclusive, says: "no state of any object after", story: func() *story {
			a := petstore()
			a.cut(35)
			return a.story
		}},
		{name: "none", want: Inconclusive, says: "no running pod of a Deployment that nobody changes", story: func() *story {
			return newStory().fault("lost", "kill", "node-2", "", 10, 40)
		}},
	})
}

func TestNodesReady(t *testing.T) {
	rule(t, record.Check{Requirement: "HA-CL-008", Judge: "nodes-ready", Fault: "lost", Bound: "10s"}, []ruling{
		{name: "as it should be", want: Pass, took: "2s", says: "All 2 worker nodes stayed ready", story: func() *story { return petstore().sorted() }},
		{name: "not ready", want: Fail, says: "the condition Ready of worker-2 became Unknown at 25.000s", story: func() *story {
			a := petstore()
			a.node(25, "worker-2", "Unknown")
			a.node(26, "worker-2", "True")
			return a.sorted()
		}},
		{name: "nobody to mark it", want: Fail, took: "31s", says: "that of worker-3 was for 31s (9.000s to 40.000s)", story: func() *story {
			a := petstore()
			a.node(1, "worker-3", "True")
			a.heartbeats("worker-3", 1, 10)
			a.heartbeats("worker-3", 40, 50)
			return a.sorted()
		}},
		{name: "never again", want: Fail, says: "that of worker-3 was for 48s", story: func() *story {
			a := petstore()
			a.node(1, "worker-3", "True")
			a.heartbeats("worker-3", 1, 10)
			return a.sorted()
		}},
		{name: "a short gap", want: Pass, took: "9s", story: func() *story {
			a := petstore()
			a.node(1, "worker-3", "True")
			a.heartbeats("worker-3", 1, 10)
			a.heartbeats("worker-3", 18, 58)
			return a.sorted()
		}},
		{name: "too short a fault", want: Inconclusive, says: "lasted 8s, which is less than", story: func() *story {
			a := petstore()
			a.run.Faults = nil
			a.fault("lost", "kill", "node-2", "kube-controller-manager", 10, 18)
			return a.sorted()
		}},
		{name: "not ready before", want: Inconclusive, says: "worker-3 was not ready before", story: func() *story {
			a := petstore()
			a.node(1, "worker-3", "False")
			return a.sorted()
		}},
		{name: "no heartbeat", want: Inconclusive, says: "does not show two heartbeats of worker-3", story: func() *story {
			a := petstore()
			a.node(1, "worker-3", "True")
			return a.sorted()
		}},
		{name: "rare heartbeats", want: Inconclusive, says: "worker-3 was silent for 6s before the kill", story: func() *story {
			a := petstore()
			a.node(1, "worker-3", "True")
			for t := range steps(2, 58, 6) {
				a.heartbeats("worker-3", t, t+1)
			}
			return a.sorted()
		}},
		{name: "no nodes", want: Inconclusive, says: "no worker node", story: func() *story { return newStory().fault("lost", "kill", "node-2", "", 10, 40) }},
	})
}

func TestWorkGoesOn(t *testing.T) {
	rule(t, record.Check{Requirement: "HA-LE-008", Judge: "work-goes-on", Fault: "lost", Bound: "L + 4.4P + 2M"}, []ruling{
		{name: "as it should be", want: Pass, took: "21s", says: "All 1 Deployments that were created while kube-controller-manager had no active instance had their pods within 21s", story: func() *story { return converging().sorted() }},
		{name: "too late", want: Fail, took: "29s", says: "batch, created by 20.000s, was not after 29s: its controller has not looked at", story: func() *story {
			a := petstore()
			a.scaled(20, record.OpCreate, "batch", 0, 2, 19)
			return a.sorted()
		}},
		{name: "never", want: Fail, says: "it has not been seen", story: func() *story {
			a := petstore()
			a.change(20, record.OpCreate, "batch", 2)
			return a.sorted()
		}},
		{name: "a pod too many", want: Fail, took: "4 of 3 pods", says: "store got pod store-3 at 31.000s, its 4th one, and 3 were wanted at most", story: func() *story {
			a := petstore()
			a.scaled(20, record.OpCreate, "batch", 0, 2, 11)
			a.change(25, record.OpPatch, "store", 2)
			a.pod(31, "store", 3, nil)
			return a.sorted()
		}},
		{name: "of three that act", want: Fail, says: "batch got pod batch-2 at 15.000s, its 3rd one, and 2 were wanted at most", story: func() *story {
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
	rule(t, record.Check{Requirement: "HA-LE-009", Judge: "pods-bound", Fault: "lost", Bound: "L + 4.4P + 2M"}, []ruling{
		{name: "as it should be", want: Pass, took: "21s", says: "Each of 24 pods was bound once, 15 of them created during the kill", story: func() *story { return streamed().sorted() }},
		{name: "forgotten", want: Fail, took: "44s", says: "No pod may be forgotten, and each must be bound within 27.8s", story: func() *story {
			a := streamed()
			a.stream(14, 0, 99)
			return a.sorted()
		}},
		{name: "never seen", want: Fail, says: "pod-99, created at 14.000s, was never seen, though its creation was acknowledged", story: func() *story {
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
		{name: "late", want: Fail, took: "29s", says: "pod-99, created at 9.500s, was after 29s", story: func() *story {
			a := streamed()
			a.stream(9.5, 39, 99)
			return a.sorted()
		}},
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
		{name: "short of the end", want: Inconclusive, says: "pod pod-99 was not bound when it was last looked at, 19s", story: func() *story {
			a := streamed()
			a.stream(39, 0, 99)
			return a.sorted()
		}},
		{name: "no stream", want: Inconclusive, says: "no pod was created during", story: func() *story { return petstore().sorted() }},
	})
}

func sortTimed[T any](list []record.Timed[T]) {
	slices.SortStableFunc(list, func(a, b record.Timed[T]) int { return cmp.Compare(a.At, b.At) })
}
