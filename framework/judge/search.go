package judge

import (
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	// searchRoom bounds what one search may remember, in bytes: without it, a
	// history with many writes of unknown outcome takes all memory of the
	// machine long before it takes all of its time.
	searchRoom = 256 << 20
	// stateRoom is about what the checker keeps for one state that it has been in,
	// apart from a bit for each operation.
	stateRoom = 256
	// smallSearch bounds the steps of a search that is one of many.
	smallSearch = 20_000
)

// search is porcupine's, bounded. What ends it before its time depends on the
// history alone and never on the machine's speed.
type search struct {
	time  *allowance
	room  int64 // bytes to be remembered
	steps int64 // no limit where 0
}

// allowance is the computing time that several searches share.
type allowance struct {
	timer *time.Timer
	spent bool
}

func newAllowance(limit time.Duration) *allowance { return &allowance{timer: time.NewTimer(limit)} }

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
func (s search) within(steps int64) search {
	s.steps = steps
	return s
}

// check returns Unknown where a bound was met. The checker then runs out of steps
// that it may take, and comes to its end at once.
func (s search) check(model porcupine.Model, ops []porcupine.Operation) porcupine.CheckResult {
	if s.time.exceeded() {
		return porcupine.Unknown
	}
	step := model.Step
	exhausted, room, steps := false, s.room/int64(stateRoom+len(ops)/8), int64(0) // room in states
	model.Partition = nil                                                         // the operations are those of one key, so one goroutine takes all steps
	model.Step = func(state, input, output any) (bool, any) {
		steps++
		if exhausted || room <= 0 || s.steps > 0 && steps > s.steps || steps%64 == 0 && s.time.exceeded() {
			exhausted = true
			return false, state
		}
		ok, next := step(state, input, output)
		if ok {
			room--
		}
		return ok, next
	}
	// The checker asks whether it has been in a state: then it does not keep it again.
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
