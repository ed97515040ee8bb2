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

// neverEnds tells whether it does so without an end. The simulated nodes do not try again
// what an API server answered with an error, such as that etcd had no leader.
func (l *lack) neverEnds(from record.Nanos, limit time.Duration) bool {
	return l.open && l.upToWorkers(from, limit)
}

// took is how long it lasted from some time on; where it lasted longer than a limit only
// because of the nodes, which have done their share in the end, what the control plane
// took of that.
func (l *lack) took(from record.Nanos, limit time.Duration) time.Duration {
	if !l.open && l.upToWorkers(from, limit) {
		return l.own(from)
	}
	return since(from, l.to)
}

// says puts such a lack in words.
func (l *lack) says(from record.Nanos) finding {
	return inconclusive("%s was not as it is wanted for %s, but the control plane had something to do for %s of that: for the rest all pods were bound, and what was missing was up to their nodes: %s",
		l.part, short(since(from, l.to)), short(l.own(from)), l.why)
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
	next := lastSeen(m.run)
	for _, inj := range m.faults {
		if inj.injected != nil && inj.injected.Called > after {
			next = min(next, inj.injected.Called)
		}
	}
	return next
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
