package judges

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/judge/verdict"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var supervised = Definition{Doc{
	Name:       "supervised",
	Guarantee:  "A component that supervisors elect runs only where its lock is held and never on two nodes. Within the bound after the fault it runs on a node that was not hit, and it stays up there.",
	Source:     "High Availability Kubernetes Clusters (admin guide), podmaster",
	NeedsFault: true, NeedsBound: true,
}, judgeSupervised}

// judgeSupervised relies only on what is certain. A process existed from when it was first seen
// until the last query before it was gone; a node held a lock at some moment between the call and
// the return of a read that says so. The harness's one clock stamps both, so no margin is needed,
// and a late machine only leaves less that is certain. A delayed supervisor may stop its process
// late, though: a failure that only this explains is reported last, and depends on timing.
func judgeSupervised(m *facts.Case) Finding {
	reads := facts.LockReads(m.Run)
	components := slices.Sorted(maps.Keys(reads))
	if len(components) == 0 {
		return Inconclusive("the record has no reading of a lock: no component of the cluster is elected by supervisors, or none was observed")
	}
	bound := *m.Bound
	var told []string
	var longest time.Duration
	moved, witnesses := 0, 0
	var doubtful *Finding // the first failure that a delayed supervisor explains
	for _, c := range components {
		lives := livesOf(m.Run, c)
		if f := twoAtOnce(m, c, lives); f != nil {
			if !f.Timed {
				return *f
			}
			doubtful = cmp.Or(doubtful, f)
		}
		for _, read := range reads[c] {
			if read.Outcome != record.OK {
				continue
			}
			witnesses++
			doubtful = cmp.Or(doubtful, withoutLock(m, c, lives, read))
		}
	}
	if doubtful != nil {
		return *doubtful
	}
	for _, c := range components {
		lives := livesOf(m.Run, c)
		before, known := lockHolder(reads[c], m.Fault.Injected.Called)
		if !known || before != m.Fault.Node() {
			continue
		}
		moved++
		to, took, f := handedOver(m, c, lives, reads[c], bound)
		if f != nil {
			return *f
		}
		longest = max(longest, took)
		told = append(told, fmt.Sprintf("%s ran on %s after %s", c, to, text.Short(took)))
	}
	if moved == 0 {
		return Inconclusive("no component's lock was seen to be held by %s before the %s", m.Fault.Node(), m.Fault.What())
	}
	return Passed("After the %s, %s, within %s; none ran on two nodes, or where its lock was not held, according to %d readings of the locks.",
		m.Fault.What(), text.And(told), bound, witnesses).Took(longest)
}

// life is a process that was alive from from to to; gone is when it was first seen to have exited,
// 0 if it was not.
type life struct {
	node     string
	pid      int
	ticks    uint64
	from, to record.Nanos
	gone     record.Nanos
}

func (l life) String() string {
	return fmt.Sprintf("process %d on %s from %s to %s", l.pid, l.node, text.When(l.from), text.When(l.to))
}

// livesOf returns the lives of a component's processes, in the order in which they were
// first seen.
func livesOf(run *record.Run, component string) []life {
	var lives []life
	last := map[string]int{}  // by node: the life of its latest state
	dark := map[string]bool{} // by node: it has not reported since
	for at, v := range record.Each(run.Processes) {
		if v.Component != component {
			continue
		}
		i, alive := last[v.Node]
		if alive && !dark[v.Node] {
			// It existed when its node was queried the previous time.
			lives[i].to = max(lives[i].to, v.Before)
		}
		if v.Error != "" {
			dark[v.Node] = true
			continue
		}
		delete(dark, v.Node)
		same := alive && lives[i].pid == v.PID && lives[i].ticks == v.StartTicks
		if alive && !same {
			lives[i].gone = at
		}
		switch {
		case v.PID == 0 || strings.ContainsAny(v.State, "ZXT"):
			delete(last, v.Node)
		case same:
			lives[i].to = max(lives[i].to, v.Asked)
		default:
			last[v.Node] = len(lives)
			lives = append(lives, life{node: v.Node, pid: v.PID, ticks: v.StartTicks, from: at, to: at})
		}
	}
	return lives
}

// lockLife is how long a lock lives without a renewal. A supervisor that is delayed that long
// leaves its process running through no fault of its own, but not for twice as long.
func lockLife(m *facts.Case) record.Nanos { return record.Nanos(m.Run.Meta.Settings["L"]) }

// twoAtOnce finds two nodes on which a component ran at the same time.
func twoAtOnce(m *facts.Case, component string, lives []life) *Finding {
	for i, b := range lives {
		for _, a := range lives[:i] {
			if from, to := max(a.from, b.from), min(a.to, b.to); a.node != b.node && from < to {
				f := Failed("A component that supervisors elect must never run on two nodes: %s ran on %s and on %s, both from %s to %s.",
					component, a.node, b.node, text.When(from), text.When(to)).Took(time.Duration(to-from)).Shows(a.String(), b.String())
				if to-from <= lockLife(m) {
					f = f.Rests(from-lockLife(m), to)
				}
				return &f
			}
		}
	}
	return nil
}

// withoutLock finds a process that existed throughout a reading in which its node did not hold
// the lock.
func withoutLock(m *facts.Case, component string, lives []life, read record.Op) *Finding {
	for _, l := range lives {
		if l.from <= read.Call && l.to >= read.Return && l.node != read.Value {
			return Failed("A component that supervisors elect must run only where its lock is held: %s ran on %s while its lock was held by %s, as read from %s to %s.",
				component, l.node, cmp.Or(read.Value, "no node"), text.When(read.Call), text.When(read.Return)).Rests(read.Call-lockLife(m), read.Return).Shows(l.String(), text.Describe(read)).problem()
		}
	}
	return nil
}

// lockHolder returns the node that held the lock according to the last reading before t.
func lockHolder(reads []record.Op, t record.Nanos) (node string, known bool) {
	for _, r := range reads {
		if r.Outcome == record.OK && r.Return <= t {
			node, known = r.Value, true
		}
	}
	return node, known
}

// stopsAgain finds a time longer than the bound, until the fault was healed, in which the component
// ran on none of the nodes that were not hit, after it had run on one of them.
func stopsAgain(m *facts.Case, component string, first life, lives []life, bound verdict.Bound) *Finding {
	for _, l := range lives {
		if l.node == m.Fault.Node() || l.from < first.from || l.gone == 0 {
			continue
		}
		next := m.Fault.Healed.Called
		for _, other := range lives {
			if other.node != m.Fault.Node() && other.from > l.from {
				next = min(next, other.from)
			}
		}
		if gap := time.Duration(next - l.gone); gap > bound.Limit {
			return Failed("A component that supervisors elect must run on another node within %s of the %s, and not stop again: %s had exited on %s %s, and ran on no node but %s for %s.",
				bound, m.Fault.What(), component, l.node, text.At(l.gone), m.Fault.Node(), text.Short(gap)).Took(gap).Rests(l.gone, next).problem()
		}
	}
	return nil
}

// handedOver returns the node on which the component ran next, and after what time: the first
// life on another node after the fault during which that node was seen to hold the lock.
func handedOver(m *facts.Case, component string, lives []life, reads []record.Op, bound verdict.Bound) (to string, took time.Duration, f *Finding) {
	hit := m.Fault.Effect()
	for _, l := range lives {
		if l.node == m.Fault.Node() || l.from < hit {
			continue
		}
		holds := slices.ContainsFunc(reads, func(r record.Op) bool {
			return r.Outcome == record.OK && r.Value == l.node && r.Return >= hit && r.Call <= l.to
		})
		if !holds {
			continue
		}
		if took = time.Duration(l.from - hit); took > bound.Limit {
			return "", 0, Failed("A component that supervisors elect must run on another node within %s of the %s: %s ran on %s after %s.",
				bound, m.Fault.What(), component, l.node, text.Short(took)).Took(took).Rests(hit, l.from).problem()
		}
		return l.node, took, stopsAgain(m, component, l, lives, bound)
	}
	until := m.Fault.Healed.Called
	took = time.Duration(until - hit)
	if took <= bound.Limit {
		return "", 0, Inconclusive("%s ran on no other node, but the %s lasted for %s only, no longer than the bound of %s", component, m.Fault.What(), text.Short(took), bound).problem()
	}
	return "", 0, Failed("A component that supervisors elect must run on another node within %s of the %s: %s did not run on one for %s.",
		bound, m.Fault.What(), component, text.Short(took)).Took(took).Rests(hit, until).problem()
}
