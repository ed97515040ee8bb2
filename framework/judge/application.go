package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// moment is when something was seen of an object, or a change of a Deployment was
// acknowledged.
type moment struct {
	at     record.Nanos
	object *record.Object // nil for a change
	change *record.Op
}

// moments returns all of them in the order of time.
func moments(run *record.Run) []moment {
	var all []moment
	for i := range run.Objects {
		all = append(all, moment{at: run.Objects[i].At, object: &run.Objects[i].V})
	}
	for i := range run.Ops {
		if op := &run.Ops[i].V; deploymentOf(op) != "" && op.Outcome == record.OK {
			all = append(all, moment{at: op.Return, change: op})
		}
	}
	slices.SortStableFunc(all, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	return all
}

// deploymentOf returns the Deployment that an operation changes, empty for others.
func deploymentOf(op *record.Op) string {
	if !isWrite(op.Type) {
		return ""
	}
	name, _ := strings.CutPrefix(op.Key, "deployments/")
	if name == op.Key {
		return ""
	}
	return name
}

// replicasOf returns how many pods a change of a Deployment asks for.
func replicasOf(op *record.Op) (n int) {
	_, _ = fmt.Sscanf(op.Value, "%d replicas", &n)
	return n
}

// lastSeen is when the record shows an object for the last time.
func lastSeen(run *record.Run) record.Nanos {
	if n := len(run.Objects); n > 0 {
		return run.Objects[n-1].At
	}
	return 0
}

// lack is a time in which a part of the application was not as it was wanted.
type lack struct {
	part     string
	from, to record.Nanos
	open     bool   // it lasts until the end of what was seen
	why      string // what was missing last
	// nodes are the times in which only nodes had something to do for it.
	nodes []interval
}

// interval is a time from one moment to another, which is 0 while it lasts.
type interval struct{ from, to record.Nanos }

// hand notes at a moment whether only nodes have something to do.
func (l *lack) hand(at record.Nanos, nodes bool) {
	n := len(l.nodes)
	lasts := n > 0 && l.nodes[n-1].to == 0
	switch {
	case nodes && !lasts:
		l.nodes = append(l.nodes, interval{from: at})
	case !nodes && lasts:
		l.nodes[n-1].to = at
	}
}

// own is how long the control plane had something to do, from some time on.
func (l *lack) own(from record.Nanos) time.Duration {
	left := since(from, l.to)
	for _, i := range l.nodes {
		end := l.to
		if i.to != 0 {
			end = min(end, i.to)
		}
		left -= max(0, since(max(from, i.from), end))
	}
	return left
}

// upToWorkers tells whether a lack from some time on lasts longer than a limit only
// because of the nodes.
func (l *lack) upToWorkers(from record.Nanos, limit time.Duration) bool {
	return since(from, l.to) > limit && l.own(from) <= limit
}

// took is how long a lack lasted from some time on. Where that is longer than a limit only
// because of the nodes, and they have done their share in the end, what they took does not
// count, but for the time in which one was silent. Without such an end, or where that time
// makes it longer than the limit, it proves nothing: the simulated nodes do not try again
// what an API server answered with an error, and real ones may not have reached any.
func (l *lack) took(from record.Nanos, limit time.Duration, silent []interval) (took time.Duration, unproven bool) {
	if !l.upToWorkers(from, limit) {
		return since(from, l.to), false
	}
	took = l.own(from)
	for _, n := range l.nodes {
		for _, s := range silent {
			took += max(0, since(max(from, n.from, s.from), min(cmp.Or(n.to, l.to), s.to)))
		}
	}
	return took, l.open || took > limit
}

// silence returns when a heartbeat of some worker node was overdue by half of the time
// between two, as it is seen to be: all the time where there are too few to tell. The
// intervals are in the order of time and apart.
func (m *matter) silence() []interval {
	end := lastSeen(m.run)
	seen := map[string][]record.Nanos{}
	for i := range m.run.Objects {
		switch o := &m.run.Objects[i].V; {
		case m.wasNode(o.Name) || o.Gone:
		case o.Kind == record.ObjectNode && seen[o.Name] == nil:
			seen[o.Name] = []record.Nanos{}
		case o.Kind == record.ObjectHeartbeat:
			seen[o.Name] = append(seen[o.Name], m.run.Objects[i].At)
		}
	}
	var gaps []time.Duration
	for _, times := range seen {
		for i := 1; i < len(times); i++ {
			gaps = append(gaps, since(times[i-1], times[i]))
		}
	}
	if len(gaps) < 3 {
		return []interval{{0, end}}
	}
	slices.Sort(gaps)
	due := record.Nanos(gaps[len(gaps)/2] * 3 / 2)
	var all []interval
	for _, times := range seen {
		last := record.Nanos(0)
		for _, at := range append(times, end) {
			if at > last+due {
				all = append(all, interval{last + due, at})
			}
			last = at
		}
	}
	slices.SortFunc(all, func(a, b interval) int { return cmp.Compare(a.from, b.from) })
	var apart []interval
	for _, i := range all {
		if n := len(apart); n > 0 && i.from <= apart[n-1].to {
			apart[n-1].to = max(apart[n-1].to, i.to)
		} else {
			apart = append(apart, i)
		}
	}
	return apart
}

// says puts such a lack in words.
func (l *lack) says(from record.Nanos) string {
	return fmt.Sprintf("%s was not as it is wanted for %s, but the control plane had something to do for %s of that: for the rest all pods were bound, and what was missing was up to their nodes: %s",
		l.part, short(since(from, l.to)), short(l.own(from)), l.why)
}

// besides tells of the most that nodes took where that does not count.
func besides(nodes time.Duration) string {
	if nodes == 0 {
		return ""
	}
	return fmt.Sprintf(", besides up to %s in which only nodes had something to do", short(nodes))
}

// lacksOf returns every lack, in the order of their begins. A part begins to lack with
// the acknowledgement of a change that does not show yet, or when it is seen to.
func lacksOf(run *record.Run) []*lack {
	var now record.Standing
	var all []*lack
	open := map[string]*lack{}
	acknowledged := map[string]string{} // version of the last change
	for _, mo := range moments(run) {
		part := ""
		switch {
		case mo.object != nil:
			now.Take(*mo.object)
			if part = mo.object.Part; mo.object.Gone && mo.object.Kind == record.ObjectDeployment {
				delete(acknowledged, part)
			}
		case mo.change.Type == record.OpDelete:
			part = deploymentOf(mo.change)
			delete(acknowledged, part)
		default:
			part = deploymentOf(mo.change)
			acknowledged[part] = mo.change.Revision
		}
		if part == "" {
			continue
		}
		why := now.Lacks(part, acknowledged[part])
		switch l := open[part]; {
		case why == "" && l != nil:
			l.to = mo.at
			l.hand(mo.at, false)
			delete(open, part)
			continue
		case why != "" && l != nil:
			l.why = why
		case why != "":
			open[part] = &lack{part: part, from: mo.at, why: why}
			all = append(all, open[part])
		default:
			continue
		}
		open[part].hand(mo.at, now.UpToWorkers(part, acknowledged[part]))
	}
	for _, l := range open {
		l.to, l.open = max(l.from, lastSeen(run)), true
	}
	return all
}

// nextFault returns when the first fault is injected after a time, or the end of what
// was seen of objects.
func (m *matter) nextFault(after record.Nanos) record.Nanos {
	return min(lastSeen(m.run), m.nextInjection(after))
}

// lastEffect is when the check's fault took effect, or the last one that came on top
// of it.
func (m *matter) lastEffect() record.Nanos {
	last := m.fault.effect()
	for _, inj := range m.faults {
		if inj.injected != nil && inj.injected.Called < m.fault.healed.Called {
			last = max(last, inj.effect())
		}
	}
	return last
}

// standingAt is how things stood at a time.
func standingAt(run *record.Run, at record.Nanos) *record.Standing {
	s := &record.Standing{}
	for i := range run.Objects {
		if run.Objects[i].At > at {
			break
		}
		s.Take(run.Objects[i].V)
	}
	return s
}

func since(from, to record.Nanos) time.Duration { return time.Duration(to - from) }
