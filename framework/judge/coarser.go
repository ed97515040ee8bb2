package judge

import (
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/judges"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// A coarser fault hits more than the scenario requested: components in the same process as the
// one that it names.

// coarser describes what a fault hit in addition to its component; empty if nothing.
func coarser(inj *facts.Injection) string {
	if inj == nil || inj.Injected == nil || len(inj.Injected.Group) == 0 {
		return ""
	}
	f := inj.Injected
	others := slices.DeleteFunc(slices.Clone(f.Group), func(c string) bool { return c == f.Component })
	return fmt.Sprintf("Coarser fault: the %s hit one process with %s.", inj.What(), text.And(others))
}

// separates says why a check cannot be tested on a cluster where its fault hits other components
// as well; empty if it can, as with a guarantee that also holds then. An invariant always does.
func (c *evaluator) separates(d judges.Definition, ids []string) string {
	for _, id := range ids {
		if says := coarser(c.faults[id]); says != "" && !d.Coarser && d.Invariant == "" {
			return fmt.Sprintf("The requirement cannot be tested here: it needs a fault on %s alone. %s", c.faults[id].Injected.Component, says)
		}
	}
	return ""
}

// attribute adds to a finding which of its faults were coarser. A failure that they may have
// caused is inconclusive, unless nothing done to the cluster can explain it: a measured time
// depends on what was done.
func (c *evaluator) attribute(d judges.Definition, ids []string, m *facts.Case, f judges.Finding) judges.Finding {
	var says []string
	for _, id := range ids {
		if s := coarser(c.faults[id]); s != "" && !slices.Contains(says, s) {
			says = append(says, s)
		}
	}
	if f.Verdict == Fail && (!d.Lasting || f.Timed) {
		from, to := f.From, f.To
		if !f.Timed && m.Fault != nil {
			from, to = m.Fault.Injected.Called, m.Fault.HealEffect()
		}
		if f.Timed || m.Fault != nil {
			for _, inj := range m.Touching(from, to, record.Nanos(m.Run.Meta.Settings["M"])) {
				if s := coarser(inj); s != "" && !slices.Contains(says, s) {
					says = append(says, s)
				}
			}
		}
		if len(says) > 0 {
			held := f
			f = judges.Inconclusive("a fault hit more than the check is about, which may be why it failed.")
			f.Bound = held.Bound
			f = f.Shows("the original finding: " + held.Sentence).Shows(held.Evidence...)
		}
	}
	slices.Sort(says)
	for _, s := range says {
		f.Sentence += " " + s
	}
	return f
}

// notInPart keeps a requirement from passing if a part of it cannot be tested here: one of its
// checks is not applicable, and not because it is about something that the cluster need not have.
func (c *evaluator) notInPart(results []Result) {
	for i, r := range results {
		if c.parts[r.Requirement] && r.Verdict == Pass {
			results[i].Verdict = NotApplicable
			results[i].Sentence = "Not every part of the requirement can be tested here. This part: " + r.Sentence
		}
	}
}
