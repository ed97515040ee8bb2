package observe

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
)

// TestStartUser shows that the account reads with its own token and nothing else, on new
// connections through the balancer, and that it waits until its role is known.
func TestStartUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := entered{apitest.NewInMemory(t, 1)}
		asked := 0
		var served atomic.Int32
		c.Server(0).Hook(func(w http.ResponseWriter, r *http.Request) bool {
			switch {
			case strings.HasSuffix(r.URL.Path, "/holdfast-user/token"):
				fmt.Fprint(w, `{"status":{"token":"of-the-user"}}`)
			case r.Header.Get("Authorization") != "Bearer of-the-user":
				return false
			case asked < 2:
				asked++
				apitest.Fail(w, http.StatusForbidden, "Forbidden", "no role")
			default:
				served.Add(1)
				return false
			}
			return true
		})
		c.Set(configMaps+"/kept-balancer", `{"kind":"ConfigMap","metadata":{"name":"kept-balancer"}}`)
		w, read := recording(t)
		stop, err := StartUser(t.Context(), Config{Cluster: c}, w)
		if err != nil {
			t.Fatal(err)
		}
		started := served.Load()
		for deadline := time.Now().Add(30 * time.Second); served.Load() < started+4 && time.Now().Before(deadline); {
			time.Sleep(10 * time.Millisecond)
		}
		stop()
		run := read()
		if len(run.UserProbes) < 3 || len(run.Probes) > 0 {
			t.Fatalf("%d probes of the user, %d others", len(run.UserProbes), len(run.Probes))
		}
		for _, p := range run.UserProbes {
			if v := p.V; v.User != "holdfast-user" || v.Entrance != "balancer" || v.Server != "node-1" || v.Reused || !v.OK {
				t.Fatalf("%+v", v)
			}
		}
	})
}

// TestStartKept shows that these clients keep their connections, and that the record says
// when one is made.
func TestStartKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := entered{apitest.NewInMemory(t, 1)}
		c.Set(configMaps+"/kept-balancer", `{"kind":"ConfigMap","metadata":{"name":"kept-balancer"}}`)
		w, read := recording(t)
		stop, err := StartKept(t.Context(), Config{Cluster: c}, w)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond)
		stop()
		asked := map[string]int{}
		for _, p := range read().ClientProbes {
			v := p.V
			if v.Entrance != "balancer" || v.Server != "node-1" || !v.OK || v.Reused != (asked[v.Client] > 0) {
				t.Fatalf("request %d: %+v", asked[v.Client]+1, v)
			}
			asked[v.Client]++
		}
		if len(asked) != keptClients {
			t.Errorf("%d clients: %v", len(asked), asked)
		}
	})
}
