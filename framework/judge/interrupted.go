package judge

import "github.com/holdfast-ha/holdfast/framework/judge/internal/judges"

// proven reports whether a violation counts although the run was interrupted. The record is
// complete up to there, including the operations in flight, whose outcome is then unknown; so a
// violation counts if no later observation can explain it. A truncated record does not have those
// operations, and proves nothing.
func (c *evaluator) proven(d judges.Definition, f judges.Finding) bool {
	return f.Verdict == Fail && d.Lasting && !f.Timed && c.run.Complete && c.run.Problem == ""
}
