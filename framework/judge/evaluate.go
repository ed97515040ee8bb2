package judge

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// starvedFloor is the lateness of the harness's timers below which no
// measurement is doubted.
const starvedFloor = 250 * time.Millisecond

// queueLimit is how many tasks may share a processor for a measured time to
// count: a cluster at a third of its speed can break a bound that it keeps by
// itself.
const queueLimit = 3

// burstLimit is for how long on end more tasks than that must share a processor for a
// measured time to be doubted whatever the average is. Three or four busy seconds are
// nothing: on two processors they are in most runs.
const burstLimit = 5 * time.Second

// busyLimit is the part of the processors' time from which on the tasks in the queue
// are in each other's way. Below it they come in bursts and wait for microseconds:
// there is computing time left for each of them.
const busyLimit = 0.9

// Evaluate gives one result for each check of the record, in its order, then one for
// each judge of every run on the invariant that it settles, and one of the harness, whose
// requirement is "RUN/harness". A violated invariant changes no other verdict. Checks may
// name the built-in judges and the caller's own.
//
// Some rules hold for every check, whatever its judge says: it is inconclusive where the
// record is damaged, the baseline was unhealthy, or a fault that it names has no proof of
// effect or of healing, and where a failure was measured while the harness was starved; it
// is not applicable where the cluster cannot have the fault; and at level INFO it never
// fails.
func Evaluate(run *record.Run, own ...Judge) []Result {
	c := &court{run: run, own: own, faults: injections(run)}
	c.shared = sync.OnceValue(func() *collections { return newCollections(run) })
	var results []Result
	for _, check := range run.Meta.Checks {
		bound, f := c.judge(check)
		results = append(results, c.result(check, bound, f))
	}
	invariants := Invariants()
	for i, d := range runWide() {
		f := c.always(d, invariants[i])
		results = append(results, c.result(invariants[i], f.bound, f))
	}
	// Last, since it tells how many verdicts the rest cost.
	harness := record.Check{Requirement: "RUN/harness", Level: "INFO", Judge: "harness"}
	return append(results, c.result(harness, nil, c.harness()))
}

// Invariants returns the checks that apply to every record: one for each judge of every
// run, on the requirement that it settles.
func Invariants() []record.Check {
	var checks []record.Check
	for _, d := range runWide() {
		checks = append(checks, record.Check{Requirement: d.Invariant, Level: "MUST", Judge: d.Name})
	}
	return checks
}

// court holds what the checks of one record share.
type court struct {
	run     *record.Run
	own     []Judge
	faults  map[string]*injection
	shared  func() *collections
	excused int // verdicts that a starved harness has cost
}

// always lets a judge of every run speak, whatever came of baseline and faults.
func (c *court) always(d definition, check record.Check) finding {
	f := d.judge(&matter{run: c.run, check: check, faults: c.faults, shared: c.shared})
	if reason := c.distrust(); reason != "" && !c.proven(d, f) {
		doubted := inconclusive("%s", reason)
		if f.verdict == Fail {
			doubted = doubted.shows("as far as the record goes: " + f.sentence)
		}
		f = doubted
	}
	return c.excuse(f, f.bound)
}

// distrust says why nothing can be judged from the record, or is empty.
func (c *court) distrust() string {
	switch {
	case c.run.Problem != "":
		return "the record is damaged or was cut short: " + c.run.Problem
	case !c.run.Complete:
		return "the record is not complete: it has no end entry"
	case c.run.End.Error != "":
		return "the run ended early: " + c.run.End.Error
	}
	return ""
}

// judge applies to one check the rules that hold for all, and its judge.
func (c *court) judge(check record.Check) (*Bound, finding) {
	var bound *Bound
	if check.Bound != "" {
		b, err := ParseBound(check.Bound, settingsOf(c.run, subject(check, c.faults[check.Fault])))
		if err != nil {
			return nil, inconclusive("the check cannot be judged: %v", err)
		}
		bound = &b
	}
	f := c.hear(check, bound)
	if f.bound != nil {
		bound = f.bound
	}
	f = c.excuse(f, bound)
	if check.Level == "INFO" && f.verdict == Fail {
		f.verdict = Inconclusive
	}
	return bound, f
}

// hear checks what must hold before a judge may speak, and lets it speak.
func (c *court) hear(check record.Check, bound *Bound) finding {
	if reason := c.distrust(); reason != "" {
		return inconclusive("%s", reason)
	}
	d, err := find(check.Judge, c.own)
	if err != nil {
		return inconclusive("the check cannot be judged: %v", err)
	}
	if problem := c.baseline(check.Judge); problem != "" {
		return inconclusive("%s", problem)
	}
	if check.Fault == "" && d.NeedsFault {
		return inconclusive("the check names no fault, and judge %s needs one", check.Judge)
	}
	if bound == nil && d.NeedsBound {
		return inconclusive("the check names no bound, and judge %s needs one", check.Judge)
	}
	m := &matter{run: c.run, check: check, bound: bound, faults: c.faults, fault: c.faults[check.Fault], shared: c.shared}
	ids := splitList(check.Params["faults"])
	if check.Fault != "" {
		ids = append([]string{check.Fault}, ids...)
	}
	for _, id := range ids {
		if reason := c.impossible(id); reason != "" {
			return finding{verdict: NotApplicable, sentence: reason}
		}
		if problem := unproven(id, c.faults[id]); problem != "" {
			return inconclusive("%s", problem)
		}
	}
	f := d.judge(m)
	if f.verdict == NotApplicable && slices.ContainsFunc(runWide(), func(w definition) bool { return w.Name == d.Name }) {
		// A scenario that names such a check means to have something for it.
		return inconclusive("%s", f.sentence)
	}
	return f
}

// baseline says why a judge can say nothing of a cluster that was broken before any fault.
func (c *court) baseline(judge string) string {
	seen := false
	for _, s := range c.run.Steadies {
		if s.V.Phase != "before" {
			continue
		}
		seen = true
		if !s.V.OK {
			return "the baseline was unhealthy: " + problems(s.V)
		}
	}
	if !seen {
		return "the baseline was not checked: the record has no steady-state check before the experiment"
	}
	if slices.ContainsFunc(Docs(), func(d Doc) bool { return d.Name == judge && d.BeforeFaults }) {
		return ""
	}
	return brokenFromTheStart(c.run)
}

// impossible says why a fault was not injected into a cluster that lacks an ability for
// it, or for something else in the same experiment, which ended there; empty where that
// is not why.
func (c *court) impossible(id string) string {
	lacks := func(inj *injection) bool {
		return inj != nil && inj.injected == nil && inj.failed != nil && inj.failed.Missing != ""
	}
	inj := c.faults[id]
	switch {
	case lacks(inj):
		return fmt.Sprintf("the fault %q cannot be injected into this cluster: %s", id, inj.failed.Error)
	case inj != nil:
		return ""
	}
	const before = "the fault %q was not injected, since this cluster cannot have %s: %s"
	for _, other := range slices.Sorted(maps.Keys(c.faults)) {
		if lacks(c.faults[other]) {
			return fmt.Sprintf(before, id, fmt.Sprintf("the fault %q of the same scenario", other), c.faults[other].failed.Error)
		}
	}
	for _, n := range slices.Concat(c.run.Nodes, c.run.Changes) {
		if n.V.Phase == record.NodeFailed && n.V.Missing != "" {
			return fmt.Sprintf(before, id, "the change of nodes that comes before", n.V.Error)
		}
	}
	return ""
}

// excuse turns a failure that a starved harness may have caused into
// inconclusive.
func (c *court) excuse(f finding, bound *Bound) finding {
	if f.verdict != Fail || !f.timed {
		return f
	}
	s, limit := c.strain(f.from, f.to), c.lateLimit(bound)
	off := max(s.late, s.jump)
	starved := s.starves(limit)
	switch {
	case starved == "" && f.missedBy(bound) > 0 && f.missedBy(bound) <= off:
		starved = fmt.Sprintf("the bound was missed by %s, and the harness's timers or its clock were off by up to %s", short(f.missedBy(bound)), short(off))
	case starved == "" && s.burst >= burstLimit && f.missedBy(bound) > 0 && f.lasted()-s.lost <= bound.Limit:
		starved = fmt.Sprintf("the machine was overloaded for %s: more than %d tasks shared each processor, and without it the bound may have been kept", short(s.burst), queueLimit)
	case starved == "" || off <= limit && f.value != nil && s.outweighed(f.lasted(), bound):
		return f
	}
	held := f
	f = inconclusive("%s, so a measured time proves nothing", starved)
	c.excused++
	f.bound = held.bound
	return f.shows("what was measured all the same: " + held.sentence).shows(held.evidence...)
}

// strain is how much harness and machine had to do in some time.
type strain struct {
	known bool
	late  time.Duration // the harness's timers, at most
	jump  time.Duration // of the wall clock against the monotonic one, at most
	queue float64       // tasks in each other's way for each processor, on average
	burst time.Duration // the longest time on end with more of them than queueLimit
	lost  time.Duration // what processes waited for others, that were always at work
}

// strain returns that of the time between two moments. A sample speaks for the
// time since the one before it.
func (c *court) strain(from, to record.Nanos) strain {
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
		queue, took := contention(h.V), span(begin, min(h.At, to))
		sum += queue
		n++
		if burst += took; queue <= queueLimit {
			burst = 0
		}
		s.burst = max(s.burst, burst)
		s.lost += took - time.Duration(float64(took)/max(1, queue))
		if begin = h.At; h.At > to {
			break
		}
	}
	if n > 0 {
		s.queue = sum / float64(n)
	}
	return s
}

// contention is how many tasks shared each processor in the time of a sample, 1 at
// most where some computing time was left.
func contention(h record.Harness) float64 {
	if h.Busy > 0 && h.Busy < busyLimit {
		return min(h.Queue, 1)
	}
	return h.Queue
}

// outweighed tells whether a measured time breaks its bound by so much that it would
// have on a machine of their own for the processes as well.
func (s strain) outweighed(measured time.Duration, bound *Bound) bool {
	return s.known && bound != nil && float64(measured) > s.queue*float64(bound.Limit)
}

// lateLimit is how late the harness's timers may be for a time measured against
// a bound to count. A bound has room for the measuring margin and no more.
func (c *court) lateLimit(bound *Bound) time.Duration {
	if bound == nil {
		return starvedFloor
	}
	return max(starvedFloor, min(bound.Limit/10, c.run.Meta.Settings["M"]))
}

// starves says why a time measured under the strain proves nothing; empty means
// that it counts.
func (s strain) starves(limit time.Duration) string {
	switch {
	case !s.known:
		return "the harness recorded nothing of its own health in that time"
	case s.late > limit:
		return fmt.Sprintf("the harness was starved: its timers fired up to %s late, more than %s", short(s.late), short(limit))
	case s.jump > limit:
		return fmt.Sprintf("the harness's clock was set, or its machine slept: wall and monotonic clock went apart by %s, more than %s", short(s.jump), short(limit))
	case s.queue > queueLimit:
		return fmt.Sprintf("the machine was overloaded: %.1f tasks shared each processor on average, more than %d", s.queue, queueLimit)
	}
	return ""
}

func (c *court) result(check record.Check, bound *Bound, f finding) Result {
	return Result{
		Requirement: check.Requirement, Level: check.Level, Scenario: c.run.Meta.Scenario, Judge: check.Judge,
		Verdict: f.verdict, Bound: bound, Measured: f.measured, MeasuredNanos: f.value,
		Sentence: f.sentence, Evidence: f.evidence, Exhibit: f.exhibit,
	}
}
