package judge

import (
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/judges"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// defect returns what a judge finds in the record of a cluster whose baseline has a problem. That is
// something only if the cluster was unhealthy before an experiment that did nothing to it.
func (c *evaluator) defect(check record.Check, problem string) judges.Finding {
	find := judges.Defects(check.Judge)
	broken := len(c.run.Faults)+len(c.run.Nodes)+len(c.run.Changes) > 0 ||
		slices.ContainsFunc(c.run.Meta.Checks, func(one record.Check) bool { return one.Fault != "" })
	if find != nil && c.unhealthy() && !broken {
		if f := find(&facts.Case{Run: c.run, Check: check, Shared: c.shared}); f != nil {
			return *f
		}
	}
	return judges.Inconclusive("%s", problem)
}

// unhealthy reports whether the cluster was not healthy before the experiment.
func (c *evaluator) unhealthy() bool {
	return slices.ContainsFunc(c.run.Steadies, func(s record.Timed[record.Steady]) bool { return s.V.Phase == "before" && !s.V.OK })
}
