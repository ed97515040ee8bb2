package suites

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gofrs/flock"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/redact"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// onCluster runs the specs of one container, on a cluster of their own.
type onCluster struct {
	suite *suite
	part  *run.Part
	host  *run.Host
	slot  *flock.Flock // nil if there is only one process
	left  string       // problems to report beside the verdicts, such as a cluster that could not be deleted
}

// create creates the cluster before the first spec of the container, or takes it over. The suite
// deletes or releases it after the last spec, or when it is interrupted.
func (on *onCluster) create(ctx ginkgo.SpecContext) {
	s := on.suite
	on.host = s.plan.Host(s.provider, s.dir, on.part, func(line string) { ginkgo.By(strings.TrimSpace(line)) })
	var err error
	on.slot, err = s.takeSlot(ctx)
	if err == nil {
		ginkgo.DeferCleanup(on.delete, patience)
		err = s.beside(ctx, func() error { return on.host.Create(ctx) })
	}
	on.part.Problem = on.left
	if err != nil {
		on.part.Problem = redact.New().Text(err.Error())
		gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred(), "failed to "+s.verb("create", "take over")+" the cluster")
	}
}

func (on *onCluster) delete(ctx ginkgo.SpecContext) {
	s := on.suite
	err := errors.Join(on.host.Close(ctx), s.plan.LetGo(ctx, s.provider))
	if on.slot != nil {
		_ = on.slot.Close()
	}
	if err != nil { // which does not fail a spec that was skipped: see report
		on.note(redact.New().Text(err.Error()))
	}
	gomega.Expect(s.note(on.part)).To(gomega.Succeed())
	gomega.Expect(err).NotTo(gomega.HaveOccurred(), "failed to "+s.verb("delete", "release")+" the cluster")
}

// verb returns what the suite does to a cluster of its own, or to one that it takes over.
func (s *suite) verb(own, attached string) string {
	if s.plan.Attach {
		return attached
	}
	return own
}

// note adds a problem to those that the report shows.
func (on *onCluster) note(problem string) {
	if !strings.Contains(on.left, problem) {
		on.left = strings.TrimPrefix(on.left+"; "+problem, "; ")
	}
	on.part.Problem = on.left
}

// spec runs a scenario and reports its verdicts: those on its record, which may be whole even if the
// worker died later, or the cluster could not be deleted.
func (on *onCluster) spec(ctx ginkgo.SpecContext, scenario string) {
	s := on.suite
	created := false
	once := func() error {
		// A cluster that a scenario spoiled was deleted; one that was taken over is not used again.
		err := on.host.Create(ctx)
		if created = err == nil; created {
			_, err = on.host.Run(ctx, scenario)
		}
		return err
	}
	beside := func() error { return s.beside(ctx, once) }
	var err error
	if ginkgo.CurrentSpecReport().NumAttempts > 1 { // --flake-attempts, --repeat of the spec
		if run.Failed(s.settled(scenario).Results) {
			on.note("a requirement failed in an earlier attempt of " + scenario)
		}
		err = s.repeated(scenario, run.EarlierDir, beside)
	} else {
		err = beside()
	}
	settled := s.settled(scenario)
	if err == nil && ctx.Err() == nil && !s.plan.Attach && len(run.Starved(settled.Results)) > 0 {
		ginkgo.By("the machine was overloaded: the scenario is repeated alone")
		err = s.repeated(scenario, run.OverloadedDir, func() error { return s.alone(ctx, once) })
		settled = s.settled(scenario)
	}
	switch why := redact.New().Text(fmt.Sprint(err)); {
	case err == nil:
	case run.Failed(settled.Results):
		on.note(why)
	case ctx.Err() == nil && s.plan.Attach && !created:
		on.note(why)
		ginkgo.Skip(inconclusive + why)
	default:
		gomega.Expect(err).NotTo(gomega.HaveOccurred(), "failed to run the scenario")
	}
	s.proofs(scenario)
	verdicts(settled)
}

// repeated repeats a scenario. Its record is put aside, and comes back unless the repetition leaves a
// whole one, or one in which a requirement failed.
func (s *suite) repeated(scenario, aside string, again func() error) error {
	if err := run.PutAside(s.dir, scenario, aside); err != nil {
		return err
	}
	return errors.Join(again(), s.plan.Restore(s.dir, scenario, aside, s.options.Judges...))
}

// settled judges the record of a scenario.
func (s *suite) settled(scenario string) run.Settled {
	one, err := s.plan.Scenario(scenario)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	results, seen := s.plan.JudgeScenario(s.dir, one, s.options.Judges...)
	settled := run.Settled{Scenario: scenario, Results: results}
	if seen != nil {
		settled.Problem = seen.End.Error
	}
	return settled
}

// proofs adds the effects of faults to the report.
func (s *suite) proofs(scenario string) {
	seen, err := record.Read(record.Dir(s.dir, scenario))
	if err != nil {
		return // the verdicts say so
	}
	for _, f := range seen.Faults {
		proof := "not proven"
		if f.V.Proven {
			proof = "proven"
		}
		ginkgo.AddReportEntry(fmt.Sprintf("fault %s: %s on %s, %s", f.V.ID, f.V.Name, f.V.Target, f.V.Phase),
			cmp.Or(f.V.Missing, f.V.Error, proof+": "+f.V.Proof), ginkgo.ReportEntryVisibilityFailureOrVerbose)
	}
}

// verdicts ends a spec according to the verdicts. Each failed requirement is a failure.
func verdicts(settled run.Settled) {
	by := map[judge.Verdict][]judge.Result{}
	for _, r := range settled.Results {
		ginkgo.AddReportEntry(fmt.Sprintf("%s %s, %s", r.Requirement, r.Verdict, r.Judge), cmp.Or(r.Sentence, r.Measured), ginkgo.ReportEntryVisibilityFailureOrVerbose)
		by[r.Verdict] = append(by[r.Verdict], r)
	}
	for i, r := range by[judge.Fail] {
		fail := func() { ginkgo.Fail(sentences([]judge.Result{r})) }
		if i < len(by[judge.Fail])-1 { // a failure ends its node
			ginkgo.DeferCleanup(fail)
			continue
		}
		fail()
	}
	switch {
	case settled.Problem != "":
		ginkgo.Skip(inconclusive + settled.Problem)
	case len(by[judge.Inconclusive]) > 0:
		ginkgo.Skip(inconclusive + sentences(by[judge.Inconclusive]))
	case slices.ContainsFunc(settled.Results, run.Own) && !slices.ContainsFunc(by[judge.Pass], run.Own):
		ginkgo.Skip("not applicable: " + sentences(by[judge.NotApplicable]))
	}
}

// inconclusive is the prefix of a skip's reason if the spec must not count as passed.
const inconclusive = "inconclusive: "

func sentences(results []judge.Result) string {
	return strings.Join(framework.Names(results, func(r judge.Result) string { return r.Requirement + ": " + r.Sentence }), "\n")
}

// beside calls f while other processes of the suite may also do so.
func (s *suite) beside(ctx context.Context, f func() error) error {
	return s.locked(ctx, (*flock.Flock).TryRLockContext, f)
}

// alone calls f while no other process of the suite runs a scenario or creates a cluster.
func (s *suite) alone(ctx context.Context, f func() error) error {
	return s.locked(ctx, (*flock.Flock).TryLockContext, f)
}
