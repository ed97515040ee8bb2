package agent

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/internal/expiry"
	"github.com/holdfast-ha/holdfast/clusters/procfs"
	"github.com/holdfast-ha/holdfast/framework"
)

// lookPause is the time between two searches for the process of a component that is down.
const lookPause = 50 * time.Millisecond

// watcher sees the processes of one component come and go, and applies faults to them. Its
// keeper controls what starts them: the kubelet, systemd, or the agent itself.
type watcher struct {
	store *store
	spec  Component
	keep  keeper

	// changing is held, and taken before mu, while the data of the component are changed: no
	// hold ends in that time.
	changing sync.Mutex

	mu       sync.Mutex
	proc     *process    // nil if nothing runs
	began    time.Time   // when the last process was seen first
	ending   bool        // the hold is over, and the component could not be started yet
	crashing *time.Timer // kills the running process
	late     *time.Timer // ends the back-off of one that stays down after a hold
	timers   expiry.Timers[string]
}

// Each fault on a component ends by a timer under one of these keys.
const (
	holding  = "hold"
	freezing = "freeze"
	looping  = "crash loop"
)

// errFixed refuses what needs a start with other arguments.
const errFixed = agenthttp.NothingDone("the member's arguments cannot be changed here")

// fixed reports whether the agent cannot change the arguments with which the component starts.
func (w *watcher) fixed() bool { return w.spec.Exec == nil && w.spec.Manifest == "" }

// changes are the locks to take to end a hold: both of a watcher's.
type changes struct{ w *watcher }

func (c changes) Lock()   { c.w.changing.Lock(); c.w.mu.Lock() }
func (c changes) Unlock() { c.w.mu.Unlock(); c.w.changing.Unlock() }

func newWatcher(s *store, spec Component, clocks *clocks) *watcher {
	w := &watcher{store: s, spec: spec}
	w.keep = keeperOf(w, clocks)
	s.read(func(st *state) {
		if st.Components[spec.Name] == nil {
			st.Components[spec.Name] = &componentState{}
		}
		if spec.Exec == nil {
			st.Components[spec.Name].Spec = spec
		}
	})
	return w
}

// resume takes over what an earlier agent left. After a restart of the node nothing is left:
// faults on processes do not survive it. If the data of the component are being put back already, it
// waits for that.
func (w *watcher) resume(ctx context.Context, restarted bool) {
	c := changes{w}
	c.Lock()
	defer c.Unlock()
	if restarted {
		w.note(func(st *componentState) {
			restarts := st.Restarts
			if !st.Started.IsZero() {
				restarts++ // for the kubelet this start, too, is that of a container that had exited
			}
			*st = componentState{HoldUntil: st.HoldUntil, Stopped: st.Stopped, Restarts: restarts, Spec: st.Spec}
		})
	}
	if s, ok := w.keep.(*starter); ok {
		s.adopt()
	}
	saved := w.saved()
	if left := time.Until(saved.HoldUntil); left > 0 && !restarted {
		if err := w.keep.hold(ctx); err != nil {
			complain(fmt.Errorf("failed to hold %s down again: %w", w.spec.Name, err))
		}
		w.holdFor(left)
		if w.look(); w.proc != nil { // that agent had not come as far, or had asked it to exit
			_ = w.proc.signal(syscall.SIGKILL)
		}
	} else if w.held() || w.spec.Manifest != "" { // a shim may be stopped, or a manifest away, without a hold
		if err := w.endHold(ctx); err != nil {
			complain(err)
			w.holdFor(retryPause)
		}
	}
	w.look()
	if saved = w.saved(); !saved.ThawAt.IsZero() {
		w.thawIn(time.Until(saved.ThawAt))
	}
	if !saved.CrashUntil.IsZero() {
		w.endCrashLoopIn(time.Until(saved.CrashUntil))
	}
}

// run notices the component's processes until ctx ends.
func (w *watcher) run(ctx context.Context) {
	if s, ok := w.keep.(*starter); ok {
		s.run(ctx)
		return
	}
	pause := time.NewTicker(lookPause)
	defer pause.Stop()
	for {
		w.mu.Lock()
		w.look()
		p := w.proc
		w.mu.Unlock()
		if p != nil {
			select {
			case <-p.gone:
				continue
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
	}
}

// look finds the component's process if none is known, unless the agent starts it; with mu
// held.
func (w *watcher) look() {
	if w.proc != nil || w.spec.Exec != nil {
		return
	}
	p, err := findProcess(w.spec)
	if err != nil {
		complain(err)
	}
	if p == nil {
		if saved := w.saved(); saved.PID != 0 { // it exited while no agent ran
			w.note(func(st *componentState) { st.PID, st.StartTicks, st.LastExit = 0, 0, unknownExit })
		}
		return
	}
	w.runs(p)
}

// runs records a process; with mu held. A process that starts while the component is held down
// is killed and does not count: the hold had not taken effect yet, the pod has a new sandbox, whose
// shim must not start another one, or systemd started the unit because another one requires it.
func (w *watcher) runs(p *process) {
	w.proc, w.began = p, time.Now()
	w.stopHurry()
	saved := w.saved()
	known := saved.PID == p.pid && saved.StartTicks == p.ticks
	p.stray = !known && !saved.HoldUntil.IsZero() && !w.ending
	if saved.Shim != p.shim {
		w.note(func(st *componentState) { st.Shim = p.shim })
	}
	switch {
	case p.stray:
		// A keeper whose hold would stop the process gracefully comes after the kill, as in kill.
		if !w.keep.early() {
			_ = p.signal(syscall.SIGKILL)
		}
		ctx, cancel := context.WithTimeout(context.Background(), keepLimit)
		defer cancel()
		if err := w.keep.hold(ctx); err != nil {
			complain(fmt.Errorf("failed to hold %s down: %w", w.spec.Name, err))
		}
		_ = p.signal(syscall.SIGKILL)
	case !known:
		began, err := procfs.Started(p.ticks)
		if err != nil {
			began = time.Now()
		}
		w.note(func(st *componentState) {
			if !st.Started.IsZero() {
				st.Restarts++
			} else if w.spec.Manifest != "" {
				st.Restarts = max(st.Restarts, manifest(w.spec.Manifest).recentExits(podLogs, time.Now()))
			}
			if st.PID != 0 {
				st.LastExit = unknownExit
			}
			st.PID, st.StartTicks, st.Started, st.ThawAt = p.pid, p.ticks, began, time.Time{}
		})
	}
	w.crashLater()
	go func() {
		p.awaitEnd()
		w.ended(p, p.exit())
	}()
}

func (w *watcher) ended(p *process, how string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !p.stray {
		w.note(func(st *componentState) { st.PID, st.StartTicks, st.LastExit = 0, 0, how })
	}
	w.proc = nil
	p.close()
	close(p.gone)
}

// current returns the component's process; nil if none runs.
func (w *watcher) current() *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.look()
	return w.proc
}

func (w *watcher) saved() (c componentState) {
	w.store.read(func(st *state) { c = *st.Components[w.spec.Name] })
	return c
}

func (w *watcher) update(change func(*componentState)) error {
	return w.store.update(func(st *state) { change(st.Components[w.spec.Name]) })
}

func (w *watcher) note(change func(*componentState)) {
	w.store.note(func(st *state) { change(st.Components[w.spec.Name]) })
}

// held reports whether the component must be left down.
func (w *watcher) held() bool { return !w.saved().HoldUntil.IsZero() }

// process returns the component's current state.
func (w *watcher) process() framework.Process {
	for {
		w.mu.Lock()
		w.look()
		p, saved, standby := w.proc, w.saved(), w.standsBy()
		w.mu.Unlock()
		now := framework.Process{Component: w.spec.Name, Started: saved.Started, Restarts: saved.Restarts,
			LastExit: saved.LastExit, Held: !saved.HoldUntil.IsZero(), CrashLooped: time.Now().Before(saved.CrashUntil)}
		if p == nil {
			now.Standby = standby
			return now
		}
		st, err := procfs.ReadStat("/proc", p.pid)
		if p.stray || err != nil || st.StartTicks != p.ticks || st.Ended() {
			<-p.gone // it is being killed, or its exit status is being read
			continue
		}
		now.PID, now.StartTicks, now.State = p.pid, p.ticks, st.State
		return now
	}
}
