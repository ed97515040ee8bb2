package judge

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func TestPodsUntouched(t *testing.T) {
	touched := func(change func(*application)) func() *story {
		return func() *story {
			a := converging()
			change(a)
			return a.sorted()
		}
	}
	rule(t, record.Check{Requirement: "HA-WL-002", Judge: "pods-untouched", Fault: "lost", Bound: "30s"}, []ruling{
		{name: "as it should be", want: Pass, took: "2 pods", says: "All 2 running pods of catalog, which no client changed, stayed unchanged", story: touched(func(*application) {})},
		{name: "told again", want: Pass, story: touched(func(a *application) { a.pod(20, "catalog", 1, nil) })},
		{name: "not ready", want: Fail, says: "pod catalog-1 on worker-1, of catalog, which no client changed, was no longer ready (phase Running) at 20.000s", story: touched(func(a *application) {
			a.pod(20, "catalog", 1, func(o *record.Object) { o.Pod.Ready = false })
		})},
		{name: "not ready, harness starved", want: Inconclusive, says: "starved", story: func() *story {
			a := converging()
			a.pod(20, "catalog", 1, func(o *record.Object) { o.Pod.Ready = false })
			return a.sorted().change(func(r *record.Run) { r.Harness[15].V.Late = 4e9 })
		}},
		{name: "deleted", want: Fail, says: "was being deleted at 20.000s", story: touched(func(a *application) { a.pod(20, "catalog", 0, deleting) })},
		{name: "gone", want: Fail, says: "was gone at 20.000s", story: touched(func(a *application) { a.pod(20, "catalog", 0, gone) })},
		{name: "restarted", want: Fail, says: "was restarted (1 time in all)", story: touched(func(a *application) {
			a.pod(20, "catalog", 0, func(o *record.Object) { o.Pod.Restarts = 1 })
		})},
		{name: "moved", want: Fail, says: "pod catalog-0 on worker-2, of catalog, which no client changed, was moved there from worker-1", story: touched(func(a *application) {
			a.pod(20, "catalog", 0, func(o *record.Object) { o.Pod.Node = "worker-2" })
		})},
		{name: "one more", want: Fail, says: "pod catalog-5 on worker-1, of catalog, which no client changed, was added", story: touched(func(a *application) { a.pod(20, "catalog", 5, nil) })},
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
		{name: "none", want: Inconclusive, says: "no running pod of a Deployment that no client changes", story: func() *story {
			return newStory().fault("lost", "kill", "node-2", "", 10, 40)
		}},
	})
}

func TestPodsEvicted(t *testing.T) {
	// away is an application whose workers send no heartbeat from 9 to 36 s.
	away := func(change func(*application)) func() *story {
		return func() *story {
			a := converging()
			a.run.Objects = slices.DeleteFunc(a.run.Objects, func(o record.Timed[record.Object]) bool {
				return o.V.Kind == record.ObjectHeartbeat && o.At > sec(10) && o.At < sec(36)
			})
			change(a)
			a.run.Meta.Settings["G"] = 20 * time.Second
			return a.sorted()
		}
	}
	// silentFrom has the heartbeats of worker-1 end again, after which it is marked and its pod deleted.
	silentFrom := func(from, marked float64) func() *story {
		return func() *story {
			a := away(func(a *application) {
				a.node(marked, "worker-1", "Unknown")
				a.pod(marked+1, "catalog", 0, deleting)
			})()
			return a.change(func(r *record.Run) {
				r.Meta.Settings["G"] = 13 * time.Second
				r.Objects = slices.DeleteFunc(r.Objects, func(o record.Timed[record.Object]) bool {
					return o.V.Kind == record.ObjectHeartbeat && o.V.Name == "worker-1" && o.At > sec(from)
				})
			})
		}
	}
	rule(t, record.Check{Requirement: "HA-WL-004", Judge: "pods-untouched", Fault: "lost", Bound: "45s", Params: map[string]string{"evictions": "true"}}, []ruling{
		{name: "as it should be", want: Pass, took: "2 pods", says: "None of the 2 running pods of catalog, which no client changed, was deleted or moved", story: away(func(*application) {})},
		{name: "not ready for a while", want: Pass, story: away(func(a *application) {
			a.pod(41, "catalog", 1, func(o *record.Object) { o.Pod.Ready = false })
			a.pod(43, "catalog", 1, nil)
		})},
		{name: "deleted", want: Fail, says: "pod catalog-0 on worker-1, of catalog, which no client changed, was being deleted at 44.000s", story: away(func(a *application) { a.pod(44, "catalog", 0, deleting) })},
		{name: "gone", want: Fail, says: "was gone at 50.000s", story: away(func(a *application) { a.pod(50, "catalog", 0, gone) })},
		{name: "moved", want: Fail, says: "was moved there from worker-1", story: away(func(a *application) {
			a.pod(45, "catalog", 0, func(o *record.Object) { o.Pod.Node = "worker-2" })
		})},
		{name: "deleted when its node was silent again", want: Inconclusive, says: "a pod on worker-1 was evicted, but the node was silent again for 13", story: silentFrom(43, 56.5)},
		{name: "deleted when its node was silent again, too early", want: Fail, says: "pod catalog-0 on worker-1", story: silentFrom(45, 56.5)},
		{name: "a heartbeat got through", want: Inconclusive, says: "worker-2 was silent for 15s at most", story: away(func(a *application) { a.heartbeats("worker-2", 24, 25) })},
		{name: "not watched for long enough", want: Inconclusive, says: "less than 45s", story: away(func(a *application) { a.cut(50) })},
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
		{name: "not ready, and a member that all API servers use is silent", want: Inconclusive, says: "every API server uses the etcd member on node-2 as well", story: func() *story {
			a := petstore()
			a.node(1, "worker-3", "True")
			a.heartbeats("worker-3", 1, 10)
			a.heartbeats("worker-3", 22, 58)
			a.node(21, "worker-3", "Unknown")
			a.run.Faults = nil
			a.fault("lost", "isolate", "node-2", "", 10, 30)
			return remote(a.sorted())
		}},
		{name: "not ready though it was heard in time, and a member that all API servers use is silent", want: Fail, says: "the condition Ready of worker-2 became Unknown", story: func() *story {
			a := petstore()
			a.node(25, "worker-2", "Unknown")
			a.run.Faults = nil
			a.fault("lost", "isolate", "node-2", "", 10, 30)
			return remote(a.sorted())
		}},
		{name: "not ready too early, and a member that all API servers use is silent", want: Fail, took: "3s", says: "the condition Ready of worker-3 became Unknown", story: func() *story {
			a := petstore()
			a.node(1, "worker-3", "True")
			a.heartbeats("worker-3", 1, 10)
			a.heartbeats("worker-3", 22, 58)
			a.node(12, "worker-3", "Unknown")
			a.run.Faults = nil
			a.fault("lost", "isolate", "node-2", "", 10, 30)
			return remote(a.sorted())
		}},
		{name: "no controller manager to mark it", want: Fail, took: "31s", says: "those of worker-3 were missing for 31s (9.000s to 40.000s)", story: func() *story {
			a := petstore()
			a.node(1, "worker-3", "True")
			a.heartbeats("worker-3", 1, 10)
			a.heartbeats("worker-3", 40, 50)
			return a.sorted()
		}},
		{name: "never again", want: Fail, says: "those of worker-3 were missing for 48s", story: func() *story {
			a := petstore()
			a.node(1, "worker-3", "True")
			a.heartbeats("worker-3", 1, 10)
			return a.sorted()
		}},
		{name: "not probed", want: Inconclusive, says: "no heartbeat of worker-1 was seen for 20s (15.000s to 35.000s), nor any other object for 20s of that", story: func() *story {
			a := petstore()
			blind := func(o record.Timed[record.Object]) bool {
				return o.At > record.Nanos(15*time.Second) && o.At < record.Nanos(35*time.Second)
			}
			return a.sorted().change(func(r *record.Run) { r.Objects = slices.DeleteFunc(r.Objects, blind) })
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
		{name: "not seen afterwards", want: Inconclusive, says: "no state of any object after", story: func() *story {
			a := petstore()
			a.cut(11)
			return a.story
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
		{name: "silent under another fault before", want: Pass, story: func() *story {
			a := petstore()
			a.node(1, "worker-3", "True")
			a.heartbeats("worker-3", 1, 4)
			a.heartbeats("worker-3", 9, 58)
			a.fault("early", "kill", "node-1", "etcd", 3.5, 8)
			return a.sorted()
		}},
		{name: "a control-plane node not ready", want: Pass, says: "All 2 worker nodes stayed ready", story: func() *story {
			a := petstore()
			a.node(1, "node-2", "True")
			a.heartbeats("node-2", 1, 10)
			a.node(25, "node-2", "Unknown")
			return a.sorted()
		}},
		{name: "no nodes but control-plane nodes", want: Inconclusive, says: "no worker node", story: func() *story {
			a := &application{story: newStory().fault("lost", "kill", "node-2", "", 10, 40)}
			a.node(1, "node-2", "True")
			return a.sorted()
		}},
		{name: "no nodes", want: Inconclusive, says: "no worker node", story: func() *story { return newStory().fault("lost", "kill", "node-2", "", 10, 40) }},
	})
}
