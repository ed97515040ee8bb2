package judge

import "github.com/holdfast-ha/holdfast/framework/judge/internal/judges"

// proven reports whether a violation counts although the run was interrupted. The record is
// whole up to there, the operations that were under way included, whose outcome is then
// unknown; so what no later observation can explain is a violation. A record that was cut
// short lacks those operations, and proves nothing.
func (c *evaluator) proven(d judges.Definition, f judges.Finding) bool {
	return f.Verdict == Fail && d.Lasting && !f.Timed && c.run.Complete && c.run.Problem == ""
}
