package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// application builds the story of an application, one object after another; each state has its
// own version.
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

// deployment is one whose controller has done what it wants, except for the last generations.
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

// scaled is a change and, some time later, its result.
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

// petstore is an application whose store is scaled all the time and whose catalog never is, on a
// cluster whose node-2 is lost from 10 to 40 s, with the lease of its controller manager taken
// over at 30 s. Requests in between are carried out at 31 s.
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

// unready is the application with a pod more from 12 s on, which is bound to its node
// some time later, and never becomes ready there.
func unready(bound float64) *application {
	a := petstore()
	a.change(12, record.OpPatch, "store", 4)
	waits := func(node string) func(*record.Object) {
		return func(o *record.Object) { o.Pod.Node, o.Pod.Phase, o.Pod.Ready = node, "Pending", false }
	}
	a.object(12.1, record.Object{Kind: record.ObjectDeployment, Name: "store", Part: "store", Deployment: &record.DeploymentState{
		Wanted: 4, Generation: 11, Observed: 11, Replicas: 4, Updated: 4, Ready: 3, Served: true}})
	a.pod(12.2, "store", 3, waits(""))
	a.pod(bound, "store", 3, waits("worker-1"))
	a.node(58, "worker-1", "True")
	return a
}

func TestApplicationConverges(t *testing.T) {
	rule(t, record.Check{Requirement: "HA-WL-001", Judge: "application-converges", Fault: "lost", Bound: "L + 4.4P + 2M"}, []ruling{
		{name: "as it should be", want: Pass, took: "19s", says: "2 Deployments, changed 3 times during the kill", story: func() *story { return converging().sorted() }},
		{name: "too late", want: Fail, took: "29s", says: "store was not in it for 29s (12.000s to 41.000s): its controller has not observed generation 10", story: func() *story {
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
		{name: "up to a node", want: Inconclusive, says: "store was not in its desired state for 46s, but the control plane had work left for only 1s of that",
			story: func() *story { return unready(13).sorted() }},
		{name: "up to a node too late", want: Fail, says: "store was not in it for 46s", story: func() *story { return unready(41).sorted() }},
		{name: "up to a node, which is ready at last", want: Pass, took: "1.5s", says: "(store), plus up to 43s in which only nodes had work left", story: func() *story {
			a := unready(13)
			a.pod(56, "store", 3, nil)
			a.slice(56.2, "store", 4)
			a.deployment(56.5, "store", 4, 4, 0)
			return a.sorted()
		}},
		{name: "up to a node, which is ready at last, and was out of touch", want: Inconclusive, says: "the control plane had work left for only 1.5s of that", story: func() *story {
			a := unready(13)
			a.pod(56, "store", 3, nil)
			a.slice(56.2, "store", 4)
			a.deployment(56.5, "store", 4, 4, 0)
			a.run.Objects = slices.DeleteFunc(a.run.Objects, func(o record.Timed[record.Object]) bool {
				return o.V.Kind == record.ObjectHeartbeat && o.V.Name == "worker-1" && o.At > sec(14) && o.At < sec(50)
			})
			return a.sorted()
		}},
		{name: "ready, and not counted", want: Fail, says: "store was not in it for 46s", story: func() *story {
			a := unready(13)
			a.pod(14, "store", 3, nil)
			a.slice(14.1, "store", 4)
			return a.sorted()
		}},
		{name: "ready, and not listed", want: Fail, says: "store was not in it for 46s", story: func() *story {
			a := unready(13)
			a.pod(14, "store", 3, nil)
			return a.sorted()
		}},
		{name: "up to a node, and something else too late", want: Fail, says: "batch was not in it for 30s", story: func() *story {
			a := unready(13)
			a.scaled(12, record.OpCreate, "batch", 0, 2, 30)
			return a.sorted()
		}},
		{name: "never", want: Fail, says: "store was not in it for 46s (12.000s to 58.000s)", story: func() *story {
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
		{name: "a duplicate stays", want: Fail, says: "it has 3 pods, 3 of them ready, and 2 are desired", story: func() *story {
			a := converging()
			a.pod(13, "catalog", 7, nil)
			return a.sorted()
		}},
		{name: "an orphan stays", want: Fail, says: "pod catalog-1 has no controller", story: func() *story {
			a := converging()
			a.pod(13, "catalog", 1, func(o *record.Object) { o.Pod.Controller = "" })
			return a.sorted()
		}},
		{name: "a Service lists what is gone", want: Fail, says: "its Service does not list exactly the ready pods (3 listed, 2 ready)", story: func() *story {
			a := converging()
			a.slice(13, "catalog", 3)
			return a.sorted()
		}},
		{name: "pods of a deleted Deployment stay", want: Fail, says: "it has 2 pods, 2 of them ready, and 0 are desired", story: func() *story {
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
		{name: "short of the end", want: Inconclusive, says: "store was not yet in its desired state when it was last checked, 11s", story: func() *story {
			a := petstore()
			a.scaled(12, record.OpPatch, "store", 3, 2, 19)
			a.change(38, record.OpPatch, "store", 5)
			a.cut(50)
			return a.sorted()
		}},
		{name: "the next fault's time does not count", want: Inconclusive, says: "not yet in its desired state when it was last checked, 2s", story: func() *story {
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

// cut leaves out all observations of objects after a time.
func (a *application) cut(t float64) {
	sortTimed(a.run.Objects)
	for i := range a.run.Objects {
		if a.run.Objects[i].At > sec(t) {
			a.run.Objects = a.run.Objects[:i]
			return
		}
	}
}

func sortTimed[T any](list []record.Timed[T]) {
	slices.SortStableFunc(list, func(a, b record.Timed[T]) int { return cmp.Compare(a.At, b.At) })
}

// quietly is an application that comes up and follows changes on a cluster without faults.
func quietly() *application {
	a := &application{story: newStory()}
	a.scaled(1, record.OpCreate, "catalog", 0, 3, 2)
	a.scaled(1, record.OpCreate, "store", 0, 1, 2)
	for _, n := range []string{"worker-1", "worker-2"} {
		a.node(1, n, "True")
		a.heartbeats(n, 1, 58)
	}
	a.scaled(5, record.OpPatch, "store", 1, 3, 1)
	a.scaled(9, record.OpCreate, "batch", 0, 2, 1)
	a.scaled(15, record.OpPatch, "store", 3, 2, 1)
	return a
}

// slowlyBound is quietly, with two more pods from 20 s on, which one scheduler binds one after the
// other, each after some time.
func slowlyBound(each float64) *application {
	a := quietly()
	a.change(20, record.OpPatch, "store", 4)
	a.object(20.1, record.Object{Kind: record.ObjectDeployment, Name: "store", Part: "store", Deployment: &record.DeploymentState{
		Wanted: 4, Generation: 11, Observed: 11, Replicas: 4, Updated: 4, Ready: 2, Served: true}})
	for n := range 2 {
		a.pod(20.2, "store", 8+n, func(o *record.Object) { o.Pod.Node, o.Pod.Phase, o.Pod.Ready = "", "Pending", false })
		a.pod(20+each*float64(1+n), "store", 8+n, nil)
	}
	a.object(20.1+2*each, record.Object{Kind: record.ObjectSlice, Name: "store", Part: "store",
		Slice: &record.SliceState{Ready: []string{"Pod/store-0", "Pod/store-1", "Pod/store-8", "Pod/store-9"}}})
	a.deployment(20.2+2*each, "store", 4, 4, 0)
	return a
}

// slowNodes is quietly, with one more pod every 6 s from 20 s on. Each time the control plane is done
// after some time. The nodes start all of them together at 52 s.
func slowNodes(own float64) *application {
	a := quietly()
	for n := 3; n <= 7; n++ {
		t := 20 + 6*float64(n-3)
		a.change(t, record.OpPatch, "store", n)
		a.pod(t+own-0.1, "store", 5+n, func(o *record.Object) { o.Pod.Phase, o.Pod.Ready = "Pending", false })
		a.object(t+own, record.Object{Kind: record.ObjectDeployment, Name: "store", Part: "store", Deployment: &record.DeploymentState{
			Wanted: n, Generation: int64(n), Observed: int64(n), Replicas: n, Updated: n, Ready: 2, Served: true}})
	}
	ready := []string{"Pod/store-0", "Pod/store-1"}
	for n := 3; n <= 7; n++ {
		a.pod(52, "store", 5+n, nil)
		ready = append(ready, fmt.Sprintf("Pod/store-%d", 5+n))
	}
	a.object(52.1, record.Object{Kind: record.ObjectSlice, Name: "store", Part: "store", Slice: &record.SliceState{Ready: ready}})
	a.deployment(52.2, "store", 7, 7, 0)
	return a
}

// lateWork is quietly, with one more pod from 18 s on, which the control plane creates after 14 s, and
// which its node never starts.
func lateWork() *application {
	a := quietly()
	a.change(18, record.OpPatch, "store", 3)
	a.pod(31.9, "store", 8, func(o *record.Object) { o.Pod.Phase, o.Pod.Ready = "Pending", false })
	a.object(32, record.Object{Kind: record.ObjectDeployment, Name: "store", Part: "store", Deployment: &record.DeploymentState{
		Wanted: 3, Generation: 11, Observed: 11, Replicas: 3, Updated: 3, Ready: 2, Served: true}})
	return a
}

func TestApplicationFollows(t *testing.T) {
	broken := func(s *story) *story {
		return s.change(func(r *record.Run) {
			r.Steadies[1].V = record.Steady{Phase: record.SteadyApplication, Problems: []string{"the application does not run after 1m0s: catalog: it has 0 pods"}}
		})
	}
	// empty has Deployments whose controllers create no pods.
	empty := func() *application {
		a := &application{story: newStory()}
		for _, part := range []string{"catalog", "store"} {
			a.change(1, record.OpCreate, part, 3)
			a.deployment(1.1, part, 3, 0, 0)
		}
		a.node(1, "worker-1", "True")
		a.heartbeats("worker-1", 1, 58)
		return a
	}
	check := record.Check{Requirement: "HA-WL-003", Judge: "application-follows", Bound: "10s + M"}
	rule(t, check, []ruling{
		{name: "comes up and follows", want: Pass, took: "2s", says: "an application of 3 Deployments came up and followed 5 changes, each within 12s", story: func() *story { return quietly().sorted() }},
		{name: "does not come up", want: Fail, took: "56s", says: "catalog was not in its desired state for 56s (1.000s to 57.000s)", story: func() *story { return empty().sorted() }},
		{name: "does not come up, and nothing else was done", want: Fail, says: "an application must come up", story: func() *story { return broken(empty().sorted()) }},
		{name: "comes up late", want: Fail, took: "14s", says: "store was not in its desired state for 14s", story: func() *story {
			a := &application{story: newStory()}
			a.scaled(1, record.OpCreate, "store", 0, 1, 14)
			return a.sorted()
		}},
		{name: "a change is not followed", want: Fail, says: "store was not in its desired state for 27s", story: func() *story {
			a := quietly()
			a.change(30, record.OpPatch, "store", 4)
			return a.sorted()
		}},
		{name: "a scheduler that binds a pod in ten seconds", want: Fail, says: "store was not in its desired state for 20", story: func() *story { return slowlyBound(10).sorted() }},
		{name: "a scheduler that binds a pod in four seconds", want: Pass, says: "each within 12s", story: func() *story { return slowlyBound(4).sorted() }},
		{name: "each change done in three seconds, and nodes that take longer", want: Pass, says: "followed 6 changes, each within 12s", story: func() *story { return slowNodes(3).sorted() }},
		{name: "each change done in seven seconds, the next one before", want: Fail, says: "store was not in its desired state for 32", story: func() *story { return slowNodes(7).sorted() }},
		{name: "a pod created after fourteen seconds, and a node that takes longer", want: Fail, took: "14s", says: "for 39s, in 14s of which the control plane had work left (18.000s to 57.000s)", story: func() *story { return lateWork().sorted() }},
		{name: "the same on a machine at a third of its speed", want: Inconclusive, says: "3.0 tasks shared each CPU on average", story: func() *story {
			return lateWork().sorted().change(func(r *record.Run) {
				for i := range r.Harness {
					r.Harness[i].V.Queue = 3.05
				}
			})
		}},
		{name: "nodes that never finish", want: Inconclusive, says: "only their nodes had work left", story: func() *story {
			a := slowNodes(3)
			a.run.Objects = slices.DeleteFunc(a.run.Objects, func(o record.Timed[record.Object]) bool {
				return o.V.Kind != record.ObjectHeartbeat && o.At >= sec(52)
			})
			return a.sorted()
		}},
		{name: "nor when the first fault comes", want: Pass, took: "10s", says: "followed 5 changes", story: func() *story {
			a := quietly()
			a.change(30, record.OpPatch, "store", 4)
			a.fault("lost", "kill", "node-2", "etcd", 40, 50)
			return a.sorted()
		}},
		{name: "what comes after the first fault is that one's", want: Pass, story: func() *story {
			a := quietly()
			a.change(30, record.OpPatch, "store", 4)
			a.fault("lost", "kill", "node-2", "etcd", 29, 50)
			return a.sorted()
		}},
		{name: "no place to run", want: Inconclusive, says: "had nowhere to run", story: func() *story {
			a := empty()
			for i := range a.run.Objects {
				if o := &a.run.Objects[i].V; o.Kind == record.ObjectNode {
					o.Node.Ready = "False"
				}
			}
			return a.sorted()
		}},
		{name: "on tainted control-plane nodes", want: Inconclusive, says: "had nowhere to run", story: func() *story { return onControlPlane(empty(), false) }},
		{name: "on control-plane nodes that accept pods", want: Fail, says: "must come up", story: func() *story { return onControlPlane(empty(), true) }},
		{name: "too few changes", want: Inconclusive, says: "2 changes of the application were seen", story: func() *story {
			a := quietly()
			a.fault("lost", "kill", "node-2", "etcd", 4, 50)
			return a.sorted()
		}},
		{name: "no application", want: Inconclusive, says: "shows no application before", story: func() *story { return newStory() }},
		{name: "none can be created", want: Inconclusive, says: "(refused: 403 Forbidden)", story: func() *story {
			a := &application{story: newStory()}
			a.change(1, record.OpCreate, "catalog", 3)
			a.run.Ops[0].V.Outcome, a.run.Ops[0].V.Error = record.Refused, "403 Forbidden"
			a.node(1, "worker-1", "True")
			a.heartbeats("worker-1", 1, 60)
			return a.sorted()
		}},
		{name: "up to the nodes", want: Inconclusive, says: "only their nodes had work left", story: func() *story {
			a := quietly()
			a.change(20, record.OpPatch, "store", 3)
			a.object(20.1, record.Object{Kind: record.ObjectDeployment, Name: "store", Part: "store", Deployment: &record.DeploymentState{
				Wanted: 3, Generation: 11, Observed: 11, Replicas: 3, Updated: 3, Ready: 2, Served: true}})
			a.pod(20.2, "store", 9, func(o *record.Object) { o.Pod.Phase, o.Pod.Ready = "Pending", false })
			return a.sorted()
		}},
		{name: "starved", want: Inconclusive, says: "the harness was starved", story: func() *story {
			return empty().sorted().change(func(r *record.Run) { r.Harness[20].V.Late = time.Minute })
		}},
	})
	// The rest names it.
	s := broken(empty().sorted())
	s.run.Meta.Checks = []record.Check{removal, {Requirement: "HA-TOP-003", Level: "SHOULD", Judge: "fault-domains"}}
	for _, r := range Evaluate(s.run) {
		if !strings.HasPrefix(r.Requirement, "HA-INV") && r.Judge != "harness" || r.Judge == "steady-state" {
			if r.Verdict != Inconclusive || !strings.Contains(r.Sentence, "broken before any fault: the application does not run after 1m0s: catalog: it has 0 pods") {
				t.Errorf("%s: %s: %s", r.Requirement, r.Verdict, r.Sentence)
			}
		}
	}
}

// onControlPlane replaces the worker nodes by a control-plane node.
func onControlPlane(a *application, open bool) *story {
	for i := range a.run.Objects {
		if o := &a.run.Objects[i].V; o.Kind == record.ObjectNode {
			o.Name, o.Node.Open = "node-1", open
		}
	}
	return a.sorted()
}
