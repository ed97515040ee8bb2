package judge

import (
	"slices"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func TestNodeNotReady(t *testing.T) {
	// dark is an application whose node-2 is a Node with heartbeats until it is lost.
	dark := func(more func(*application)) func() *story {
		return func() *story {
			a := petstore()
			a.node(1, "node-2", "True")
			a.heartbeats("node-2", 1, 10)
			more(a)
			return a.sorted()
		}
	}
	rule(t, record.Check{Requirement: "HA-WL-005", Judge: "node-not-ready", Fault: "lost", Bound: "20s"}, []ruling{
		{name: "as it should be", want: Pass, took: "18s", says: "node-2 turned NotReady 18s after", story: dark(func(a *application) { a.node(28, "node-2", "Unknown") })},
		{name: "removed from the API", want: Pass, story: dark(func(a *application) {
			a.object(25, record.Object{Kind: record.ObjectNode, Name: "node-2", Gone: true, Node: &record.NodeState{Ready: "True"}})
		})},
		{name: "at last", want: Fail, took: "22s", says: "within 20s (20s) of the kill of kube-controller-manager on node-2: node-2 did only after 22s", story: dark(func(a *application) { a.node(32, "node-2", "Unknown") })},
		{name: "never", want: Fail, says: "node-2 was still ready after", story: dark(func(*application) {})},
		{name: "another one instead", want: Fail, says: "node-2 was still ready after", story: dark(func(a *application) { a.node(28, "worker-1", "Unknown") })},
		{name: "once it had power again", want: Fail, says: "node-2 was still ready after", story: dark(func(a *application) { a.node(42, "node-2", "Unknown") })},
		{name: "ready again without power", want: Fail, says: "node-2 was still ready after", story: dark(func(a *application) {
			a.node(20, "node-2", "Unknown")
			a.node(25, "node-2", "True")
		})},
		{name: "ready again with power", want: Pass, story: dark(func(a *application) {
			a.node(28, "node-2", "Unknown")
			a.heartbeats("node-2", 43, 55)
			a.node(43, "node-2", "True")
		})},
		{name: "the last heartbeat shows late", want: Pass, story: dark(func(a *application) {
			a.heartbeats("node-2", 11, 12)
			a.node(28, "node-2", "Unknown")
		})},
		{name: "heartbeats from elsewhere", want: Inconclusive, says: "its heartbeats come from elsewhere", story: dark(func(a *application) { a.heartbeats("node-2", 13, 40) })},
		{name: "no heartbeats", want: Inconclusive, says: "does not show two heartbeats of node-2", story: func() *story {
			a := petstore()
			a.node(1, "node-2", "True")
			return a.sorted()
		}},
		{name: "not a Node", want: NotApplicable, says: "node-2 is not a Node of the API", story: func() *story { return petstore().sorted() }},
		{name: "not ready before", want: Inconclusive, says: "Ready was Unknown", story: dark(func(a *application) { a.node(9, "node-2", "Unknown") })},
		{name: "no node seen", want: Inconclusive, says: "the record shows no node", story: func() *story {
			return newStory().fault("lost", "kill", "node-2", "", 10, 40)
		}},
		{name: "not looked at for long enough", want: Inconclusive, says: "which is less than the bound", story: func() *story {
			return dark(func(*application) {})().change(func(r *record.Run) {
				r.Objects = slices.DeleteFunc(r.Objects, func(o record.Timed[record.Object]) bool { return o.At > sec(20) && o.At < sec(45) })
			})
		}},
	})
}
