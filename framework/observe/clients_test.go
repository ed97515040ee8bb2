package observe

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
)

// entered is a cluster with an entrance that is not a node's.
type entered struct{ *apitest.Cluster }

func (b entered) Entrances() []framework.Entrance {
	return append(b.Cluster.Entrances(), framework.Entrance{Name: "balancer", Config: b.Server(0).Config()})
}

// TestClients shows that clients with client-go's transport probe the balancer only, and
// that the record has the server that each probe was sent to, apart from other probes.
func TestClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := entered{apitest.NewInMemory(t, 1)}
		w, read := recording(t)
		o, err := Start(t.Context(), Config{Cluster: c, ProbeInterval: 10 * time.Millisecond}, w)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond)
		o.Stop()
		run := read()
		if len(run.ClientProbes) < 3 {
			t.Fatalf("%d probes", len(run.ClientProbes))
		}
		for _, p := range run.ClientProbes {
			if v := p.V; v.Client != "client-go-1" || v.Entrance != "balancer" || v.Server != "node-1" || !v.Reused || !v.OK {
				t.Fatalf("%+v", v)
			}
		}
		for _, p := range run.Probes {
			if v := p.V; v.Client != "" || v.Server != "node-1" && v.OK && v.Kind != "watch" {
				t.Fatalf("%+v", v)
			}
		}
	})
}

// TestServerOfSeveralNodes shows that a certificate of several nodes names none.
func TestServerOfSeveralNodes(t *testing.T) {
	for n, want := range map[int]string{1: "node-1", 2: ""} {
		o := &Observers{cfg: Config{Cluster: apitest.New(t, n)}}
		if got := o.nodeOf([]string{"10.0.0.1", "127.0.0.1"}); got != want {
			t.Errorf("%d nodes with one address: %q, want %q", n, got, want)
		}
	}
}
