package observe

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/polltest"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/record/recordtest"
	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
)

const (
	endpointsPath = "/api/v1/namespaces/default/endpoints/kubernetes"
	slicesPath    = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/"
	leasesPath    = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/"
)

var recording = recordtest.New

var waitFor = polltest.Until

func setEndpoints(c *apitest.Cluster, addresses ...string) {
	list := func(before, after string) string {
		var all []string
		for _, a := range addresses {
			all = append(all, before+a+after)
		}
		return strings.Join(all, ",")
	}
	c.Set(endpointsPath, `{"metadata":{"name":"kubernetes"},"subsets":[{"addresses":[`+list(`{"ip":"`, `"}`)+`],"notReadyAddresses":[{"ip":"10.9.9.9"}]}]}`)
	c.Set(slicesPath+"kubernetes", `{"metadata":{"name":"kubernetes"},"endpoints":[`+list(`{"addresses":["`, `"],"conditions":{"ready":true}}`)+`]}`)
}

// autoscaled is a cluster whose description names a further lease.
type autoscaled struct{ *apitest.Cluster }

func (autoscaled) Settings() framework.Settings {
	return framework.Settings{Elections: map[framework.Component]framework.Election{"cluster-autoscaler": {}}}
}

func TestObservers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.NewInMemory(t, 2)
		setEndpoints(c, "10.0.0.2", "10.0.0.1")
		c.Set(leasesPath+"kube-scheduler", `{"kind":"Lease","metadata":{"name":"kube-scheduler"},"spec":{"holderIdentity":"node-2_0d1f","leaseDurationSeconds":15,"leaseTransitions":3,"renewTime":"2026-01-02T03:04:05.678901Z","acquireTime":null}}`)
		// A further lease, held in a pod.
		c.Set(leasesPath+"cluster-autoscaler", `{"kind":"Lease","metadata":{"name":"cluster-autoscaler"},"spec":{"holderIdentity":"autoscaler-7d"}}`)
		c.Set("/api/v1/namespaces/kube-system/pods/autoscaler-7d", `{"kind":"Pod","spec":{"nodeName":"node-1"}}`)
		type kind struct {
			entrance string
			reused   bool
			kind     record.ProbeKind
		}
		w, read := recording(t)
		o, err := Start(t.Context(), Config{
			Cluster: autoscaled{c}, ProbeInterval: 60 * time.Millisecond, StatusInterval: 100 * time.Millisecond, LeaseInterval: 100 * time.Millisecond, EndpointInterval: 100 * time.Millisecond,
			ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second,
		}, w)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(1500 * time.Millisecond) // a sample of each kind
		o.Stop()
		o.Stop()
		if err := o.Err(); err != nil {
			t.Fatal(err)
		}
		run, probes := read(), map[kind]int{}
		for _, p := range run.Probes {
			if !p.V.OK || p.V.Status != 200 || p.V.End < p.V.Start {
				t.Fatalf("probe %+v", p.V)
			}
			probes[kind{p.V.Entrance, p.V.Reused, p.V.Kind}]++
		}
		if len(probes) != 16 {
			t.Errorf("%d kinds of probes, want 16: %v", len(probes), probes)
		}
		for _, source := range []string{"endpoints", "endpointslice"} {
			if !slices.ContainsFunc(run.Endpoints, func(e record.Timed[record.Endpoints]) bool {
				return e.V.Source == source && e.V.Sample && slices.Equal(e.V.Addresses, []string{"10.0.0.1", "10.0.0.2"})
			}) {
				t.Errorf("no sample of %s: %+v", source, run.Endpoints)
			}
		}
		seen := map[string]record.Lease{}
		for _, l := range run.Leases {
			seen[l.V.Name] = l.V
		}
		if l := seen["kube-scheduler"]; l.HolderNode != "node-2" || l.Holder != "node-2_0d1f" || l.Duration != 15 || l.Transitions != 3 || l.Revision == "" ||
			!l.Renew.Equal(time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)) || !l.Acquire.IsZero() {
			t.Errorf("lease %+v", l)
		}
		if l := seen["cluster-autoscaler"]; l.HolderNode != "node-1" || l.Holder != "autoscaler-7d" {
			t.Errorf("lease held in a pod %+v", l)
		}
		if l, ok := seen["kube-controller-manager"]; !ok || l.Holder != "" {
			t.Errorf("lease that is not there: %t %+v", ok, l)
		}
		if len(run.Harness) == 0 {
			t.Error("no sample of the harness")
		}
	}) // which fails if a goroutine is left
}

func TestStartOnDeadCluster(t *testing.T) {
	c := apitest.New(t, 1)
	c.Server(0).Listener.Close()
	w, _ := recording(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := Start(ctx, Config{Cluster: c}, w); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("error %v", err)
	}
}

// TestUnprepared: a cluster that refuses every write is observed if the caller expects that. A probe
// of an object that does not exist is not taken for an error of the API server.
func TestUnprepared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.NewInMemory(t, 2)
		for i := range 2 {
			c.Server(i).Hook(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodGet {
					return false
				}
				_, _ = io.Copy(io.Discard, r.Body)
				apitest.Fail(w, http.StatusInternalServerError, "InternalError", "etcdserver: mvcc: database space exceeded")
				return true
			})
		}
		w, read := recording(t)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if _, err := Start(ctx, Config{Cluster: c}, w); err == nil {
			t.Error("observers started that cannot write")
		}
		o, err := Start(t.Context(), Config{Cluster: c, ProbeInterval: 60 * time.Millisecond, Unprepared: true}, w)
		if err != nil {
			t.Fatal(err)
		}
		waitFor(t, "write probes", func() bool { return c.Server(0).Count(http.MethodPatch) > 5 && c.Server(1).Count(http.MethodPatch) > 5 })
		o.Stop()
		probes := map[record.ProbeKind]int{}
		for _, p := range read().Probes {
			want := http.StatusNotFound
			switch p.V.Kind {
			case record.ProbeWatch:
				continue // accepted, and without an event
			case record.ProbeWrite:
				want = http.StatusInternalServerError
			}
			if p.V.OK || p.V.Status != want {
				t.Fatalf("probe %+v", p.V)
			}
			probes[p.V.Kind]++
		}
		if len(probes) != 3 {
			t.Errorf("kinds of probes: %v", probes)
		}
	})
}

// TestProbesAreOpenLoop shows that probes continue while none is answered, that no
// more wait than can, and that they fail in time.
func TestProbesAreOpenLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.NewInMemory(t, 1)
		w, read := recording(t)
		o, err := Start(t.Context(), Config{
			Cluster: c, ProbeInterval: 20 * time.Millisecond, ReadTimeout: 300 * time.Millisecond, WriteTimeout: 400 * time.Millisecond,
		}, w)
		if err != nil {
			t.Fatal(err)
		}
		var waiting, most atomic.Int32
		c.Server(0).Hook(func(_ http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, probeNamespace) {
				return false
			}
			n := waiting.Add(1)
			defer waiting.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			_, _ = io.Copy(io.Discard, r.Body) // or the server does not see that the client left
			<-r.Context().Done()
			return true
		})
		hung := w.Now()
		time.Sleep(1500 * time.Millisecond)
		o.Stop()
		failed := map[record.ProbeKind]int{}
		for _, p := range read().Probes {
			if p.V.Start <= hung {
				continue
			}
			limit := 300 * time.Millisecond
			if p.V.Kind == record.ProbeWrite {
				limit = 400 * time.Millisecond
			}
			if p.V.OK || p.V.Error == "" || time.Duration(p.V.End-p.V.Start) < limit-50*time.Millisecond {
				t.Fatalf("probe %+v", p.V)
			}
			failed[p.V.Kind]++
		}
		if failed[record.ProbeQuorumRead] < 10 || failed[record.ProbeWrite] < 5 {
			t.Errorf("failed probes, by kind: %v", failed)
		}
		if most.Load() < 10 || most.Load() > 80 {
			t.Errorf("%d probes waited at once", most.Load())
		}
	})
}

// reporter is a node whose processes a test sets.
type reporter struct {
	mu      sync.Mutex
	process framework.Process
	err     error
	framework.Node
}

func (r *reporter) Name() string                      { return "node-1" }
func (r *reporter) Components() []framework.Component { return []framework.Component{framework.Etcd} }

func (r *reporter) Process(context.Context, framework.Component) (framework.Process, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.process, r.err
}

func (r *reporter) set(p framework.Process, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.process, r.err = p, err
}

type nodesOnly struct {
	framework.Cluster
	nodes []framework.Node
}

func (c nodesOnly) Nodes() []framework.Node { return c.nodes }

// balanced is a cluster whose balancer's process a test sets.
type balanced struct {
	nodesOnly
	*reporter
}

func (balanced) Name() string { return "balanced" }
func (balanced) Entrances() []framework.Entrance {
	return []framework.Entrance{{Name: "balancer", Kind: framework.EntranceBalancer}}
}

func TestProcessOfBalancer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, read := recording(t)
		o := &Observers{cfg: Config{Cluster: balanced{reporter: &reporter{process: framework.Process{PID: 7, State: "S"}}}, StatusInterval: time.Hour}, w: w}
		loops, err := o.balancerProcess(t.Context())
		if err != nil || len(loops) != 1 {
			t.Fatal(loops, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		o.running.Go(func() { loops[0](ctx) })
		time.Sleep(50 * time.Millisecond)
		cancel()
		o.running.Wait()
		all := read().Processes
		if len(all) != 2 || all[0].V.Node != "balancer" || all[0].V.Component != "load-balancer" || all[0].V.PID != 7 {
			t.Errorf("entries %+v", all)
		}
	})
}

func TestProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, read := recording(t)
		r := &reporter{process: framework.Process{PID: 7, State: "S"}}
		o := &Observers{cfg: Config{Cluster: nodesOnly{nodes: []framework.Node{r}}, StatusInterval: 5 * time.Millisecond}, w: w}
		loops, err := o.processes(t.Context())
		if err != nil || len(loops) != 1 {
			t.Fatal(loops, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		o.running.Go(func() { loops[0](ctx) })
		for _, step := range []struct {
			p   framework.Process
			err error
		}{
			{framework.Process{PID: 7, State: "R"}, nil}, // no change
			{framework.Process{PID: 7, State: "T"}, nil},
			{framework.Process{LastExit: "signal: killed"}, nil},
			{framework.Process{}, errors.New("no answer after 1s")},
			{framework.Process{}, errors.New("no answer after 2s")}, // no change
			{framework.Process{PID: 9, State: "R", Restarts: 1}, nil},
		} {
			time.Sleep(100 * time.Millisecond)
			r.set(step.p, step.err)
		}
		time.Sleep(100 * time.Millisecond)
		cancel()
		o.running.Wait()
		var got []string
		for _, p := range read().Processes {
			if p.V.Component == string(framework.NodeAgent) {
				continue // the same
			}
			got = append(got, p.V.State+p.V.LastExit+p.V.Error)
		}
		want := []string{"S", "T", "signal: killed", "no answer after 1s", "R", "R"}
		if !slices.Equal(got, want) {
			t.Errorf("states %q, want %q", got, want)
		}
	})
}
