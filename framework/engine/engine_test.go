package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload"
	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
)

func kill(id, node string) Step {
	return Step{Inject: &Inject{ID: id, Fault: "kill", Target: "scheduler/" + node}}
}

// carryOut runs a timeline on a cluster, without long pauses, and returns its
// record.
func carryOut(ctx context.Context, t *testing.T, c framework.Cluster, o Options, steps ...Step) (*record.Run, error) {
	t.Helper()
	o.Dir, o.Run, o.Seed, o.Progress = t.TempDir(), "test", 7, func(s string) { t.Log(s) }
	e := Experiment{Name: "test", Timeline: steps, ProbeInterval: 500 * time.Millisecond,
		Traffic: Traffic{Settings: workload.Settings{Registers: workload.RegisterSettings{ClientsPerEntrance: 1, Interval: time.Second}}},
		Checks:  []record.Check{{Requirement: "HA-TOP-001", Judge: "etcd-membership"}}}
	problem := Run(ctx, c, e, o)
	run, err := record.Read(o.Dir)
	if err != nil {
		t.Fatal(problem, err)
	}
	return run, problem
}

func phases(run *record.Run) (names []string) {
	for _, p := range run.Phases {
		names = append(names, p.V.Name)
	}
	return names
}

// faults writes the record's faults as "ID phase proven".
func faults(run *record.Run) (all []string) {
	for _, f := range run.Faults {
		proven := "unproven"
		if f.V.Proven {
			proven = "proven"
		}
		all = append(all, f.V.ID+" "+string(f.V.Phase)+" "+proven)
	}
	return all
}

func contains(list []string, parts ...string) bool {
	return slices.ContainsFunc(list, func(s string) bool {
		for _, p := range parts {
			if !strings.Contains(s, p) {
				return false
			}
		}
		return true
	})
}

func TestRun(t *testing.T) {
	t.Parallel()
	c := newStacked(t)
	run, err := carryOut(t.Context(), t, c, Options{Provider: "fake", Harness: "v0"},
		Step{Action: &Action{Name: "ready"}},
		kill("a", "node-1"),
		Step{Wait: "20ms"},
		kill("b", "node-2"),
		Step{Heal: "a"},
		Step{Heal: "b"},
		Step{Until: &Until{Condition: "steady", AtMost: "2E + M"}},
	)
	if err != nil || !run.Complete || run.End.Error != "" {
		t.Fatal(err, run.Problem, run.End)
	}
	m := run.Meta
	if m.Seed != SeedOf(7, "test") || m.Scenario != "test" || m.Provider != "fake" || m.Settings["E"] != time.Second || len(m.Nodes) != 3 || len(m.Checks) != 1 {
		t.Errorf("meta: %+v", m)
	}

	// The steps are there, in order; recovery is measured immediately after the last healing, not
	// between the two, and again at the end since a step followed it: then no component has to start any more.
	want := []string{"baseline", "action ready", "inject kill on scheduler/node-1 as a", "wait 20ms",
		"inject kill on scheduler/node-2 as b", "heal a", "heal b", "recovery, limit 14s", "until steady, at most 2E + M",
		"recovery, limit 4s", "final reads"}
	if got := phases(run); !slices.Equal(got, want) {
		t.Errorf("phases:\n got %q\nwant %q", got, want)
	}
	wantFaults := []string{"a injected proven", "b injected proven", "a healed proven", "b healed proven"}
	if got := faults(run); !slices.Equal(got, wantFaults) {
		t.Errorf("faults: %q", got)
	}
	for _, f := range run.Faults {
		if f.V.Effect < f.V.Called || f.V.Node == "" || f.V.Component != "kube-scheduler" || f.V.Proof == "" {
			t.Errorf("%+v", f.V)
		}
	}
	if down := c.down(); len(down) > 0 {
		t.Errorf("left down: %v", down)
	}
	// The fault outlives the rest of the timeline by far.
	if c.nodes[0].hold < spare+2*healLimit {
		t.Errorf("time to live %s", c.nodes[0].hold)
	}
	if len(run.Steadies) != 3 || run.Steadies[0].V.Phase != "before" || !run.Steadies[2].V.OK {
		t.Errorf("steadies: %+v", run.Steadies)
	}
	if len(run.Ops) == 0 || len(run.Probes) == 0 {
		t.Error("no traffic or no probes in the record")
	}
	if final := slices.IndexFunc(run.Ops, func(o record.Timed[record.Op]) bool { return o.V.Purpose == "final-read" }); final < 0 {
		t.Error("no final read in the record")
	}
}

// A step that heals two does so at the same time: each of them waits for the other one.
func TestHealTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFake(t)
		met := make(chan struct{})
		for i, n := range c.nodes[:2] {
			n.starts = func() {
				mine, other := met, (<-chan struct{})(nil)
				if i == 0 {
					mine, other = nil, met
				}
				select {
				case mine <- struct{}{}:
				case <-other:
				case <-time.After(10 * time.Second):
					t.Errorf("nothing else is healed while %s is", n.Name())
				}
			}
		}
		run, err := carryOut(t.Context(), t, c, Options{}, kill("a", "node-1"), kill("b", "node-2"), Step{Heal: "a, b"})
		if err != nil || len(c.down()) > 0 {
			t.Fatal(err, c.down())
		}
		if got := faults(run); !contains(got, "a healed proven") || !contains(got, "b healed proven") || len(got) != 4 {
			t.Errorf("faults: %q", got)
		}
		if got := phases(run); !contains(got, "heal a, b") || !contains(got, "recovery, limit 14s") {
			t.Errorf("phases: %q", got)
		}
	})
}

// What a timeline leaves broken is healed at the end.
func TestHealAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFake(t)
		run, err := carryOut(t.Context(), t, c, Options{}, kill("a", "node-1"), kill("b", "node-2"))
		if err != nil || len(c.down()) > 0 {
			t.Fatal(err, c.down())
		}
		for _, id := range []string{"a", "b"} {
			if !contains(faults(run), id+" healed proven") {
				t.Errorf("%s: %q", id, faults(run))
			}
		}
	})
}

// An interrupt still heals, and the record says that it is incomplete.
func TestInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFake(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			for len(c.down()) == 0 {
				time.Sleep(time.Millisecond)
			}
			cancel(errors.New("Ctrl-C"))
		}()
		began := time.Now()
		run, err := carryOut(ctx, t, c, Options{}, kill("a", "node-1"), Step{Wait: "1h"})
		if err == nil || !strings.Contains(err.Error(), "Ctrl-C") || time.Since(began) > time.Minute {
			t.Fatal(err, time.Since(began))
		}
		if !run.Complete || !strings.Contains(run.End.Error, "interrupted") {
			t.Errorf("end: %+v, complete %t", run.End, run.Complete)
		}
		if !contains(faults(run), "a healed proven") || len(c.down()) > 0 {
			t.Errorf("%q; down: %v", faults(run), c.down())
		}
	})
}

// A panic heals before it continues: the caller may recover and continue with the cluster.
func TestPanicHeals(t *testing.T) {
	t.Parallel()
	c := newFake(t)
	o := Options{Dir: t.TempDir(), Run: "test", Before: func(_ context.Context, step int, _ *record.Writer) error {
		if step == 1 {
			panic("a defect")
		}
		return nil
	}}
	e := Experiment{Name: "test", Timeline: []Step{kill("a", "node-1"), {Wait: "1h"}}, Traffic: Traffic{Off: true},
		Checks: []record.Check{{Requirement: "HA-TOP-001", Judge: "etcd-membership"}}}
	func() {
		defer func() {
			if p := recover(); p != "a defect" {
				t.Errorf("recovered %v", p)
			}
		}()
		_ = Run(t.Context(), c, e, o)
	}()
	if len(c.down()) > 0 {
		t.Errorf("down: %v", c.down())
	}
}

// A fault without proof, or one that could not be injected, is recorded; the rest of the timeline
// is left out, and the record is complete.
func TestUnproven(t *testing.T) {
	for _, test := range []struct {
		name      string
		prepare   func(*fakeNode)
		want      string
		untouched bool
	}{
		{"inert", func(n *fakeNode) { n.inert = true }, "a injected unproven", false},
		{"down already", func(n *fakeNode) { n.pid = 0 }, "a injected unproven", false},
		{"failed", func(n *fakeNode) { n.refuse = errors.New("no") }, "a failed unproven", false},
		{"refused", func(n *fakeNode) { n.refuse = framework.ErrNothingDone }, "a failed unproven", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFake(t)
				test.prepare(c.nodes[0])
				run, err := carryOut(t.Context(), t, c, Options{}, kill("a", "node-1"), Step{Wait: "1h"})
				if err != nil || !run.Complete || run.End.Error != "" {
					t.Fatal(err, run.End)
				}
				if !contains(faults(run), test.want) || contains(phases(run), "wait 1h") {
					t.Errorf("%q, %q", faults(run), phases(run))
				}
				if f := run.Faults[0].V; f.Untouched != test.untouched {
					t.Errorf("untouched: %t", f.Untouched)
				}
				if last := run.Steadies[len(run.Steadies)-1].V; last.Phase != "after" {
					t.Errorf("no steady state after: %+v", run.Steadies)
				}
			})
		})
	}
}

// If the cluster lacks what a later injection needs, nothing is injected at all, and every check
// about an injection is not applicable.
func TestForesee(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFake(t)
		run, err := carryOut(t.Context(), t, c, Options{},
			Step{Action: &Action{Name: "ready"}},
			kill("a", "node-1"),
			Step{Heal: "a"},
			Step{Inject: &Inject{ID: "b", Fault: "freeze", Target: "scheduler/node-2"}},
			Step{Heal: "b"},
		)
		if err != nil || !run.Complete || run.End.Error != "" {
			t.Fatal(err, run.End)
		}
		if got := faults(run); len(got) != 1 || !strings.HasPrefix(got[0], "b failed") || run.Faults[0].V.Missing != "Freezer" || run.Faults[0].V.Node != "node-2" {
			t.Errorf("recorded %q, %+v", got, run.Faults)
		}
		if c.nodes[0].killed > 0 || !contains(phases(run), "action ready") || contains(phases(run), "heal a") {
			t.Errorf("%d kills; %q", c.nodes[0].killed, phases(run))
		}
		run.Meta.Checks = []record.Check{{Requirement: "HA-LE-002", Judge: "takeover", Fault: "a", Bound: "L"}, {Requirement: "HA-LE-010", Judge: "active-again", Fault: "b", Bound: "R"}}
		for _, result := range judge.Evaluate(run)[:2] {
			if result.Verdict != judge.NotApplicable || !strings.Contains(result.Sentence, "Freezer") {
				t.Errorf("%s: %s: %s", result.Requirement, result.Verdict, result.Sentence)
			}
		}
	})
}

// Healing that does not work is recorded, and does not hide the rest.
func TestHealFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFake(t)
		c.nodes[0].stubborn = true
		run, err := carryOut(t.Context(), t, c, Options{}, kill("a", "node-1"), kill("b", "node-2"), Step{Heal: "a"}, Step{Heal: "b"})
		if err != nil {
			t.Fatal(err)
		}
		got := faults(run)
		if !contains(got, "a failed") || !contains(got, "b healed proven") {
			t.Errorf("%q", got)
		}
		tried := 0
		for _, f := range got {
			if strings.HasPrefix(f, "a failed") {
				tried++
			}
		}
		if tried != 2 {
			t.Errorf("%d attempts to heal, want a second one at the end: %q", tried, got)
		}
	})
}

// An existing cluster that did not recover from one fault is not broken further.
func TestDamaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for existing, kills := range map[bool]int{true: 0, false: 1} {
			c := newFake(t)
			c.nodes[0].stubborn = true
			run, err := carryOut(t.Context(), t, c, Options{Existing: existing}, kill("a", "node-1"), Step{Heal: "a"}, kill("b", "node-2"))
			if err != nil || !run.Complete || run.End.Error != "" {
				t.Fatal(err, run.End)
			}
			if c.nodes[1].killed != kills || contains(phases(run), "nothing more is broken: the healing of a is not proven") != existing {
				t.Errorf("existing %t: %d kills; %q", existing, c.nodes[1].killed, phases(run))
			}
		}
	})
}

// lapsing is a cluster that heals faults early.
type lapsing struct{ *fakeCluster }

func (lapsing) Lapsed(_ context.Context, since time.Time) string {
	if time.Since(since) > time.Minute {
		return "" // it was before
	}
	return "node-1 had healed it before"
}

// A fault that the cluster healed before the harness did has no proof of its healing, so that
// nothing is concluded from how the cluster bore it. What the cluster gives no access to is in
// the record.
func TestLapsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run, err := carryOut(t.Context(), t, lapsing{newFake(t)}, Options{}, kill("a", "node-1"), Step{Heal: "a"})
		if err != nil {
			t.Fatal(err)
		}
		if got := faults(run); !contains(got, "a healed unproven") || run.Faults[len(run.Faults)-1].V.Proof != "node-1 had healed it before" {
			t.Errorf("%q", got)
		}
		if got := run.Meta.NoAccess; !slices.Equal(got, []record.Access{record.AuditLogs, record.EtcdMembers}) {
			t.Errorf("no access to %q", got)
		}
	})
}

// audited is a node with an audit log, or with a reason why it has none.
type audited struct {
	*fakeNode
	none error
}

func (audited) FollowAudit(context.Context, func([]byte)) error { return nil }

func (n audited) AuditSupport() error { return n.none }

func (audited) Process(context.Context, framework.Component) (framework.Process, error) {
	return framework.Process{}, nil
}

// withoutEtcd is a node of a cluster whose etcd is elsewhere.
type withoutEtcd struct{ audited }

func (withoutEtcd) Components() []framework.Component {
	return []framework.Component{framework.APIServer, framework.Scheduler}
}

// etcdHost is a host of that etcd.
type etcdHost struct{ audited }

func (etcdHost) Components() []framework.Component { return []framework.Component{framework.Etcd} }

type ofNodes struct {
	*stackedCluster
	nodes []framework.Node
}

func (c ofNodes) Nodes() []framework.Node { return c.nodes }

func TestNoAccess(t *testing.T) {
	for _, tc := range []struct {
		name  string
		nodes []framework.Node
		want  []record.Access
	}{
		{"all", []framework.Node{audited{}, audited{}}, nil},
		{"one without an audit log", []framework.Node{audited{}, audited{none: errors.New("off")}}, []record.Access{record.AuditLogs}},
		{"etcd on one", []framework.Node{withoutEtcd{}, audited{}}, nil},
		{"etcd elsewhere", []framework.Node{withoutEtcd{}, withoutEtcd{}}, []record.Access{record.EtcdMembers}},
		{"etcd on hosts of its own, which write no audit logs", []framework.Node{withoutEtcd{}, etcdHost{audited{none: errors.New("no API server")}}}, nil},
		{"an API server without an audit log beside them", []framework.Node{withoutEtcd{audited{none: errors.New("off")}}, etcdHost{}}, []record.Access{record.AuditLogs}},
		{"nothing", []framework.Node{struct{ framework.Node }{&fakeNode{}}}, []record.Access{record.AuditLogs, record.Processes}},
	} {
		if got := noAccess(ofNodes{&stackedCluster{}, tc.nodes}); !slices.Equal(got, tc.want) {
			t.Errorf("%s: no access to %q, want %q", tc.name, got, tc.want)
		}
	}
}

// noWay is a cluster without an entrance, which is unhealthy immediately.
type noWay struct{ *stackedCluster }

func (noWay) Entrances() []framework.Entrance { return nil }

// An unhealthy cluster is left alone, and the record says why.
func TestBaseline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake(apitest.NewInMemory(t, 1))
		run, err := carryOut(t.Context(), t, noWay{&stackedCluster{fakeCluster: c}}, Options{}, kill("a", "node-1"))
		if err != nil || !run.Complete || run.End.Error != "" {
			t.Fatal(err, run.End)
		}
		if len(run.Steadies) != 1 || run.Steadies[0].V.OK || len(run.Steadies[0].V.Problems) == 0 {
			t.Errorf("%+v", run.Steadies)
		}
		if len(run.Faults) > 0 || len(run.Ops) > 0 || c.nodes[0].killed > 0 {
			t.Error("something was done to an unhealthy cluster")
		}
	})
}

func TestRunRefuses(t *testing.T) {
	c := &fakeCluster{}
	dir := t.TempDir()
	if err := Run(t.Context(), c, Experiment{Timeline: []Step{{}}}, Options{Dir: dir, Run: "x"}); err == nil {
		t.Error("a bad experiment was accepted")
	}
	if _, err := record.Read(dir); err == nil {
		t.Error("a bad experiment left a record")
	}
}

// Each experiment has a seed of its own, the same in every run of that seed.
func TestSeed(t *testing.T) {
	first, again := SeedOf(1, "a"), SeedOf(1, "a")
	if first != again || SeedOf(1, "a") == SeedOf(1, "b") || SeedOf(1, "a") == SeedOf(2, "a") {
		t.Error("seeds repeat or do not")
	}
}

// A cluster that cannot run the application is broken before any fault: nothing is done to it,
// and the record says so.
func TestApplicationDoesNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, dir := newFake(t), t.TempDir() // without controllers
		c.Set("/api/v1/nodes/worker-1", `{"kind":"Node","metadata":{"name":"worker-1"},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
		e := Experiment{Name: "test", Timeline: []Step{kill("a", "node-1")},
			Traffic: Traffic{Settings: workload.Settings{Profiles: []string{workload.ProfileApplication},
				Application: workload.ApplicationSettings{StartLimit: 5 * time.Second}}},
			Checks: []record.Check{{Requirement: "HA-WL-003", Level: "MUST", Judge: "application-follows", Bound: "1s"},
				{Requirement: "HA-DC-001", Level: "MUST", Judge: "linearizable"}}}
		problem := Run(t.Context(), c, e, Options{Dir: dir, Run: "test", Progress: func(s string) { t.Log(s) }})
		run, err := record.Read(dir)
		if err != nil || problem != nil || !run.Complete || run.End.Error != "" {
			t.Fatal(problem, err)
		}
		const says = "the application does not run after 5s: catalog-"
		last := run.Steadies[len(run.Steadies)-1].V
		if last.OK || last.Phase != record.SteadyApplication || !strings.Contains(strings.Join(last.Problems, ""), says) {
			t.Errorf("steady states %+v", run.Steadies)
		}
		if got := phases(run); !slices.Equal(got, []string{"baseline"}) || len(run.Faults) > 0 || len(run.Objects) == 0 {
			t.Errorf("phases %q, faults %q", got, faults(run))
		}
		for i := range run.Harness { // the machine may be busy with other tests
			run.Harness[i].V = record.Harness{}
		}
		results := judge.Evaluate(run)
		if r := results[0]; r.Verdict != judge.Fail || !strings.Contains(r.Sentence, "an application must come up") {
			t.Errorf("%s: %s", r.Verdict, r.Sentence)
		}
		if r := results[1]; r.Verdict != judge.Inconclusive || !strings.Contains(r.Sentence, says) {
			t.Errorf("%s: %s", r.Verdict, r.Sentence)
		}
		for _, o := range run.Objects {
			if o.V.Kind == record.ObjectDeployment && c.Has("/apis/apps/v1/namespaces/"+workload.ApplicationNamespace+"/deployments/"+o.V.Name) {
				t.Errorf("Deployment %s is left", o.V.Name)
			}
		}
	})
}
