package engine

import (
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

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
