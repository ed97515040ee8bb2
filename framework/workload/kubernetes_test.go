package workload

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

func TestKubernetes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.NewInMemory(t, 2)
		w, read := recording(t)
		traffic, err := Start(t.Context(), Config{Seed: 1, Cluster: c, Settings: Settings{Profiles: []string{ProfileKubernetes},
			Kubernetes: KubernetesSettings{ClientsPerEntrance: 2, Interval: 4 * time.Millisecond}}}, w)
		if err != nil {
			t.Fatal(err)
		}
		waitFor(t, "traffic", func() bool { return c.Revision() > 300 })
		traffic.Stop()
		run := read()
		counts := map[string]int{}
		version, status := map[string]string{}, map[string]string{} // of leases, of pods
		for _, o := range run.Ops {
			op := o.V
			if op.Outcome != record.OK || op.Collection != "" || op.API != apiKubernetes {
				t.Fatalf("%+v", op)
			}
			resource, _, _ := strings.Cut(op.Key, "/")
			counts[resource+" "+string(op.Type)]++
			if resource == "leases" {
				if op.Type == record.OpUpdate && op.Expect != version[op.Key] || op.Type == record.OpGet && op.Found && op.Revision != version[op.Key] {
					t.Errorf("%+v after version %s", op, version[op.Key])
				}
				version[op.Key] = op.Revision
			}
			if strings.HasSuffix(op.Key, "/status") {
				if op.Type == record.OpGet && op.Value != status[op.Key] {
					t.Errorf("%+v after %s", op, status[op.Key])
				}
				status[op.Key] = op.Value
			}
		}
		if counts["leases create"] != 4 || counts["pods create"] != 4 || counts["leases update"] < 100 || counts["pods patch"] < 10 || counts["events create"] < 10 {
			t.Errorf("%v", counts)
		}
		if counts["leases update"] < 3*counts["pods patch"] {
			t.Errorf("proportions: %v", counts)
		}
		// Nothing is left.
		r, err := newRegisters(c.Entrances()[0], w, "test", DefaultNamespace, "", time.Second)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range []kind{leaseKind, podKind, eventKind} {
			a := r.api.Do(t.Context(), client.Request{Method: http.MethodGet, Path: k.path(DefaultNamespace)})
			if !strings.Contains(string(a.Body), `"items":[]`) {
				t.Errorf("left: %s", a.Body)
			}
		}
	})
}

// An answer with another object of the same kind acknowledges nothing.
func TestKubernetesOfAnotherObject(t *testing.T) {
	c := apitest.New(t, 1)
	w, _ := recording(t)
	r, err := newRegisters(c.Entrances()[0], w, "test", "ns", "", 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	k := &component{registers: r, values: newValues(rand.New(rand.NewPCG(1, 1)), "k", 0), object: "own", owner: "x"}
	name := ""
	c.Server(0).Hook(func(w http.ResponseWriter, _ *http.Request) bool {
		_, _ = fmt.Fprintf(w, `{"kind":"Lease","metadata":{"name":%q,"resourceVersion":"9"},"spec":{"holderIdentity":"v"}}`, name)
		return true
	})
	op := record.Op{Type: record.OpUpdate, Key: "leases/own", Value: "v", Expect: "8"}
	for _, test := range []struct {
		name string
		want record.Outcome
	}{{"own", record.OK}, {"other", record.Unknown}} {
		name = test.name
		if got := k.get(t.Context(), leaseKind, "own"); got.Outcome != test.want || got.Found != (test.want == record.OK) {
			t.Errorf("read of %s: %+v", name, got)
		}
		if got := k.change(t.Context(), leaseKind, op, http.MethodPut, leaseKind.path("ns")+"/own", map[string]any{}); got.Outcome != test.want {
			t.Errorf("update of %s: %+v", name, got)
		}
	}
}
