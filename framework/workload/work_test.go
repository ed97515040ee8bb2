package workload

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

func TestWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.NewInMemory(t, 2)
		w, read := recording(t)
		const namespace = DefaultNamespace + "-work"
		authority := "/api/v1/namespaces/" + namespace + "/configmaps/" + published
		c.Set(authority, `{"metadata":{"name":"kube-root-ca.crt"}}`)
		traffic, err := Start(t.Context(), Config{Seed: 1, Cluster: c, Settings: Settings{Profiles: []string{ProfileWork}, Work: WorkSettings{Interval: 4 * time.Millisecond}}}, w)
		if err != nil {
			t.Fatal(err)
		}
		waitFor(t, "work", func() bool { return c.Revision() > 100 })
		traffic.Stop()
		if ops := read().Ops; len(ops) > 0 {
			t.Errorf("recorded: %+v", ops[0].V)
		}
		// Nothing is left but what others are to make again.
		r, err := newRegisters(c.Entrances()[0], w, "test", namespace, "", time.Second)
		if err != nil {
			t.Fatal(err)
		}
		pods := r.api.Do(t.Context(), client.Request{Method: http.MethodGet, Path: podKind.path(namespace)})
		if !strings.Contains(string(pods.Body), `"items":[]`) {
			t.Errorf("left: %s", pods.Body)
		}
		if a := r.api.Do(t.Context(), client.Request{Method: http.MethodGet, Path: authority}); a.Status != http.StatusNotFound {
			t.Errorf("the authority is there: status %d", a.Status)
		}
	})
}
