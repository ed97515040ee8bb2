package judge

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func TestHolderWorks(t *testing.T) {
	// taken has node-3 take the controller manager over at 30 s. The store is scaled at 35 and
	// 52 s; each case adds the actions on it.
	taken := func(change func(*application)) func() *story {
		return func() *story {
			a := petstore()
			a.scaled(12, record.OpPatch, "store", 3, 2, 19)
			a.scaled(35, record.OpPatch, "store", 2, 4, 1)
			a.change(52, record.OpPatch, "store", 1)
			change(a)
			sortTimed(a.run.Ops)
			return a.sorted()
		}
	}
	// again has node-2 take it over from its former process, at 42 s. The store is scaled at 44 s.
	again := func(change func(*application)) func() *story {
		return func() *story {
			a := petstore()
			l := &a.run.Leases[1]
			l.At, l.V.Holder, l.V.HolderNode = sec(42), "node-2_b", "node-2"
			a.action("node-2", 42).lastAction(func(x *record.Timed[record.Action]) { x.V.Component, x.V.Election = "kube-controller-manager", true })
			a.change(44, record.OpPatch, "store", 1)
			change(a)
			sortTimed(a.run.Ops)
			return a.sorted()
		}
	}
	acts := func(a *application, node string, t float64, name string) {
		a.action(node, t).lastAction(func(x *record.Timed[record.Action]) {
			x.V.Component, x.V.Verb, x.V.Resource, x.V.Subresource, x.V.Name = "kube-controller-manager", "update", "apps/replicasets", "", name
		})
	}
	// assigned has API servers give the lease to node-3 at 30 s, which notices it at some time.
	assigned := func(a *application, noticed float64) {
		a.at(noticed).lease("kube-controller-manager", a.run.Leases[1].V.Holder, 3, noticed)
		for i := range a.run.Leases {
			a.run.Leases[i].V.Strategy = "OldestEmulationVersion"
		}
	}
	rule(t, record.Check{Requirement: "HA-LE-014", Judge: "holder-works", Bound: "12s"}, []ruling{
		{name: "as it should be", want: Pass, took: "1s", says: "The instances of kube-controller-manager that took over its lease (1) did what was requested of them (1 time)",
			story: taken(func(a *application) { acts(a, "node-3", 36, "store-5d4") })},
		{name: "twice", want: Pass, took: "4s", story: taken(func(a *application) { acts(a, "node-3", 36, "store-5d4"); acts(a, "node-3", 56, "store-5d4") })},
		{name: "it does nothing", want: Fail, took: "", says: "node-3 had taken it over at 30.000s, and did not act on store, which was requested at 34.990s",
			story: taken(func(*application) {})},
		{name: "something else", want: Fail, says: "did not act on store", story: taken(func(a *application) { acts(a, "node-3", 36, "storefront-5d4"); a.action("node-3", 36) })},
		{name: "too late", want: Fail, says: "did not act on store", story: taken(func(a *application) { acts(a, "node-3", 48, "store-5d4") })},
		{name: "before it was asked", want: Fail, says: "did not act on store", story: taken(func(a *application) { acts(a, "node-3", 34, "store-5d4") })},
		{name: "another one does it", want: Fail, says: "but kube-controller-manager on node-1 acted on store", story: taken(func(a *application) { acts(a, "node-1", 36, "store-5d4") })},
		{name: "the former one does it, within its deadline", want: Inconclusive, says: "no work was requested", story: taken(func(a *application) { acts(a, "node-2", 36, "store-5d4") })},
		{name: "the former one does it, long after its deadline", want: Fail, says: "but kube-controller-manager on node-2 acted on store", story: taken(func(a *application) { acts(a, "node-2", 46, "store-5d4") })},
		{name: "elected by API servers, and not active yet", want: Inconclusive, says: "no work was requested", story: taken(func(a *application) { assigned(a, 41); acts(a, "node-3", 50, "store-5d4") })},
		{name: "elected by API servers, and it does nothing", want: Fail, says: "node-3 had taken it over at 33.000s, and did not act on store, which was requested at 34.990s", story: taken(func(a *application) { assigned(a, 33) })},
		{name: "another one does it too", want: Pass, story: taken(func(a *application) { acts(a, "node-1", 36, "store-5d4"); acts(a, "node-3", 37, "store-5d4") })},
		{name: "stamps of another clock", want: Inconclusive, says: "does not show who acted", story: taken(func(a *application) {
			acts(a, "node-3", 36, "store-5d4")
			a.lastAction(func(x *record.Timed[record.Action]) { x.V.Received, x.V.Completed = sec(46), sec(46.1) })
		})},
		{name: "no audit log of it", want: Inconclusive, says: "nor all that instances of kube-controller-manager did", story: taken(func(a *application) {
			a.at(58).lease("kube-controller-manager", "node-3_b", 3, 58)
		})},
		{name: "another fault soon", want: Inconclusive, says: "too little time", story: taken(func(a *application) { a.fault("next", "kill", "node-3", "etcd", 40, 50) })},
		{name: "a fault on the other component", want: Fail, story: taken(func(a *application) { a.fault("next", "kill", "node-3", "kube-scheduler", 40, 50) })},
		{name: "a change of its node in place soon", want: Inconclusive, says: "too little time", story: taken(func(a *application) { a.inPlace("", "upgrade", "node-3", "v1.36.3", "v1.37.1", 40, 46, inOrder...) })},
		{name: "a change of its node in place long before", want: Fail, story: taken(func(a *application) { a.inPlace("", "upgrade", "node-3", "v1.36.3", "v1.37.1", 3, 9, inOrder...) })},
		{name: "taken over again", want: Inconclusive, says: "too little time", story: taken(func(a *application) { a.at(41).lease("kube-controller-manager", "node-1_c", 3, 41) })},
		{name: "changed again soon", want: Inconclusive, says: "too little time", story: taken(func(a *application) { a.change(40, record.OpPatch, "store", 2) })},
		{name: "started again on the same node", want: Pass, took: "1s", story: again(func(a *application) { acts(a, "node-2", 45, "store-5d4") })},
		{name: "started again on the same node, and does nothing", want: Fail, says: "node-2 had taken it over at 42.000s, and did not act on store", story: again(func(*application) {})},
		{name: "reading of an audit log stops", want: Inconclusive, says: "the audit log of the API server on node-3 was not read to the end", story: taken(func(a *application) {
			a.probes("node-3", true, 1, 58)
			a.logsRead(0, 30, "node-3")
		})},
		{name: "audit logs are read, and it does nothing", want: Fail, says: "did not act on store", story: taken(func(a *application) {
			a.probes("node-3", true, 1, 58)
			a.logsRead(0, 60, "node-3")
		})},
		{name: "as many as before", want: Inconclusive, says: "no work was requested", story: func() *story {
			a := petstore()
			a.change(35, record.OpPatch, "store", 3)
			return a.sorted()
		}},
		{name: "no takeover", want: Inconclusive, says: "no instance", story: func() *story { return newStory().at(2).lease("kube-controller-manager", "node-2_a", 1, 2) }},
		{name: "a fault on the node of the holder, and no takeover", want: Inconclusive, says: "no instance", story: func() *story {
			return newStory().at(2).lease("kube-controller-manager", "node-2_a", 1, 2).fault("cut", "isolate", "node-2", "", 10, 30)
		}},
		{name: "faults on other nodes, and no takeover", want: NotApplicable, says: "No fault hit node-2", story: func() *story {
			return newStory().at(2).lease("kube-controller-manager", "node-2_a", 1, 2).fault("cut", "isolate", "node-3", "", 10, 30)
		}},
		{name: "elected by supervisors", want: NotApplicable, story: func() *story {
			o := during(2, 2.1)
			o.Purpose, o.Key = "lock", "locks/kube-controller-manager"
			return newStory().op(o)
		}},
	})

	pod := func(a *application, t float64) {
		o := during(t-0.01, t)
		o.Type, o.Entrance, o.Key = record.OpCreate, "balancer", "pods/pod-1"
		a.op(o)
	}
	// unbound has node-3 take the scheduler over at 30 s, and a pod created at 35 s that nothing binds.
	unbound := func(change func(*application)) *story {
		a := &application{story: newStory().at(2).lease("kube-scheduler", "node-2_a", 1, 2).at(30).lease("kube-scheduler", "node-3_b", 2, 30)}
		pod(a, 35)
		a.action("node-3", 36)
		change(a)
		return a.sorted()
	}
	rule(t, record.Check{Requirement: "HA-LE-014", Judge: "holder-works", Bound: "12s", Params: map[string]string{"component": "kube-scheduler"}}, []ruling{
		{name: "bound", want: Pass, took: "1s", story: func() *story {
			a := &application{story: newStory().at(2).lease("kube-scheduler", "node-2_a", 1, 2).at(30).lease("kube-scheduler", "node-3_b", 2, 30)}
			pod(a, 35)
			return a.action("node-3", 36).lastAction(func(x *record.Timed[record.Action]) { x.V.Name = "pod-1" })
		}},
		{name: "not bound", want: Fail, says: "did not act on pod-1", story: func() *story { return unbound(func(*application) {}) }},
		{name: "not bound, one node is ready", want: Fail, says: "did not act on pod-1", story: func() *story {
			return unbound(func(a *application) { a.node(1, "worker-1", "True"); a.node(33, "worker-2", "Unknown") })
		}},
		{name: "not bound, a node was ready for the bound before it was not", want: Fail, says: "did not act on pod-1", story: func() *story {
			return unbound(func(a *application) { a.node(1, "worker-1", "True"); a.node(48, "worker-1", "Unknown") })
		}},
		{name: "no node is ready", want: Inconclusive, says: "no work was requested", story: func() *story {
			return unbound(func(a *application) { a.node(1, "worker-1", "True"); a.node(33, "worker-1", "Unknown") })
		}},
		{name: "no node is ready soon after", want: Inconclusive, says: "no work was requested", story: func() *story {
			return unbound(func(a *application) { a.node(1, "worker-1", "True"); a.node(37, "worker-1", "Unknown") })
		}},
		{name: "not bound once a node is ready", want: Fail, says: "did not act on pod-1", story: func() *story {
			return unbound(func(a *application) { a.node(1, "worker-1", "Unknown"); a.node(42, "worker-1", "True") })
		}},
		{name: "bound as soon as a node is ready", want: Pass, took: "1s", story: func() *story {
			return unbound(func(a *application) {
				a.node(1, "worker-1", "Unknown")
				a.node(45, "worker-1", "True")
				a.action("node-3", 46).lastAction(func(x *record.Timed[record.Action]) { x.V.Name = "pod-1" })
			})
		}},
	})
}
