package record

import (
	"strings"
	"testing"
)

func TestStandingTake(t *testing.T) {
	var s Standing
	o := Object{Kind: ObjectPod, Name: "p", UID: "u", Revision: "10", Part: "web", Pod: &PodState{}}
	take := func(revision string, gone bool) bool {
		o.Revision, o.Gone = revision, gone
		return s.Take(o)
	}
	for i, tt := range []struct {
		revision string
		gone     bool
		news     bool
	}{{"10", false, true}, {"10", false, false}, {"9", false, false}, {"11", false, true}, {"12", true, true}, {"13", false, false}} {
		if got := take(tt.revision, tt.gone); got != tt.news {
			t.Errorf("step %d: news %t", i, got)
		}
	}
	if len(s.Of(ObjectPod, "web")) != 0 || len(s.Parts()) != 0 {
		t.Error("what is gone is still there")
	}
	if got, ok := s.all["u"]; !ok || !got.Gone || got.Revision != "12" {
		t.Errorf("%+v", got)
	}
}

func TestStandingLacks(t *testing.T) {
	healthy := func() map[string]Object {
		pod := func(name string) Object {
			return Object{Kind: ObjectPod, Name: name, UID: name, Revision: "20", Part: "web",
				Pod: &PodState{Controller: "ReplicaSet/web-1", Node: "worker-1", Phase: "Running", Ready: true}}
		}
		return map[string]Object{
			"d": {Kind: ObjectDeployment, Name: "web", UID: "d", Revision: "21", Part: "web",
				Deployment: &DeploymentState{Wanted: 2, Generation: 3, Observed: 3, Replicas: 2, Updated: 2, Ready: 2, Served: true}},
			"a": pod("a"), "b": pod("b"),
			"s": {Kind: ObjectSlice, Name: "web-x", UID: "s", Revision: "22", Part: "web", Slice: &SliceState{Ready: []string{"a", "b"}}},
		}
	}
	for name, tt := range map[string]struct {
		change func(map[string]Object)
		want   string
	}{
		"as wanted":                 {func(map[string]Object) {}, ""},
		"not looked at":             {func(all map[string]Object) { all["d"].Deployment.Generation = 4 }, "has not observed generation 4"},
		"an old state":              {func(all map[string]Object) { d := all["d"]; d.Revision = "19"; all["d"] = d }, "version 20 of the Deployment was acknowledged, but the newest seen is 19"},
		"scaled":                    {func(all map[string]Object) { all["d"].Deployment.Wanted = 3 }, "reports 2 pods, 2 of them ready, and 3 are desired"},
		"one pod gone":              {func(all map[string]Object) { delete(all, "b") }, "it has 1 pods, 1 of them ready, and 2 are desired"},
		"one pod not ready":         {func(all map[string]Object) { all["b"].Pod.Ready = false }, "it has 2 pods, 1 of them ready"},
		"one pod being ended":       {func(all map[string]Object) { all["b"].Pod.Deleting = true }, "it has 2 pods, 1 of them ready"},
		"an orphan":                 {func(all map[string]Object) { all["b"].Pod.Controller = "" }, "pod b has no controller"},
		"a pod is not listed":       {func(all map[string]Object) { all["s"].Slice.Ready = []string{"a"} }, "(1 listed, 2 ready)"},
		"another is listed":         {func(all map[string]Object) { all["s"].Slice.Ready = []string{"a", "c"} }, "does not list exactly"},
		"a Service without a slice": {func(all map[string]Object) { delete(all, "s") }, "(0 listed, "},
		"nobody has to list":        {func(all map[string]Object) { delete(all, "s"); all["d"].Deployment.Served = false }, ""},
		"never seen":                {func(all map[string]Object) { clear(all) }, "and the Deployment has not been seen"},
		"deleted, pods left":        {func(all map[string]Object) { delete(all, "d") }, "it has 2 pods, 2 of them ready, and 0 are desired"},
		"deleted, nothing left":     {func(all map[string]Object) { clear(all) }, ""},
	} {
		var s Standing
		all := healthy()
		tt.change(all)
		for _, o := range all {
			s.Take(o)
		}
		since := "20"
		if strings.HasPrefix(name, "deleted") {
			since = ""
		}
		if got := s.Lacks("web", since); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
