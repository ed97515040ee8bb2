// Package suites turns scenarios into Ginkgo specs: one spec a scenario,
// labelled by profile, by area, level and ID of each requirement that it
// settles, and by the faults it injects.
//
// The same specs run under ginkgo or go test, which need user namespaces and
// the binaries that `holdfast fetch kubernetes` puts into the cache:
//
//	go tool ginkgo ./suites/...
//	HOLDFAST_PROFILE=core go test ./suites/...
//
// and inside `holdfast run`.
package suites

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/engine"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/scenarios"
)

// Env is what the specs run with.
type Env struct {
	// Cluster makes the cluster that the specs share. It is called before the
	// first one, and again after one that did not leave the cluster in its
	// steady state. Close ends the cluster that was made last.
	Cluster func(context.Context) (framework.Cluster, error)
	Close   func(context.Context) error
	// Dir gets a record for each scenario, in record/SCENARIO.
	Dir string
	// Run identifies the run, Harness is the version of the program, Provider
	// says who makes the cluster.
	Run, Harness, Provider string
	// Seed is what each scenario's own seed derives from.
	Seed      uint64
	Scenarios []*scenarios.Scenario
	// Again repeats a scenario once that lost verdicts since the machine was
	// overloaded, and keeps its first record in OverloadedDir.
	Again bool
	// Progress is told what happens, one line a step; nil for silence.
	Progress func(string)
	// Begins is called before each scenario, Settled with the verdicts on it and
	// the time that judging took; both may be nil.
	Begins  func(scenario string)
	Settled func(scenario string, results []judge.Result, took time.Duration)
}

// Register declares the specs. Call it once, before Ginkgo runs.
func Register(env *Env) {
	ginkgo.Describe("control plane", func() {
		shared := &shared{env: env}
		ginkgo.AfterAll(func(ctx ginkgo.SpecContext) {
			if err := shared.close(ctx); err != nil {
				ginkgo.Fail(err.Error())
			}
		})
		for _, s := range env.Scenarios {
			ginkgo.It(s.Metadata.Name, Labels(s), func(ctx ginkgo.SpecContext) {
				if shared.broken {
					ginkgo.Skip("no cluster could be made")
				}
				if err := shared.make(ctx); err != nil {
					ginkgo.Fail(err.Error())
				}
				if why := s.NotFor(len(shared.cluster.Nodes())); why != "" {
					ginkgo.Skip("not applicable: " + why)
				}
				if env.Begins != nil {
					env.Begins(s.Metadata.Name)
				}
				steady, err := env.settle(ctx, shared.cluster, s)
				if !steady {
					env.progress(s.Metadata.Name + " has not left the cluster in its steady state: it is given up")
					err = errors.Join(err, shared.close(ctx))
				}
				if err != nil {
					ginkgo.Fail(err.Error())
				}
			})
		}
	}, ginkgo.Ordered, ginkgo.ContinueOnFailure)
}

// shared is the cluster that specs share.
type shared struct {
	env     *Env
	cluster framework.Cluster // nil where there is none now
	broken  bool              // the last one could not be made
}

// make makes a cluster where there is none.
func (s *shared) make(ctx context.Context) error {
	if s.cluster != nil {
		return nil
	}
	c, err := s.env.Cluster(ctx)
	if err != nil {
		s.broken = true
		return err
	}
	s.cluster = c
	return nil
}

func (s *shared) close(ctx context.Context) error {
	if s.cluster == nil || s.env.Close == nil {
		return nil
	}
	s.cluster = nil
	return s.env.Close(ctx)
}

// Labels returns the labels of a scenario's spec.
func Labels(s *scenarios.Scenario) ginkgo.Labels {
	labels := ginkgo.Labels(slices.Clone(s.Spec.Profiles))
	add := func(l string) {
		if l != "" && !slices.Contains(labels, l) {
			labels = append(labels, l)
		}
	}
	for _, r := range s.Spec.Requirements {
		add(r.ID)
		if known, ok := scenarios.RequirementByID(r.ID); ok {
			add(known.Area)
			add(known.Level)
		}
	}
	for _, step := range s.Spec.Timeline {
		if step.Inject != nil {
			add("fault-" + step.Inject.Fault)
		}
	}
	return labels
}

func (env *Env) progress(line string) {
	if env.Progress != nil {
		env.Progress(line)
	}
}

// settle runs a scenario, again where that is wanted. It tells whether the cluster was in
// its steady state afterwards, and returns an error unless every requirement passes.
func (env *Env) settle(ctx context.Context, c framework.Cluster, s *scenarios.Scenario) (steady bool, err error) {
	results, steady, err := env.once(ctx, c, s)
	if env.Again && steady && len(Starved(results)) > 0 {
		env.progress(s.Metadata.Name + " is repeated: the machine was overloaded")
		if err := PutAside(env.Dir, s.Metadata.Name); err != nil {
			return steady, err
		}
		_, steady, err = env.once(ctx, c, s)
	}
	return steady, err
}

func (env *Env) once(ctx context.Context, c framework.Cluster, s *scenarios.Scenario) (results []judge.Result, steady bool, err error) {
	dir := record.Dir(env.Dir, s.Metadata.Name)
	problem := engine.Run(ctx, c, s.Experiment(), engine.Options{Dir: dir, Run: env.Run, Harness: env.Harness,
		Provider: env.Provider, Seed: env.Seed, Progress: func(line string) { env.progress("  " + line) }})
	began := time.Now()
	run, err := record.Read(dir)
	if err != nil {
		return nil, false, errors.Join(problem, err)
	}
	results = judge.Evaluate(run)
	if env.Settled != nil {
		env.Settled(s.Metadata.Name, results, time.Since(began))
	}
	problems := []error{problem}
	for _, r := range results {
		if r.Verdict != judge.Pass && r.Verdict != judge.NotApplicable {
			problems = append(problems, fmt.Errorf("%s: %s: %s", r.Verdict, r.Requirement, r.Sentence))
		}
	}
	return results, LeftAsFound(run, c), errors.Join(problems...)
}

// LeftAsFound tells whether a scenario left a cluster as it found it, so that others may
// follow: by its record the steady state held at last and every fault is proven to be
// healed, and the cluster has the nodes that it had.
func LeftAsFound(run *record.Run, c framework.Cluster) bool {
	n := len(run.Steadies)
	if n == 0 || !run.Steadies[n-1].V.OK || run.Steadies[n-1].V.Phase != "after" {
		return false
	}
	open := map[string]bool{} // injections that something may be left of
	for _, f := range run.Faults {
		open[f.V.ID] = f.V.Missing == "" && (f.V.Phase != record.FaultHealed || !f.V.Proven)
	}
	for _, left := range open {
		if left {
			return false
		}
	}
	var found, has []string
	for _, n := range run.Meta.Nodes {
		found = append(found, n.Name)
	}
	for _, n := range c.Nodes() {
		has = append(has, n.Name())
	}
	slices.Sort(found)
	slices.Sort(has)
	return slices.Equal(found, has)
}

// Run runs the registered specs outside of go test, with Ginkgo's own report on
// standard output, and tells whether all passed.
func Run(env *Env) bool {
	Register(env)
	suite, reporter := ginkgo.GinkgoConfiguration()
	suite.Timeout = 0 // a run takes as long as its scenarios
	reporter.NoColor = true
	reporter.Succinct = true
	return ginkgo.RunSpecs(&failer{}, "holdfast", suite, reporter)
}

// failer takes the place of a *testing.T.
type failer struct{}

func (failer) Fail() {}

// Select returns the scenarios of a profile whose name matches one of the
// globs; no glob matches all.
func Select(all []*scenarios.Scenario, profile string, globs []string) ([]*scenarios.Scenario, error) {
	var chosen []*scenarios.Scenario
	matched := make([]bool, len(globs))
	for _, s := range all {
		match := len(globs) == 0 && s.In(profile)
		for i, g := range globs {
			ok, err := filepath.Match(g, s.Metadata.Name)
			if err != nil {
				return nil, fmt.Errorf("%q is no pattern: %w", g, err)
			}
			match, matched[i] = match || ok, matched[i] || ok
		}
		if match {
			chosen = append(chosen, s)
		}
	}
	if len(chosen) == 0 || slices.Contains(matched, false) {
		var names []string
		for _, s := range all {
			names = append(names, s.Metadata.Name)
		}
		what := "profile " + profile
		if i := slices.Index(matched, false); i >= 0 {
			what = fmt.Sprintf("%q", globs[i])
		}
		return nil, fmt.Errorf("no scenario matches %s; there are: %s", what, strings.Join(names, ", "))
	}
	return chosen, nil
}
