package run

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework/engine"
	"github.com/holdfast-ha/holdfast/framework/workload"
	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
	"github.com/holdfast-ha/holdfast/scenarios"
)

// lender is a provider with a cluster to take over.
type lender struct {
	clusters.Provider
	cluster  *apitest.Cluster
	refuse   error
	dir      string // passed by the run
	harmless bool   // as the run says
	closed   int
	asked    int // whether it permits faults
	detached []string
}

func (*lender) Name() string { return "lender" }

func (l *lender) Describe(context.Context, string) (*clusters.Cluster, error) {
	return clusters.Default(), nil
}

func (l *lender) Attach(_ context.Context, _ *clusters.Cluster, o clusters.Options) (clusters.Made, error) {
	if l.dir, l.harmless = o.Dir, o.Harmless; l.refuse != nil {
		return nil, l.refuse
	}
	return lent{l.cluster, l}, nil
}

func (l *lender) Detach(ctx context.Context, c *clusters.Cluster, deleted bool) error {
	if deleted {
		return errors.New("it is to stay")
	}
	l.detached = append(l.detached, c.Metadata.Name)
	return ctx.Err()
}

type lent struct {
	*apitest.Cluster
	lender *lender
}

func (l lent) Permitted(context.Context) error {
	l.lender.asked++
	return l.lender.refuse
}

func (l lent) Close(context.Context) error {
	l.lender.closed++
	return nil
}

// TestTakeOver checks that a taken-over cluster is released without what the run created in it,
// even if the run was interrupted.
func TestTakeOver(t *testing.T) {
	l := &lender{cluster: apitest.New(t, 2)}
	ctx, interrupt := context.WithCancel(t.Context())
	spec := clusters.Default()
	made, err := takeOver(ctx, l, spec, t.TempDir(), false, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := made.cluster.(lent); !ok {
		t.Errorf("scenarios get a %T, and not all that the cluster can do", made.cluster)
	}
	const namespaces = "/api/v1/namespaces/"
	for _, name := range []string{workload.ProbeNamespace, workload.DefaultNamespace, "theirs"} {
		if err := workload.EnsureNamespace(ctx, made.cluster.Entrances(), name); err != nil {
			t.Fatal(err)
		}
	}
	interrupt()
	if err := made.Close(ctx); err != nil || l.closed != 1 {
		t.Fatalf("%v, closed %d times", err, l.closed)
	}
	if _, err := os.Stat(l.dir); l.dir == "" || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was kept of it in %q is still there: %v", l.dir, err)
	}
	for name, there := range map[string]bool{workload.ProbeNamespace: false, workload.DefaultNamespace: false, "theirs": true} {
		if l.cluster.Has(namespaces+name) != there {
			t.Errorf("namespace %s is there: %t", name, !there)
		}
	}
	p := &Plan{Cluster: spec}
	if err := p.LetGo(ctx, l); err != nil || len(l.detached) > 0 {
		t.Errorf("let go of a cluster that was made: %v, %v", l.detached, err)
	}
	p.Attach = true
	if err := p.LetGo(ctx, l); err != nil || len(l.detached) != 1 || l.detached[0] != spec.Metadata.Name {
		t.Errorf("let go of %v: %v", l.detached, err)
	}
}

// TestStopped: after a scenario that did not leave a taken-over cluster in its steady state no
// other one runs, and none while the owner does not permit it.
func TestStopped(t *testing.T) {
	l := &lender{cluster: apitest.New(t, 1)}
	w := &work{provider: l, plan: &Plan{Attach: true}, part: Part{Cluster: clusters.Default()}, cluster: lent{l.cluster, l}}
	if _, err := w.create(t.Context(), func(string) {}); err != nil || l.asked != 1 {
		t.Errorf("%v, the owner was asked %d times", err, l.asked)
	}
	l.refuse = errors.New("a rollout is under way")
	soon, cancel := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, l.refuse)
	defer cancel()
	if _, err := w.create(soon, func(string) {}); !errors.Is(err, l.refuse) {
		t.Errorf("not permitted: %v", err)
	}
	w.stopped = errors.New("not steady")
	if _, err := w.create(t.Context(), func(string) {}); !errors.Is(err, w.stopped) {
		t.Errorf("not steady: %v", err)
	}
}

func TestTakeOverFails(t *testing.T) {
	l := &lender{cluster: apitest.New(t, 1), refuse: errors.New("it is somebody's")}
	if _, err := takeOver(t.Context(), l, clusters.Default(), t.TempDir(), false, func(string) {}); !errors.Is(err, l.refuse) {
		t.Fatal(err)
	}
	if _, err := os.Stat(l.dir); l.dir == "" || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was kept of it in %q is still there: %v", l.dir, err)
	}
	if _, err := takeOver(t.Context(), &maker{}, clusters.Default(), t.TempDir(), false, func(string) {}); err == nil || !strings.Contains(err.Error(), "cannot take over clusters") {
		t.Error(err)
	}
}

// maker is a provider that cannot take over clusters.
type maker struct{ clusters.Provider }

func (*maker) Name() string { return "maker" }

// Close names what it cannot delete, and releases the cluster all the same.
func TestTakeOverLeavesNamespaces(t *testing.T) {
	l := &lender{cluster: apitest.New(t, 1)}
	made, err := takeOver(t.Context(), l, clusters.Default(), t.TempDir(), false, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	l.cluster.Server(0).Hook(func(w http.ResponseWriter, _ *http.Request) bool {
		apitest.Fail(w, http.StatusForbidden, "Forbidden", "not yours")
		return true
	})
	made.limit = 1
	if err := made.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "delete the rest by hand") || l.closed != 1 {
		t.Errorf("%v, closed %d times", err, l.closed)
	}
}

// takeOver leaves an unhealthy cluster unchanged, and releases it, unless the run injects nothing.
func TestTakeOverRefusesUnhealthy(t *testing.T) {
	l := &lender{cluster: apitest.New(t, 2)}
	l.cluster.Server(1).Hook(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/readyz" {
			apitest.Fail(w, http.StatusInternalServerError, "InternalError", "etcd failed")
		}
		return r.URL.Path == "/readyz"
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := takeOver(ctx, l, clusters.Default(), t.TempDir(), false, func(string) {}); err == nil || !strings.Contains(err.Error(), "cluster holdfast is not healthy: ") || l.closed != 1 || l.harmless {
		t.Errorf("%v, closed %d times", err, l.closed)
	}
	made, err := takeOver(t.Context(), l, clusters.Default(), t.TempDir(), true, func(string) {})
	if err != nil || l.closed != 1 || !l.harmless {
		t.Fatalf("a run without faults: %v, closed %d times", err, l.closed)
	}
	if err := made.Close(t.Context()); err != nil || l.closed != 2 {
		t.Errorf("%v, closed %d times", err, l.closed)
	}
}

// TestRefused: a worker reports that a cluster must not be broken, and the run is refused if no scenario
// ran.
func TestRefused(t *testing.T) {
	l := &lender{cluster: apitest.New(t, 1)}
	l.cluster.Server(0).Hook(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/readyz" {
			apitest.Fail(w, http.StatusInternalServerError, "InternalError", "etcd failed")
		}
		return r.URL.Path == "/readyz"
	})
	s := asking("a", 20, scenarios.Topology{})
	s.Spec.Timeline = []engine.Step{{Inject: &engine.Inject{Fault: "kill", Target: "etcd/any", ID: "kill"}}}
	w := &work{provider: l, plan: &Plan{Attach: true, Cluster: clusters.Default(), Scenarios: []*scenarios.Scenario{s}}, part: Part{Cluster: clusters.Default()}, dir: t.TempDir()}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	c, err := w.create(ctx, func(string) {})
	if err != nil || !strings.Contains(c.Refused, "refusing to inject faults into this cluster: cluster holdfast is not healthy") || w.cluster != nil {
		t.Errorf("%+v, %v", c, err)
	}
	if !errors.Is(refusal(c.Refused), clusters.ErrUnsafe) {
		t.Error("the refusal is not one")
	}
	for name, tc := range map[string]struct {
		parts []Part
		want  string
	}{
		"refused":             {[]Part{{refused: true}}, "why"},
		"failed":              {[]Part{{Problem: "why"}}, ""},
		"refused later":       {[]Part{{refused: true, began: true}}, ""},
		"nothing was run":     {nil, ""},
		"resumed and refused": {[]Part{{earlier: true}, {refused: true}}, "why"},
		"resumed and refused after a scenario of the run before": {[]Part{{earlier: true, began: true}, {refused: true}}, "why"},
		"refused, and resumed":                 {[]Part{{earlier: true, refused: true}, {began: true}}, ""},
		"resumed and failed":                   {[]Part{{earlier: true}, {Problem: "why"}}, ""},
		"resumed with nothing left to be done": {[]Part{{earlier: true}}, ""},
	} {
		if got := (&Plan{Parts: tc.parts, Problem: "why"}).Refused(); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// stuck is a cluster that cannot be released.
type stuck struct{ lent }

func (stuck) Close(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

// TestReleaseEnds: releasing a cluster ends, also if it never succeeds.
func TestReleaseEnds(t *testing.T) {
	c := &takenOver{stuck{lent{apitest.New(t, 1), &lender{}}}, func() error { return nil }, cleanUpLimit, time.Millisecond}
	if err := c.Close(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// littering is a provider whose leftovers cannot be deleted.
type littering struct{ clusters.Provider }

func (littering) Name() string { return "littering" }

func (littering) Sweep(context.Context) error { return errors.New("a container is left") }

// TestResumeSweeps: a resumed run reports what is left of an earlier one, also if every scenario is
// settled.
func TestResumeSweeps(t *testing.T) {
	p := New(littering{}, clusters.Default(), nil, 7, "test")
	out := filepath.Join(t.TempDir(), "out")
	if err := os.MkdirAll(out, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Resume(t.Context(), littering{}, out, shown); err != nil || p.Problem != "a container is left" {
		t.Errorf("%q, %v", p.Problem, err)
	}
}

// refuser is a provider with a cluster that must not be broken.
type refuser struct{ clusters.Provider }

func (refuser) Name() string { return "refuser" }

func (refuser) Describe(context.Context, string) (*clusters.Cluster, error) {
	return clusters.Default(), nil
}

func (refuser) Attach(context.Context, *clusters.Cluster, clusters.Options) (clusters.Made, error) {
	return nil, fmt.Errorf("%w: a member is silent", clusters.ErrUnsafe)
}

func (refuser) Detach(context.Context, *clusters.Cluster, bool) error { return nil }

// TestChanges: a resumed run does not mix verdicts on a cluster with those on what it has become.
func TestChanges(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*clusters.Spec)
		want   string
	}{
		"nothing":          {func(*clusters.Spec) {}, ""},
		"a silent server":  {func(s *clusters.Spec) { s.KubernetesVersion, s.Nodes[1].KubernetesVersion = "", "" }, ""},
		"an upgraded node": {func(s *clusters.Spec) { s.Nodes[1].KubernetesVersion = "v1.37.9" }, "Kubernetes on node-2 was v1.37.1 and is v1.37.9"},
		"another etcd":     {func(s *clusters.Spec) { s.EtcdVersion = "v3.6.9" }, "etcd on node-1 was"},
		"fewer nodes":      {func(s *clusters.Spec) { s.Nodes = s.Nodes[:1] }, "the number of nodes was 3 and is 1"},
		"another node":     {func(s *clusters.Spec) { s.Nodes[2].Name = "node-4" }, "node 3 was node-3 and is node-4"},
		"a longer lease": {func(s *clusters.Spec) {
			s.ExtraArgs = clusters.ExtraArgs{"kube-scheduler": {"leader-elect-lease-duration": "30s"}}
		}, "L was 15s and is 30s"},
		"another cluster of its name": {func(s *clusters.Spec) { s.UID = "other" }, "its UID was theirs and is other"},
		"goaway":                      {func(s *clusters.Spec) { s.ExtraArgs = clusters.ExtraArgs{"kube-apiserver": {"goaway-chance": "0.01"}} }, "the goaway chance was 0 and is 0.01"},
		"a longer heartbeat":          {func(s *clusters.Spec) { s.ExtraArgs = clusters.ExtraArgs{"etcd": {"election-timeout": "5000"}} }, "E was 1s and is 5s"},
	} {
		planned, now := clusters.Default(), clusters.Default()
		for _, c := range []*clusters.Cluster{planned, now} {
			c.SetNodes(3)
			c.Spec.KubernetesVersion, c.Spec.UID = "v1.37.1", "theirs"
		}
		tc.change(&now.Spec)
		got, err := changes(planned, now)
		if all := strings.Join(got, "; "); err != nil || (all == "") != (tc.want == "") || !strings.Contains(all, tc.want) {
			t.Errorf("%s: %q, %v, want %q", name, all, err, tc.want)
		}
	}
}

// hesitant is a provider whose cluster does not become healthy until the run is interrupted.
type hesitant struct{ refuser }

func (hesitant) Name() string { return "hesitant" }

func (hesitant) Attach(ctx context.Context, _ *clusters.Cluster, _ clusters.Options) (clusters.Made, error) {
	<-ctx.Done()
	return nil, fmt.Errorf("%w: a member is silent", clusters.ErrUnsafe)
}

// TestTakeOverInterrupted: an interrupt while the cluster is taken over is not a refusal.
func TestTakeOverInterrupted(t *testing.T) {
	s, err := scenarios.Parse("tiny", []byte(tiny))
	if err != nil {
		t.Fatal(err)
	}
	p := New(hesitant{}, clusters.Default(), []*scenarios.Scenario{s}, 7, "test")
	p.Attach = true
	if err := p.Divide(hesitant{}, 1); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := p.CarryOut(ctx, hesitant{}, filepath.Join(t.TempDir(), "out"), shown); err != nil || p.Refused() != "" || !strings.HasSuffix(p.Problem, "interrupted") {
		t.Errorf("%v, refused: %q, problem: %q", err, p.Refused(), p.Problem)
	}
}

// TestResumeRefused: a run that is refused is also refused when it is resumed.
func TestResumeRefused(t *testing.T) {
	s, err := scenarios.Parse("tiny", []byte(tiny))
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	p := New(refuser{}, clusters.Default(), []*scenarios.Scenario{s}, 7, "test")
	p.Attach = true
	if err := p.Divide(refuser{}, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := p.CarryOut(t.Context(), refuser{}, out, shown); err != nil || !strings.Contains(p.Refused(), "a member is silent") {
		t.Fatalf("%v, refused: %q", err, p.Refused())
	}
	for range 2 {
		if p, err = Load(out); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Resume(t.Context(), refuser{}, out, shown); err != nil || !strings.Contains(p.Refused(), "a member is silent") {
			t.Errorf("resumed: %v, refused: %q", err, p.Refused())
		}
	}
}
