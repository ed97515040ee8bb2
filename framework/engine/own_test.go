package engine

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// eclipse returns a program's own fault, whose Prepare may fail and which may have no effect.
func eclipse(refusal error, dim bool) *fault.Fault {
	return &fault.Fault{Name: "eclipse", Summary: "darkens a node", Targets: []string{"node"},
		Effects: func(map[string]string) []record.Effect { return []record.Effect{record.EffectDown} },
		Prepare: func(r fault.Request) (fault.Inject, error) {
			return func(context.Context) (fault.Injection, error) {
				now := time.Now()
				return eclipsed{r.Target, fault.Proof{Proven: !dim, What: "it is dark", Called: now, Effect: now}}, nil
			}, refusal
		}}
}

type eclipsed struct {
	target fault.Target
	proof  fault.Proof
}

func (e eclipsed) Target() fault.Target { return e.target }

func (e eclipsed) Proof() fault.Proof { return e.proof }

func (e eclipsed) Heal(context.Context) (fault.Proof, error) {
	now := time.Now()
	return fault.Proof{Proven: true, What: "it is light", Called: now, Effect: now}, nil
}

// lasted is a judge of a user's own.
func lasted(limit time.Duration) judge.Judge {
	return judge.Judge{Doc: judge.Doc{Name: "lasted", NeedsFault: true}, Evaluate: func(c *judge.Case) judge.Finding {
		took := time.Duration(c.Fault.To() - c.Fault.From())
		if took > limit {
			// Without Took: on a busy machine the verdict would be inconclusive.
			return judge.Finding{Verdict: judge.Fail, Sentence: c.Fault.String() + " lasted too long", Measured: took.String()}
		}
		return judge.Finding{Verdict: judge.Pass, Sentence: c.Fault.String() + " was short", Took: took}
	}}
}

// A fault and a judge of a user's own take part as the built-in ones do.
func TestOwnFaultAndJudge(t *testing.T) {
	for _, test := range []struct {
		name  string
		fault *fault.Fault
		judge judge.Judge
		want  judge.Verdict
		says  string
	}{
		{"kept", eclipse(nil, false), lasted(time.Minute), judge.Pass, "eclipse of node-2 was short"},
		{"broken", eclipse(nil, false), lasted(time.Millisecond), judge.Fail, "eclipse of node-2 lasted too long"},
		{"no effect", eclipse(nil, true), lasted(time.Minute), judge.Inconclusive, "had no proof of effect: it is dark"},
		{"ability missing", eclipse(&fault.MissingAbility{Ability: "Sun", Of: "cluster fake", For: "fault eclipse"}, false), lasted(time.Minute), judge.NotApplicable, "needs the ability Sun"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				e := Experiment{Name: "own", Traffic: Traffic{Off: true},
					Timeline: []Step{{Inject: &Inject{ID: "dark", Fault: "eclipse", Target: "node/2"}}, {Wait: "100ms"}, {Heal: "dark"}},
					Checks:   []record.Check{{Requirement: "OWN-1", Level: "MUST", Judge: "lasted", Fault: "dark"}}}
				own := Options{Dir: dir, Faults: []*fault.Fault{test.fault}, Judges: []judge.Judge{test.judge}}
				if err := Run(t.Context(), newFake(t), e, own); err != nil {
					t.Fatal(err)
				}
				run, err := record.Read(dir)
				if err != nil {
					t.Fatal(err)
				}
				if injected := run.Faults[0].V; injected.Phase == record.FaultInjected && !injected.Has(record.EffectDown) {
					t.Errorf("its effects are not in the record: %+v", injected)
				}
				if r := judge.Evaluate(run, test.judge)[0]; r.Verdict != test.want || !strings.Contains(r.Sentence, test.says) {
					t.Errorf("%+v", r)
				}
				if r := judge.Evaluate(run)[0]; r.Verdict != judge.Inconclusive {
					t.Errorf("without the judge: %+v", r)
				}
			})
		})
	}
}

// The steps of a fault are in the record, also those that it makes on several nodes at once.
func TestStepsOfFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dusk := eclipse(nil, false)
		dark := dusk.Prepare
		dusk.Prepare = func(r fault.Request) (fault.Inject, error) {
			inject, err := dark(r)
			return func(ctx context.Context) (fault.Injection, error) {
				err := framework.Each([]string{"node-1", "node-2", "node-3"}, func(node string) error {
					return framework.DoStep(ctx, node, "darken", func(context.Context) (string, error) { return "it is dark", nil })
				})
				if err != nil {
					return nil, err
				}
				return inject(ctx)
			}, err
		}
		run, err := carryOut(t.Context(), t, newFake(t), Options{Faults: []*fault.Fault{dusk}},
			Step{Inject: &Inject{ID: "dark", Fault: "eclipse", Target: "node/2"}}, Step{Heal: "dark"})
		if err != nil {
			t.Fatal(err)
		}
		nodes := map[string]bool{}
		for _, s := range run.Steps {
			if s.V.Change == "dark" && s.V.Name == "darken" && s.V.Proof == "it is dark" && s.V.Done >= s.V.Began {
				nodes[s.V.Node] = true
			}
		}
		if len(run.Steps) != 3 || len(nodes) != 3 {
			t.Errorf("%+v", run.Steps)
		}
	})
}

// What is not in the options is unknown.
func TestRunRefusesUnknownNames(t *testing.T) {
	e := Experiment{Name: "own", Timeline: []Step{{Inject: &Inject{ID: "dark", Fault: "eclipse", Target: "node/2"}}},
		Checks: []record.Check{{Requirement: "OWN-1", Judge: "lasted", Fault: "dark"}}}
	for _, test := range []struct {
		own  Options
		says string
	}{
		{Options{Judges: []judge.Judge{lasted(0)}}, `"eclipse" is not a fault`},
		{Options{Faults: []*fault.Fault{eclipse(nil, false)}}, `"lasted" is not a judge`},
	} {
		test.own.Dir = t.TempDir()
		if err := Run(t.Context(), &fakeCluster{}, e, test.own); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%v, want …%s…", err, test.says)
		}
	}
}
