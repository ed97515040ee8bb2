package facts

import (
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// Fate describes what happened to the process before a state.
func Fate(p record.ProcessState) string {
	how := ""
	if p.LastExit != "" {
		how = " (" + p.LastExit + ")"
	}
	if p.PID == 0 {
		return "had exited" + how
	}
	return "had exited and been started again" + how
}

// SameLife reports whether two states are of one process.
func SameLife(a, b record.ProcessState) bool {
	return a.PID == b.PID && a.StartTicks == b.StartTicks && a.Restarts == b.Restarts
}

// SameProcess reports whether a component was seen to run between two moments, as the same
// process throughout. One that was not seen for a while is the same if it is so afterwards.
func SameProcess(run *record.Run, node, component string, from, to record.Nanos) bool {
	var at *record.ProcessState
	silent := false
	for i := range run.Processes {
		p := &run.Processes[i].V
		if p.Node != node || p.Component != component {
			continue
		}
		if run.Processes[i].At > to {
			break
		}
		if silent = p.Error != ""; silent {
			continue
		}
		if run.Processes[i].At <= from {
			at = p
			continue
		}
		if at == nil || !SameLife(*at, *p) {
			return false
		}
	}
	return at != nil && at.PID > 0 && !silent
}

// KeptProcess returns the process that a component was before one time and, as far as was seen,
// still was after another. It reports false if it was not seen as the same process at both. The
// record has only changes: until the node was queried for the last time before one, the component
// was as in its previous entry.
func KeptProcess(run *record.Run, node, component string, from, to record.Nanos) (kept record.ProcessState, same bool) {
	var last record.ProcessState
	for at, v := range record.Each(run.Processes) {
		if v.Node != node || v.Component != component {
			continue
		}
		if v.Before >= to && identified(last) && SameLife(kept, last) {
			return kept, true
		}
		last = v
		switch {
		case !identified(v):
		case at <= from:
			kept = v
		case v.Asked >= to:
			return kept, SameLife(kept, v)
		}
	}
	return kept, false
}

// identified reports whether a state is of a process that runs and can be told from others.
func identified(p record.ProcessState) bool {
	return p.Error == "" && p.PID > 0 && p.StartTicks > 0 && p.State != "Z"
}

// LookedAt is the usual time between two checks of a process on a node that reports, at most, for
// records that do not say when it was checked before: they have only changes.
const LookedAt = 5 * time.Second

// FirstAt is when the first correct entry of a list from a time on was made; endless for none.
func FirstAt[T any](list []record.Timed[T], from record.Nanos, holds func(T) bool) record.Nanos {
	first := Endless
	for _, e := range list {
		if e.At >= from && holds(e.V) {
			first = min(first, e.At)
		}
	}
	return first
}
