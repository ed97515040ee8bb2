package disk

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/holdfast-ha/holdfast/framework"
)

// operation is a request's type, as far as the gate needs it.
type operation uint8

const (
	opLook operation = iota // looks at names and attributes
	opRead
	opWrite  // takes space: data, allocations, new names
	opChange // takes no space: removals, renames, attributes
	opSync   // fsync and fdatasync
)

// gate is passed by every request before it is carried out: here it is delayed or refused.
type gate struct {
	rules  atomic.Pointer[[]*rule] // active; nil or empty for none
	frozen atomic.Pointer[chan struct{}]
	closed chan struct{}
	// busy is held for reading by each request that is being carried out.
	busy sync.RWMutex

	randMu sync.Mutex
	rand   *rand.Rand
}

// rule is an active fault.
type rule struct {
	framework.DiskFault
	free                           atomic.Int64
	matched, delayed, failed, lied atomic.Uint64
	ended                          chan struct{}
}

func newRule(f framework.DiskFault) *rule {
	r := &rule{DiskFault: f, ended: make(chan struct{})}
	r.free.Store(f.Free)
	return r
}

func (r *rule) counters() framework.DiskCounters {
	return framework.DiskCounters{Matched: r.matched.Load(), Delayed: r.delayed.Load(), Failed: r.failed.Load(), Lied: r.lied.Load()}
}

func (r *rule) covers(o operation) bool {
	if r.Full {
		return o == opWrite
	}
	if r.Lie {
		return o == opSync
	}
	switch r.Op {
	case framework.DiskFsync:
		return o == opSync
	case framework.DiskRead:
		return o == opRead
	case framework.DiskWrite:
		return o == opWrite || o == opChange
	}
	return o != opLook
}

// caller is the process that waits for the answer to a request.
type caller struct {
	cancel <-chan struct{}
	thread uint32
}

func (g *gate) chance(share float64) bool {
	if share >= 1 {
		return true
	}
	g.randMu.Lock()
	defer g.randMu.Unlock()
	return g.rand.Float64() < share
}

func (g *gate) vary(delay, jitter time.Duration) time.Duration {
	if jitter == 0 {
		return delay
	}
	g.randMu.Lock()
	defer g.randMu.Unlock()
	return max(0, delay+time.Duration((2*g.rand.Float64()-1)*float64(jitter)))
}

// enter delays a request as the active faults require and returns their answer instead of the
// disk's. With OK the request may be carried out and leave must be called; lie says that a sync
// must be skipped. n is the space that a write needs.
func (g *gate) enter(c caller, o operation, n int64) (lie bool, status fuse.Status) {
	if rules := g.rules.Load(); rules != nil {
		for _, r := range *rules {
			if !r.covers(o) {
				continue
			}
			l, status := g.apply(r, c, n)
			lie = lie || l
			if status != fuse.OK {
				return false, status
			}
		}
	}
	for {
		if f := g.frozen.Load(); f != nil && !g.wait(c, *f, nil) {
			return false, fuse.EINTR
		}
		g.busy.RLock()
		if g.frozen.Load() == nil {
			return lie, fuse.OK
		}
		g.busy.RUnlock()
	}
}

func (g *gate) leave() { g.busy.RUnlock() }

// apply applies one fault to a request.
func (g *gate) apply(r *rule, c caller, n int64) (lie bool, status fuse.Status) {
	r.matched.Add(1)
	if r.Delay > 0 {
		r.delayed.Add(1)
		timer := time.NewTimer(g.vary(r.Delay, r.Jitter))
		defer timer.Stop()
		if !g.wait(c, r.ended, timer.C) {
			return false, fuse.EINTR
		}
	}
	switch {
	case r.Lie:
		r.lied.Add(1)
		return true, fuse.OK
	case r.Full:
		if left := r.free.Add(-n); left < 0 || n == 0 && left == 0 {
			r.free.Add(n)
			r.failed.Add(1)
			return false, fuse.Status(syscall.ENOSPC)
		}
	case r.Error != "" && g.chance(r.Share):
		r.failed.Add(1)
		return false, fuse.Status(errnos[r.Error])
	}
	return false, fuse.OK
}

// errnos are the errors that a disk can be made to return.
var errnos = map[string]syscall.Errno{"EIO": syscall.EIO, "EROFS": syscall.EROFS}

// dyingPoll is the interval of checks on an interrupted caller.
const dyingPoll = 10 * time.Millisecond

// wait returns true when the event comes or the time is up, and false when the caller no longer
// waits for the answer.
//
// The kernel reports only the first signal to a waiting thread. An answer of EINTR reaches the
// program, and databases take it for a failed write; Go programs get such signals all the time,
// from their own scheduler. So an interrupted thread is watched, and its request dropped only
// when it is being killed: until then it waits for the answer, and cannot exit without one.
func (g *gate) wait(c caller, event <-chan struct{}, timer <-chan time.Time) bool {
	var poll <-chan time.Time
	for {
		select {
		case <-event:
			return true
		case <-timer:
			return true
		case <-g.closed:
			return false
		case <-c.cancel:
			c.cancel = nil
			ticker := time.NewTicker(dyingPoll)
			defer ticker.Stop()
			poll = ticker.C
		case <-poll:
		}
		if dying(c.thread) {
			return false
		}
	}
}

// dying reports whether a thread has exited or SIGKILL is pending for it.
func dying(thread uint32) bool {
	if thread == 0 {
		return false // the kernel's own request
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", thread))
	if err != nil {
		return true
	}
	for _, field := range []string{"\nSigPnd:\t", "\nShdPnd:\t"} {
		_, rest, ok := bytes.Cut(b, []byte(field))
		if !ok {
			continue
		}
		mask, _, _ := bytes.Cut(rest, []byte("\n"))
		signals, err := strconv.ParseUint(string(mask), 16, 64)
		if err == nil && signals&(1<<(syscall.SIGKILL-1)) != 0 {
			return true
		}
	}
	return false
}

// freeze blocks every request until thaw, once the running ones are done.
func (g *gate) freeze() {
	thawed := make(chan struct{})
	g.frozen.CompareAndSwap(nil, &thawed)
	g.busy.Lock() // which waits for those inside
	defer g.busy.Unlock()
}

func (g *gate) thaw() {
	if f := g.frozen.Swap(nil); f != nil {
		close(*f)
	}
}

// free returns how much space a full disk has left, and whether one is full.
func (g *gate) free() (left int64, full bool) {
	if rules := g.rules.Load(); rules != nil {
		for _, r := range *rules {
			if r.Full && (!full || r.free.Load() < left) {
				left, full = r.free.Load(), true
			}
		}
	}
	return max(left, 0), full
}
