// Package expiry ends faults when their time is over, whether or not the harness that injected
// them still runs.
//
// Each active fault has a timer under a key. When its time is over the timer undoes it, and
// retries every second until that succeeds: a disk may be temporarily full, or an API server
// down. The owner records what is active; a process that takes over, such as a restarted node
// agent, starts timers for the remaining time of the faults that it finds.
package expiry

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// Pause is the time between two attempts to end a fault.
const Pause = time.Second

// Timers are the timers of one owner's active faults, by key. The owner's lock, which guards
// what its faults change, also guards them: callers of every method hold it.
type Timers[K comparable] struct {
	active map[K]*time.Timer
	// busy are the keys whose end runs, which may have released the lock.
	busy map[K]bool
}

// Start ends the fault under key by calling end, with the owner's lock held, once left has
// passed, and again every Pause until end returns nil. It replaces the timer of the key.
func (t *Timers[K]) Start(lock sync.Locker, key K, left time.Duration, end func() error) {
	t.Stop(key)
	if t.active == nil {
		t.active, t.busy = map[K]*time.Timer{}, map[K]bool{}
	}
	var timer *time.Timer
	timer = time.AfterFunc(max(0, left), func() {
		lock.Lock()
		defer lock.Unlock()
		if t.active[key] != timer {
			return // stopped or replaced while it waited for the lock
		}
		if t.busy[key] {
			timer.Reset(Pause)
			return
		}
		t.busy[key] = true
		err := end()
		delete(t.busy, key)
		switch {
		case t.active[key] != timer: // end stopped it, or released the lock for a while
		case err == nil:
			delete(t.active, key)
		default:
			fmt.Fprintf(os.Stderr, "holdfast: failed to heal an expired fault: %v; trying again\n", err)
			timer.Reset(Pause)
		}
	})
	t.active[key] = timer
}

// Stop stops the timer of a fault that was ended in another way.
func (t *Timers[K]) Stop(key K) {
	if timer := t.active[key]; timer != nil {
		timer.Stop()
		delete(t.active, key)
	}
}

// Hurry ends all faults now, as if their time was over. An attempt that is under way continues.
func (t *Timers[K]) Hurry() {
	for key, timer := range t.active {
		if !t.busy[key] {
			timer.Reset(0)
		}
	}
}

// StopAll stops all timers and leaves the faults as they are: what they changed is gone, or
// another process ends them.
func (t *Timers[K]) StopAll() {
	for key := range t.active {
		t.Stop(key)
	}
}

// Len returns the number of active faults.
func (t *Timers[K]) Len() int { return len(t.active) }
