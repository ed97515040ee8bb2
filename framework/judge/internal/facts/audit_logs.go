package facts

import (
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// auditLog is what the entries of an API server's audit log show of its clock.
type auditLog struct {
	// agree are the times, sorted, at which entries were read whose stamps agree with the
	// harness's clock, or would without the known shift of their own.
	agree []record.Nanos
	// ahead reports that some stamps are from long after their entries were read, though no fault
	// moved the clock. Then those of entries that were read late may agree by chance.
	ahead bool
	moved bool // a fault moved the clock
}

func auditLogs(run *record.Run, shifts []clockShift, margin time.Duration) map[string]*auditLog {
	logs := map[string]*auditLog{}
	for _, t := range run.Actions {
		l := logs[t.V.Via]
		if l == nil {
			l = &auditLog{moved: slices.ContainsFunc(clockFaults(run), func(inj *Injection) bool {
				return slices.Contains(inj.Nodes(), t.V.Via) && inj.Injected.Hits("kube-apiserver")
			})}
			logs[t.V.Via] = l
		}
		t = rebased(t, shifts, margin)
		if !doubtfulStamps(t, margin) {
			l.agree = append(l.agree, t.At)
		}
		l.ahead = l.ahead || !l.moved && text.Span(t.At, t.V.Completed) > margin
	}
	for _, l := range logs {
		slices.Sort(l.agree)
	}
	return logs
}

// agrees reports whether an entry that was read at about some time shows that the clock agrees
// with the harness's.
func (l *auditLog) agrees(t record.Nanos) bool {
	const about = record.Nanos(5 * time.Second)
	i, _ := slices.BinarySearch(l.agree, t-about)
	return i < len(l.agree) && l.agree[i] <= t+about
}

// late reports whether an entry was only read late, so that its stamps are right though they are
// older than those of an entry that is read in time. Where a fault moved the clock, they may be
// from before or after that.
func (l *auditLog) late(t record.Timed[record.Action]) bool {
	return !l.moved && !l.ahead && t.V.Received <= t.V.Completed && t.V.Completed < t.At && l.agrees(t.At)
}

// UnreadLog returns an API server that responded in a period when its audit log had been read for
// the last time in the record, so that requests that it received in that period may be unknown;
// empty if all logs were read. A log that is read again continues where it was.
func (m *Case) UnreadLog(g Gap) string {
	const slack = record.Nanos(5 * time.Second) // it is recorded once a second that a log is read
	for _, n := range NodeLives(m.Run) {
		read := n.From
		for _, a := range m.Run.Asked {
			if a.V.Via == n.Name && a.V.Verb == "" && a.At < n.Until {
				read = max(read, a.At)
			}
		}
		if Reachable(m.Run, n.Name, max(g.From, read+slack), min(g.To, n.Until)) {
			return n.Name
		}
	}
	return ""
}
