package facts

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// clockShift is a time in which faults had moved the clock of an API server by a constant. The
// stamps in its audit log are right once by is added.
type clockShift struct {
	Interval // of the entries' own times
	via      string
	by       record.Nanos
}

// clockShifts returns the shifts of all API servers that are known: those that the faults name, or
// those that enough entries of the audit log show.
func clockShifts(run *record.Run, margin time.Duration) (all []clockShift) {
	faults := clockFaults(run)
	for _, n := range NodeLives(run) {
		own := slices.DeleteFunc(slices.Clone(faults), func(inj *Injection) bool {
			return !slices.Contains(inj.Nodes(), n.Name) || !inj.Injected.Hits("kube-apiserver")
		})
		steps := clockSteps(own)
		for i, step := range steps {
			s := clockShift{via: n.Name, Interval: Interval{From: step.To, To: run.EndAt}}
			if i+1 < len(steps) {
				s.To = steps[i+1].From
			}
			active := slices.DeleteFunc(slices.Clone(own), func(inj *Injection) bool {
				return inj.Effect() > s.From || inj.Healed != nil && inj.Healed.Called < s.To
			})
			known := len(active) > 0 && s.From < s.To
			if known {
				s.by, known = shiftOf(run, active, s, record.Nanos(margin))
			}
			if known {
				all = append(all, s)
			}
		}
	}
	return all
}

func clockFaults(run *record.Run) []*Injection {
	return slices.DeleteFunc(slices.Collect(maps.Values(Injections(run))), func(inj *Injection) bool {
		return inj.Injected == nil || !inj.Injected.Has(record.EffectClock)
	})
}

// clockSteps returns the times in which faults were moving clocks, there or back.
func clockSteps(faults []*Injection) (steps []Interval) {
	for _, inj := range faults {
		steps = append(steps, Interval{inj.Injected.Called, inj.Effect()})
		if inj.Healed != nil {
			steps = append(steps, Interval{inj.Healed.Called, inj.HealEffect()})
		}
	}
	slices.SortFunc(steps, func(a, b Interval) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return steps
}

// shiftOf returns what the faults that were active in a time added to a clock, with the opposite
// sign. If they do not say so, it is the shortest time between a stamp and its entry, which is
// logged right after the stamp.
func shiftOf(run *record.Run, active []*Injection, s clockShift, margin record.Nanos) (by record.Nanos, known bool) {
	for _, inj := range active {
		offset, err := time.ParseDuration(inj.Injected.Params["offset"])
		if err != nil {
			return shownShift(run, s, margin)
		}
		by -= record.Nanos(offset)
	}
	return by, true
}

// shownShift leaves out the entries that may have been made before the time.
func shownShift(run *record.Run, s clockShift, margin record.Nanos) (by record.Nanos, known bool) {
	const enough = 3
	n := 0
	for _, a := range run.Actions {
		if a.V.Via != s.via || a.At < s.From+margin || a.At > s.To {
			continue
		}
		if lag := a.At - a.V.Completed; n == 0 || lag < by {
			by = lag
		}
		n++
	}
	return by, n >= enough
}

// rebased returns an entry of an audit log with stamps by the harness's clock, if those that it has
// come from a clock that a fault moved by a known time.
func rebased(t record.Timed[record.Action], shifts []clockShift, margin time.Duration) record.Timed[record.Action] {
	if !doubtfulStamps(t, margin) {
		return t
	}
	for _, s := range shifts {
		if s.via != t.V.Via || t.At < s.From || t.At > s.To {
			continue
		}
		right := t
		right.V.Received, right.V.Completed = t.V.Received+s.by, t.V.Completed+s.by
		if !doubtfulStamps(right, margin) {
			return right
		}
	}
	return t
}

// clockMoving reports whether a fault was moving the clock of a node, there or back, at some time
// or shortly before: its stamps may be from before or after that.
func (m *Case) clockMoving(node string, at record.Nanos) bool {
	own := slices.DeleteFunc(clockFaults(m.Run), func(inj *Injection) bool { return !slices.Contains(inj.Nodes(), node) })
	margin := record.Nanos(m.Run.Meta.Settings["M"])
	return slices.ContainsFunc(clockSteps(own), func(s Interval) bool { return at >= s.From && at <= s.To+margin })
}
