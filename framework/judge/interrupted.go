package judge

import "github.com/holdfast-ha/holdfast/framework/judge/internal/judges"

// distrust says why nothing can be judged from the record, or is empty.
func (c *evaluator) distrust() string {
	switch {
	case c.run.Problem != "":
		return "the record is damaged or was cut short: " + c.run.Problem
	case !c.run.Complete:
		return "the record is not complete: it has no end entry"
	case c.run.End.Error != "":
		return "the run stopped early: " + c.run.End.Error
	}
	return ""
}

// intact reports whether the record is complete up to its end, also if the run was interrupted
// there. A truncated record does not have the operations in flight, and proves nothing.
func (c *evaluator) intact() bool { return c.run.Complete && c.run.Problem == "" }

// doubt makes a finding inconclusive if the record cannot be trusted, unless it is a violation
// that counts although the run was interrupted. The record is complete up to there, including the
// operations in flight, whose outcome is then unknown; so a violation counts if no later
// observation can explain it.
func (c *evaluator) doubt(d judges.Definition, f judges.Finding) judges.Finding {
	reason := c.distrust()
	if reason == "" || f.Verdict == Fail && d.Lasting && !f.Timed && c.intact() {
		return f
	}
	doubted := judges.Inconclusive("%s", reason)
	if f.Verdict == Fail {
		doubted = doubted.Shows("as far as the record goes: " + f.Sentence)
	}
	return doubted
}
