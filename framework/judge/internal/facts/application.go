package facts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// moment is when an object was seen, or a change of a Deployment was acknowledged.
type moment struct {
	at     record.Nanos
	object *record.Object // nil for a change
	change *record.Op
}

// moments returns all of them in order of time.
func moments(run *record.Run) []moment {
	var all []moment
	for i := range run.Objects {
		all = append(all, moment{at: run.Objects[i].At, object: &run.Objects[i].V})
	}
	for i := range run.Ops {
		if op := &run.Ops[i].V; DeploymentOf(*op) != "" && op.Outcome == record.OK {
			all = append(all, moment{at: op.Return, change: op})
		}
	}
	slices.SortStableFunc(all, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	return all
}

// DeploymentOf returns the Deployment that an operation changes, empty for others.
func DeploymentOf(op record.Op) string {
	name, ok := strings.CutPrefix(op.Key, "deployments/")
	if !ok || !IsWrite(op.Type) {
		return ""
	}
	return name
}

// ReplicasOf returns how many pods a change of a Deployment requests.
func ReplicasOf(op record.Op) (n int) {
	_, _ = fmt.Sscanf(op.Value, "%d replicas", &n)
	return n
}

// LastSeen is when the record shows an object for the last time.
func LastSeen(run *record.Run) record.Nanos {
	if n := len(run.Objects); n > 0 {
		return run.Objects[n-1].At
	}
	return 0
}

// Lack is a period in which a part of the application was not in its desired state.
type Lack struct {
	Part     string
	From, To record.Nanos
	Open     bool // it lasts until the end of the observations
	// Superseded: it ended with the next change, when only nodes had work left for this one.
	Superseded bool
	Why        string // what was missing last
	// nodes are the periods in which the rest was up to the nodes.
	nodes []Interval
}

// Interval is a period; To is 0 while it lasts.
type Interval struct{ From, To record.Nanos }

// hand records at a moment whether the rest is up to the nodes.
func (l *Lack) hand(at record.Nanos, nodes bool) {
	n := len(l.nodes)
	lasts := n > 0 && l.nodes[n-1].To == 0
	switch {
	case nodes && !lasts:
		l.nodes = append(l.nodes, Interval{From: at})
	case !nodes && lasts:
		l.nodes[n-1].To = at
	}
}

// own is how long the control plane had something to do, from a given time.
func (l *Lack) own(from record.Nanos) time.Duration {
	left := text.Span(from, l.To)
	for _, i := range l.nodes {
		end := min(l.To, cmp.Or(i.To, l.To))
		left -= max(0, text.Span(max(from, i.From), end))
	}
	return left
}

// Took is how long a lack lasted from a given time. Beyond a limit, the nodes' time does not count,
// except while a node was silent, and only if they did their share in the end. If they did not, or
// if the silent time alone exceeds the limit, the lack proves nothing: the simulated nodes do not
// retry after an error of an API server, and real ones may not have reached any.
func (l *Lack) Took(from record.Nanos, limit time.Duration, silent []Interval) (took time.Duration, unproven bool) {
	whole := text.Span(from, l.To)
	if whole <= limit {
		return whole, false
	}
	if took = l.own(from); took > limit {
		return took, false
	}
	for _, n := range l.nodes {
		for _, s := range silent {
			took += max(0, text.Span(max(from, n.From, s.From), min(cmp.Or(n.To, l.To), s.To)))
		}
	}
	return took, l.Open || took > limit
}

// LackSum finds the worst of several lacks.
type LackSum struct {
	Limit       time.Duration
	Silent      []Interval    // see Took
	Worst, Held *Lack         // the longest, and one that proves nothing
	Took, Nodes time.Duration // of the longest, and the most that nodes took
}

// Add counts a lack between two times. It returns false if the lack proves nothing (see Took).
func (s *LackSum) Add(l *Lack, from, until record.Nanos) bool {
	if l.To > until {
		l.To, l.Open = until, true
	}
	took, unproven := l.Took(from, s.Limit, s.Silent)
	if unproven {
		s.Held = l
		return false
	}
	s.Nodes = max(s.Nodes, text.Span(from, l.To)-took)
	if s.Worst == nil || took > s.Took {
		s.Worst, s.Took = l, took
	}
	return true
}

// Length describes how long a lack lasted from a given time, and the part of it that counts.
func (l *Lack) Length(from record.Nanos) string {
	whole, own := text.Short(text.Span(from, l.To)), text.Short(l.own(from))
	if whole == own {
		return whole
	}
	return fmt.Sprintf("%s, in %s of which the control plane had work left", whole, own)
}

// Silence returns the intervals in which a heartbeat of some worker node was overdue by half of
// the observed interval between two, or the whole time if there are too few of them. The
// intervals are in order of time and do not overlap.
func (m *Case) Silence() []Interval {
	end := LastSeen(m.Run)
	seen := map[string][]record.Nanos{}
	for i := range m.Run.Objects {
		switch o := &m.Run.Objects[i].V; {
		case m.WasNode(o.Name) || o.Gone:
		case o.Kind == record.ObjectNode && seen[o.Name] == nil:
			seen[o.Name] = []record.Nanos{}
		case o.Kind == record.ObjectHeartbeat:
			seen[o.Name] = append(seen[o.Name], m.Run.Objects[i].At)
		}
	}
	var gaps []time.Duration
	for _, times := range seen {
		for i := 1; i < len(times); i++ {
			gaps = append(gaps, text.Span(times[i-1], times[i]))
		}
	}
	if len(gaps) < 3 {
		return []Interval{{0, end}}
	}
	slices.Sort(gaps)
	due := record.Nanos(gaps[len(gaps)/2] * 3 / 2)
	var all []Interval
	for _, times := range seen {
		last := record.Nanos(0)
		for _, at := range append(times, end) {
			if at > last+due {
				all = append(all, Interval{last + due, at})
			}
			last = at
		}
	}
	slices.SortFunc(all, func(a, b Interval) int { return cmp.Compare(a.From, b.From) })
	var apart []Interval
	for _, i := range all {
		if n := len(apart); n > 0 && i.From <= apart[n-1].To {
			apart[n-1].To = max(apart[n-1].To, i.To)
		} else {
			apart = append(apart, i)
		}
	}
	return apart
}

// Says describes such a lack.
func (l *Lack) Says(from record.Nanos) string {
	return fmt.Sprintf("%s was not in its desired state for %s, but the control plane had work left for only %s of that: in the rest all pods were bound, and only their nodes had work left: %s",
		l.Part, text.Short(text.Span(from, l.To)), text.Short(l.own(from)), l.Why)
}

// Besides reports the most time that nodes took if that does not count.
func Besides(nodes time.Duration) string {
	if nodes == 0 {
		return ""
	}
	return fmt.Sprintf(", plus up to %s in which only nodes had work left", text.Short(nodes))
}

// LacksOf returns every lack, in the order of their starts. A lack starts when a change is
// acknowledged that does not show yet, or when it is seen. If only nodes had work left at a change,
// the control plane's work for the earlier changes was done: another lack starts.
func LacksOf(run *record.Run) []*Lack {
	var now record.Standing
	var all []*Lack
	open := map[string]*Lack{}
	acknowledged := map[string]string{} // version of the last change
	for _, mo := range moments(run) {
		part, superseded := "", false
		switch {
		case mo.object != nil:
			now.Take(*mo.object)
			if part = mo.object.Part; mo.object.Gone && mo.object.Kind == record.ObjectDeployment {
				delete(acknowledged, part)
			}
		case mo.change.Type == record.OpDelete:
			part = DeploymentOf(*mo.change)
			delete(acknowledged, part)
		default:
			part = DeploymentOf(*mo.change)
			superseded = now.UpToWorkers(part, acknowledged[part])
			acknowledged[part] = mo.change.Revision
		}
		if part == "" {
			continue
		}
		why := now.Lacks(part, acknowledged[part])
		if l := open[part]; l != nil && superseded {
			l.To, l.Superseded = mo.at, true
			delete(open, part)
		}
		switch l := open[part]; {
		case why == "" && l != nil:
			l.To = mo.at
			l.hand(mo.at, false)
			delete(open, part)
			continue
		case why != "" && l != nil:
			l.Why = why
		case why != "":
			open[part] = &Lack{Part: part, From: mo.at, Why: why}
			all = append(all, open[part])
		default:
			continue
		}
		open[part].hand(mo.at, now.UpToWorkers(part, acknowledged[part]))
	}
	for _, l := range open {
		l.To, l.Open = max(l.From, LastSeen(run)), true
	}
	return all
}

// NextFault returns when the first fault is injected after a time, or the end of the observations
// of objects.
func (m *Case) NextFault(after record.Nanos) record.Nanos {
	return min(LastSeen(m.Run), m.NextInjection(after))
}

// LastEffect is when the check's fault took effect, or the last one on top of it.
func (m *Case) LastEffect() record.Nanos {
	last := m.Fault.Effect()
	for _, inj := range m.Faults {
		if inj.Injected != nil && inj.Injected.Called < m.Fault.Healed.Called {
			last = max(last, inj.Effect())
		}
	}
	return last
}

// StandingAt returns the state of the objects at a time.
func StandingAt(run *record.Run, at record.Nanos) *record.Standing {
	s := &record.Standing{}
	for i := range run.Objects {
		if run.Objects[i].At > at {
			break
		}
		s.Take(run.Objects[i].V)
	}
	return s
}
