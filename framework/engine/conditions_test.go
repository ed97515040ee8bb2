package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

func TestApplicationConverged(t *testing.T) {
	t.Parallel()
	c := newFake(t)
	r := &run{cluster: c, apis: map[string]*client.API{}}
	defer r.close()
	set := func(name string, generation, observed, ready int) {
		c.Set("/apis/apps/v1/namespaces/holdfast-app/deployments/"+name, fmt.Sprintf(
			`{"metadata":{"name":%q,"generation":%d},"spec":{"replicas":3},"status":{"observedGeneration":%d,"replicas":3,"updatedReplicas":3,"readyReplicas":%d}}`,
			name, generation, observed, ready))
	}
	look := r.convergence()
	missing := func(want string) {
		t.Helper()
		if err := look(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	missing("there is no application")
	set("backend", 2, 1, 3)
	set("frontend", 2, 2, 3)
	missing("the Deployment backend has not been as it is wanted yet: its controller has not looked at generation 2")
	// What was right once may be scaled again meanwhile.
	set("frontend", 3, 2, 3)
	set("backend", 2, 2, 2)
	missing("3 pods, 2 of them ready, and 3 are wanted")
	set("backend", 2, 2, 3)
	if err := look(t.Context()); err != nil {
		t.Error(err)
	}
	// Another wait begins anew.
	look = r.convergence()
	missing("the Deployment frontend")
}

func TestEndpointsComplete(t *testing.T) {
	t.Parallel()
	c := newFake(t)
	r := &run{cluster: c, apis: map[string]*client.API{}}
	defer r.close()
	complete := &Until{Condition: endpointsComplete}

	endpoints := "/api/v1/namespaces/default/endpoints/kubernetes"
	c.Set(endpoints, `{"metadata":{"name":"kubernetes"},"subsets":[{"addresses":[{"ip":"127.0.0.2"}]}]}`)
	if err := r.condition(t.Context(), complete); err == nil || !strings.Contains(err.Error(), "waiting for 127.0.0.1") {
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
}
