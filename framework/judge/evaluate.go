package judge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/judges"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// starvedFloor is the lateness of the harness's timers below which no
// measurement is doubted.
const starvedFloor = 250 * time.Millisecond

// queueLimit is how many tasks may share a CPU for a measured time to count: a cluster at a
// third of its speed can break a bound that it meets alone.
const queueLimit = 3

// throttledLimit is in which part of its periods a CPU quota may be used up for a measured time to
// count. In such a period, of 100 ms, every process stands still until its end.
const throttledLimit = 0.2

// slowdownLimit is up to how many tasks sharing a CPU make a cluster only slower. With more,
// heartbeats and leases of a healthy cluster time out, and it may not recover for as long as that
// lasts: with 10 tasks for each CPU, one was not steady again within a minute.
const slowdownLimit = 3 * queueLimit

// burstLimit is how long more tasks than that must share a CPU without a break for a
// measured time to be doubted whatever the average is. Three or four busy seconds are normal:
// with two processors most runs have them.
const burstLimit = 5 * time.Second

// busyLimit is the CPU utilization from which on queued tasks delay each other. Below it
// they come in bursts and wait for microseconds: there is CPU time left for each of them.
const busyLimit = 0.9

// Evaluate returns one result for each check of the record, in its order, then one for each judge
// of every run on its invariant, and one for the harness, whose requirement is "RUN/harness". A
// violated invariant changes no other verdict. Checks may name the built-in judges and the
// caller's own.
//
// Some rules hold for every check, whatever its judge says: it is inconclusive if the record is
// damaged or the run was interrupted (except for a violation that nothing later can explain; see
// Doc.Lasting), the baseline was unhealthy (see judges.Defects), or a fault that it names has no
// proof of effect or of healing, and if a failure was measured while the harness was starved; it is
// not applicable if the cluster cannot have the fault, or has it only together with faults on other
// components that the judge must do without; and at level INFO it never fails. A requirement of which
// one check is not applicable does not pass by the others, unless that check is about something that
// the cluster need not have.
func Evaluate(run *record.Run, own ...Judge) []Result {
	c := &evaluator{run: run, own: own, faults: facts.Injections(run), parts: map[string]bool{}}
	c.shared = sync.OnceValue(func() *facts.Collections { return facts.NewCollections(run) })
	var results []Result
	for _, check := range run.Meta.Checks {
		bound, f := c.judge(check)
		results = append(results, c.result(check, bound, f))
	}
	c.notInPart(results)
	invariants := Invariants()
	for i, d := range judges.RunWide() {
		f := c.always(d, invariants[i])
		results = append(results, c.result(invariants[i], f.Bound, f))
	}
	for _, r := range results {
		if r.Verdict == Inconclusive {
			c.open++
		}
	}
	// Last, since it reports how many verdicts overload cost.
	harness := record.Check{Requirement: "RUN/harness", Level: "INFO", Judge: "harness"}
	return append(results, c.result(harness, nil, c.harness()))
}

// Invariants returns the checks that apply to every record: one for each judge of every run, on
// its requirement.
func Invariants() []record.Check {
	var checks []record.Check
	for _, d := range judges.RunWide() {
		checks = append(checks, record.Check{Requirement: d.Invariant, Level: "MUST", Judge: d.Name})
	}
	return checks
}

// evaluator holds the state that the checks of one record share.
type evaluator struct {
	run        *record.Run
	own        []Judge
	faults     map[string]*facts.Injection
	shared     func() *facts.Collections
	downgraded int             // failures that a starved harness turned into inconclusive
	open       int             // verdicts that are inconclusive, these included
	parts      map[string]bool // requirements of which a part cannot be tested here
}

// always runs a judge of every run, regardless of baseline and faults.
func (c *evaluator) always(d judges.Definition, check record.Check) judges.Finding {
	if reason := c.unseen(d); reason != "" {
		return judges.Finding{Verdict: NotApplicable, Sentence: reason}
	}
	f := c.doubt(d, d.Judge(&facts.Case{Run: c.run, Check: check, Faults: c.faults, Shared: c.shared}))
	return c.downgrade(f, f.Bound)
}

// unseen says why the record cannot have what a judge needs; empty if it can.
func (c *evaluator) unseen(d judges.Definition) string {
	var all []string
	for _, need := range d.Needs {
		if slices.Contains(c.run.Meta.NoAccess, need) {
			all = append(all, string(need))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("The requirement cannot be tested here: it needs access to the %s of the cluster, which the provider does not offer.", text.And(all))
}

// judge applies to one check the rules for all checks, and then its judge.
func (c *evaluator) judge(check record.Check) (*Bound, judges.Finding) {
	var bound *Bound
	if check.Bound != "" {
		b, err := ParseBound(check.Bound, facts.SettingsOf(c.run, facts.Subject(check, c.faults[check.Fault])))
		if err != nil {
			return nil, judges.Inconclusive("the check cannot be judged: %v", err)
		}
		bound = &b
	}
	f := c.evaluate(check, bound)
	if f.Bound != nil {
		bound = f.Bound
	}
	f = c.downgrade(f, bound)
	if check.Level == "INFO" && f.Verdict == Fail {
		f.Verdict = Inconclusive
	}
	return bound, f
}

// evaluate judges a check. Nothing but a violation can be concluded from a run that was
// interrupted.
func (c *evaluator) evaluate(check record.Check, bound *Bound) judges.Finding {
	reason := c.distrust()
	if reason != "" && !c.intact() {
		return judges.Inconclusive("%s", reason)
	}
	d, err := find(check.Judge, c.own)
	switch {
	case reason != "" && !d.Lasting:
		return judges.Inconclusive("%s", reason)
	case err != nil:
		return judges.Inconclusive("the check cannot be judged: %v", err)
	}
	f := c.doubt(d, c.conclude(d, check, bound))
	if f.Verdict == NotApplicable && !f.Optional {
		c.parts[check.Requirement] = true
	}
	return f
}

// conclude checks the preconditions of a judge and runs it.
func (c *evaluator) conclude(d judges.Definition, check record.Check, bound *Bound) judges.Finding {
	if reason := c.unseen(d); reason != "" {
		return judges.Finding{Verdict: NotApplicable, Sentence: reason}
	}
	if problem := c.baseline(d.Doc); problem != "" {
		return c.defect(check, problem)
	}
	if check.Fault == "" && d.NeedsFault {
		return judges.Inconclusive("the check names no fault, and judge %s needs one", check.Judge)
	}
	if bound == nil && d.NeedsBound {
		return judges.Inconclusive("the check names no bound, and judge %s needs one", check.Judge)
	}
	m := &facts.Case{Run: c.run, Check: check, Bound: bound, Faults: c.faults, Fault: c.faults[check.Fault], Shared: c.shared}
	ids := text.SplitList(check.Params["faults"])
	if check.Fault != "" {
		ids = append([]string{check.Fault}, ids...)
	}
	unhealed := "" // why the cluster may not have healed by itself
	for _, id := range ids {
		if reason := c.impossible(id); reason != "" {
			return judges.Finding{Verdict: NotApplicable, Sentence: reason}
		}
		if problem := facts.Unproven(id, c.faults[id]); problem != "" {
			unhealed = facts.UnprovenHealing(id, c.faults[id])
			if problem != unhealed || !d.HealsItself {
				return judges.Inconclusive("%s", problem)
			}
		}
		if inj := c.faults[id]; inj.Injected.Killed && !d.Killed {
			return judges.Inconclusive("the fault %q (%s) was not graceful: %s", id, inj.What(), inj.Injected.Proof)
		}
	}
	if reason := c.separates(d, ids); reason != "" {
		return judges.Finding{Verdict: NotApplicable, Sentence: reason}
	}
	f := silenced(m, c.attribute(d, ids, m, d.Judge(m)))
	if unhealed != "" && f.Verdict != Fail {
		return judges.Inconclusive("%s", unhealed)
	}
	if f.Verdict == NotApplicable && slices.ContainsFunc(judges.RunWide(), func(w judges.Definition) bool { return w.Name == d.Name }) {
		// A scenario that names such a check expects to have data for it.
		return judges.Inconclusive("%s", f.Sentence)
	}
	return f
}

// baseline says why a judge cannot conclude anything about a cluster that was broken before any
// fault.
func (c *evaluator) baseline(judge Doc) string {
	seen := false
	for _, s := range c.run.Steadies {
		if s.V.Phase != "before" {
			continue
		}
		seen = true
		if !s.V.OK {
			return "the baseline was unhealthy: " + facts.Problems(s.V)
		}
	}
	if !seen {
		return "the baseline was not checked: the record has no steady-state check before the experiment"
	}
	if judge.BeforeFaults {
		return ""
	}
	return facts.BrokenFromTheStart(c.run)
}

// impossible says why a fault was not injected into a cluster without an ability for it, or for
// something else in the same experiment, which stopped there; empty if that is not why.
func (c *evaluator) impossible(id string) string {
	inj := c.faults[id]
	switch {
	case inj != nil && inj.Impossible():
		return fmt.Sprintf("the fault %q cannot be injected into this cluster: %s", id, inj.Failed.Error)
	case inj != nil:
		return ""
	}
	if what, why := facts.Impossible(c.run); what != "" {
		return fmt.Sprintf("the fault %q was not injected, since this cluster does not support %s: %s", id, what, why)
	}
	return ""
}

// downgrade turns a failure that a starved harness may have caused into
// inconclusive.
func (c *evaluator) downgrade(f judges.Finding, bound *Bound) judges.Finding {
	if f.Verdict != Fail || !f.Timed {
		return f
	}
	s, limit := c.strain(f.From, f.To), c.lateLimit(bound)
	off := max(s.late, s.jump)
	starved := s.starves(limit)
	switch {
	case starved == "" && f.MissedBy(bound) > 0 && f.MissedBy(bound) <= off:
		starved = fmt.Sprintf("the bound was missed by %s, and the harness's timers or its clock were off by up to %s", text.Short(f.MissedBy(bound)), text.Short(off))
	case starved == "" && s.burst >= burstLimit && f.MissedBy(bound) > 0 && f.Lasted()-s.lost <= bound.Limit:
		starved = fmt.Sprintf("the machine was overloaded for %s: more than %d tasks shared each CPU, or a CPU quota was used up, and without that the bound might have been met", text.Short(s.burst), queueLimit)
	case starved == "" || off <= limit && f.Value != nil && s.outweighed(f.Lasted(), bound):
		return f
	}
	held := f
	f = judges.Inconclusive("%s, so a measured time proves nothing", starved)
	c.downgraded++
	f.Bound = held.Bound
	return f.Shows("measured despite that: " + held.Sentence).Shows(held.Evidence...)
}

// strain is the load on harness and machine in a period.
type strain struct {
	known bool
	late  time.Duration // the harness's timers, maximum
	jump  time.Duration // of the wall clock against the monotonic one, maximum
	queue float64       // tasks waiting for each other per CPU, on average
	burst time.Duration // the longest period with more of them than queueLimit, or beyond throttledLimit
	lost  time.Duration // how long processes that were always busy waited for others or for the quota
	// throttled is the part of a CPU quota's periods in which it was used up, on average.
	throttled float64
}

// strain returns the strain between two moments. A sample covers the time since the previous one.
func (c *evaluator) strain(from, to record.Nanos) strain {
	var s strain
	sum, n := 0.0, 0
	begin, burst := from, time.Duration(0)
	for _, h := range c.run.Harness {
		if h.At < from {
			continue
		}
		s.known = true
		s.late = max(s.late, h.V.Late)
		s.jump = max(s.jump, h.V.Jump.Abs())
		queue, took := contention(h.V), text.Span(begin, min(h.At, to))
		sum += queue
		s.throttled += h.V.Throttled
		n++
		if burst += took; queue <= queueLimit && h.V.Throttled <= throttledLimit {
			burst = 0
		}
		s.burst = max(s.burst, burst)
		s.lost += max(took-time.Duration(float64(took)/max(1, queue)), time.Duration(float64(took)*h.V.Throttled))
		if begin = h.At; h.At > to {
			break
		}
	}
	if n > 0 {
		s.queue, s.throttled = sum/float64(n), s.throttled/float64(n)
	}
	return s
}

// contention is how many tasks shared each CPU in the time of a sample, at most 1 if some
// CPU time was left.
func contention(h record.Harness) float64 {
	if h.Busy > 0 && h.Busy < busyLimit {
		return min(h.Queue, 1)
	}
	return h.Queue
}

// outweighed reports whether a measured time exceeds its bound by so much that it would have done
// so on an unshared machine as well.
func (s strain) outweighed(measured time.Duration, bound *Bound) bool {
	return s.known && bound != nil && s.queue <= slowdownLimit && s.throttled <= throttledLimit && float64(measured) > s.queue*float64(bound.Limit)
}

// lateLimit is how late the harness's timers may be for a time measured against a bound to count.
// A bound includes only the measuring margin.
func (c *evaluator) lateLimit(bound *Bound) time.Duration {
	if bound == nil {
		return starvedFloor
	}
	return max(starvedFloor, min(bound.Limit/10, c.run.Meta.Settings["M"]))
}

// starves says why a time measured under this strain proves nothing; empty means that it counts.
func (s strain) starves(limit time.Duration) string {
	switch {
	case !s.known:
		return "the harness did not record its own health in that time"
	case s.late > limit:
		return fmt.Sprintf("the harness was starved: its timers fired up to %s late, more than %s", text.Short(s.late), text.Short(limit))
	case s.jump > limit:
		return fmt.Sprintf("the harness's clock was set, or its machine slept: wall and monotonic clock diverged by %s, more than %s", text.Short(s.jump), text.Short(limit))
	case s.queue > queueLimit:
		return fmt.Sprintf("the machine was overloaded: %.1f tasks shared each CPU on average, more than %d", s.queue, queueLimit)
	case s.throttled > throttledLimit:
		return fmt.Sprintf("a CPU quota starved the harness and the cluster: it was used up in %.0f %% of its periods, more than %.0f %%", 100*s.throttled, 100*throttledLimit)
	}
	return ""
}

func (c *evaluator) result(check record.Check, bound *Bound, f judges.Finding) Result {
	return Result{
		Requirement: check.Requirement, Level: check.Level, Scenario: c.run.Meta.Scenario, Judge: check.Judge,
		Verdict: f.Verdict, Bound: bound, Measured: f.Measured, MeasuredDuration: f.Value,
		Sentence: f.Sentence, Evidence: append(slices.Clip(f.Evidence), c.origins(bound)...), Violated: violated(f, c.run.EndAt), Exhibit: f.Exhibit,
	}
}

// origins says where the settings come from that a bound is computed from.
func (c *evaluator) origins(bound *Bound) []string {
	if bound == nil {
		return nil
	}
	var all []string
	for _, symbol := range slices.Sorted(maps.Keys(bound.Inputs)) {
		from := c.run.Meta.Origins[symbol]
		if longest, ok := c.run.Meta.Settings[symbol]; ok && from != "" && bound.Inputs[symbol] != longest {
			from = "of the component's own election" // the record has the origin of the longest
		}
		if slices.Contains(c.run.Meta.Assumed, symbol) {
			from = "assumed, since nothing shows it"
		}
		if from != "" {
			all = append(all, fmt.Sprintf("%s = %s: %s", symbol, text.Short(bound.Inputs[symbol]), from))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return []string{"settings of the bound: " + strings.Join(all, "; ")}
}

// violated returns when a failed guarantee was violated: the time that was measured, or that of
// what the rest of the history cannot explain; nil if it is the whole run or not known.
func violated(f judges.Finding, end record.Nanos) (p *Period) {
	if f.Verdict != Fail {
		return nil
	}
	if f.To > 0 && (f.From > 0 || f.To < end) {
		return &Period{From: f.From, To: f.To}
	}
	if f.Exhibit == nil {
		return nil
	}
	for _, s := range f.Exhibit.Spans {
		switch to := max(s.From, s.To); {
		case !s.Culprit:
		case p == nil:
			p = &Period{From: s.From, To: to}
		default:
			p.From, p.To = min(p.From, s.From), max(p.To, to)
		}
	}
	return p
}
