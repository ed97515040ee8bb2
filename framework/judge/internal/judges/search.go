package judges

import (
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	// SearchRoom limits the memory of one search, in bytes: without it, a history with many
	// writes of unknown outcome uses up all memory of the machine long before its time is over.
	SearchRoom = 256 << 20
	// stateRoom is about what the checker keeps for one visited state, apart from a bit for each
	// operation.
	stateRoom = 256
	// smallSearch limits the steps of a search that is one of many.
	smallSearch = 20_000
)

// Search is porcupine's search with limits. Whether it stops early depends on the history alone
// and never on the machine's speed.
type Search struct {
	Time  *allowance
	Room  int64 // bytes of memory
	steps int64 // no limit if 0
}

// allowance is the CPU time that several searches share.
type allowance struct {
	timer *time.Timer
	spent bool
}

func NewAllowance(limit time.Duration) *allowance { return &allowance{timer: time.NewTimer(limit)} }

func (a *allowance) exceeded() bool {
	if !a.spent {
		select {
		case <-a.timer.C:
			a.spent = true
		default:
		}
	}
	return a.spent
}

// within is the same search with a limit of steps.
func (s Search) within(steps int64) Search {
	s.steps = steps
	return s
}

// Check returns Unknown if a limit was reached. The checker then has no steps left, and finishes
// immediately.
func (s Search) Check(model porcupine.Model, ops []porcupine.Operation) porcupine.CheckResult {
	if s.Time.exceeded() {
		return porcupine.Unknown
	}
	step := model.Step
	exhausted, room, steps := false, s.Room/int64(stateRoom+len(ops)/8), int64(0) // room in states
	model.Step = func(state, input, output any) (bool, any) {
		steps++
		if exhausted || room <= 0 || s.steps > 0 && steps > s.steps || steps%64 == 0 && s.Time.exceeded() {
			exhausted = true
			return false, state
		}
		ok, next := step(state, input, output)
		if ok {
			room--
		}
		return ok, next
	}
	// The checker asks whether it has visited a state: then it does not store it again.
	model.Equal = func(a, b any) bool {
		if a == b {
			room++
		}
		return a == b
	}
	result := porcupine.CheckOperationsTimeout(model, ops, 0)
	if exhausted {
		return porcupine.Unknown
	}
	return result
}
