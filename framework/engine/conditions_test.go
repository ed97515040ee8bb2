package engine

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

func TestApplicationConverged(t *testing.T) {
	t.Parallel()
	var lacks map[string]string
	application := func() map[string]string { return lacks }
	look := convergence(application)
	missing := func(want string) {
		t.Helper()
		if err := look(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	missing("no application exists")
	lacks = map[string]string{"backend": "its controller has not looked at generation 2", "frontend": ""}
	missing("backend has not reached its desired state yet: its controller has not looked at generation 2")
	// A part that was right once may have been scaled again since.
	lacks = map[string]string{"backend": "its Service lists 2 ready pods", "frontend": "it has 1 pods"}
	missing("backend has not reached its desired state yet: its Service lists 2 ready pods")
	lacks["backend"] = ""
	if err := look(t.Context()); err != nil {
		t.Error(err)
	}
	// Another wait starts again.
	look = convergence(application)
	missing("frontend has not reached")
}

func TestEndpointsComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFake(t)
		r := &run{cluster: c, apis: map[string]*client.API{}}
		defer r.close()
		complete := &Until{Condition: "endpoints-complete"}

		endpoints := "/api/v1/namespaces/default/endpoints/kubernetes"
		c.Set(endpoints, `{"metadata":{"name":"kubernetes"},"subsets":[{"addresses":[{"ip":"127.0.0.2"}]}]}`)
		if err := r.condition(t.Context(), complete); err == nil || !strings.Contains(err.Error(), "waiting until they list 127.0.0.1") {
			t.Errorf("the address is missing: %v", err)
		}
		c.Set(endpoints, `{"metadata":{"name":"kubernetes"},"subsets":[{"addresses":[{"ip":"127.0.0.1"}]}]}`)
		if err := r.condition(t.Context(), complete); err == nil {
			t.Error("complete without the EndpointSlice")
		}
		c.Set("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes", `{"metadata":{"name":"kubernetes"},"endpoints":[{"addresses":["127.0.0.1"]}]}`)
		if err := r.condition(t.Context(), complete); err != nil {
			t.Error(err)
		}
	})
}
