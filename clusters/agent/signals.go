package agent

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/internal/expiry"
)

const (
	// StopGrace is how long a component may take to exit after SIGTERM before it is killed: the
	// kubelet's default for a pod.
	StopGrace = 30 * time.Second
	// retryPause is the time before failed healing is retried, for example when a disk is
	// temporarily full.
	retryPause = expiry.Pause
	// keepLimit is how long a keeper may take.
	keepLimit = 10 * time.Second
)

// Errors of faults on processes; each is framework.ErrNothingDone.
const (
	ErrNotRunning = agenthttp.NothingDone("it is not running")
	ErrNoTTL      = agenthttp.NothingDone("it needs a time to live above zero")
	ErrCrashLoop  = agenthttp.NothingDone("it is already in a crash loop")
	ErrFrozen     = agenthttp.NothingDone("it is already frozen")
)

// begin finds the process to kill, which is nil between two processes, and begins to hold the component
// down. If a hold is already active, or none is requested, there is nothing to do. With mu held.
func (w *watcher) begin(hold time.Duration) (*process, error) {
	w.look()
	if (w.proc == nil || w.proc.stray) && (hold <= 0 || w.down()) {
		return nil, ErrNotRunning
	}
	if hold <= 0 {
		return w.proc, nil
	}
	before := w.saved().HoldUntil
	if err := w.update(func(st *componentState) { st.HoldUntil = time.Now().Add(hold) }); err != nil {
		w.note(func(st *componentState) { st.HoldUntil = before })
		return nil, agenthttp.NothingDone(err.Error())
	}
	w.ending = false
	w.holdFor(hold)
	return w.proc, nil
}

// kill kills the component without notice. The keeper holds it down before that, unless the
// hold itself would stop it gracefully.
func (w *watcher) kill(ctx context.Context, hold time.Duration) error {
	w.mu.Lock()
	p, err := w.begin(hold)
	if err == nil && hold > 0 && w.keep.early() {
		err = w.keepDown(ctx)
	}
	if err == nil && p != nil {
		err = p.signal(syscall.SIGKILL)
	}
	if err == nil && hold > 0 && !w.keep.early() {
		err = w.keepDown(ctx)
	}
	w.mu.Unlock()
	if err != nil {
		return err
	}
	return w.awaitDown(ctx, p, hold > 0)
}

// awaitDown returns when a process has exited and, if the component is held down, each process
// that was started before the hold took effect.
func (w *watcher) awaitDown(ctx context.Context, p *process, held bool) error {
	for p != nil {
		select {
		case <-p.gone:
		case <-ctx.Done():
			return fmt.Errorf("process %d has not exited: %w", p.pid, context.Cause(ctx))
		}
		if !held {
			return nil
		}
		w.mu.Lock()
		w.look()
		p, held = w.proc, w.held()
		w.mu.Unlock()
	}
	return nil
}

// keepDown makes the keeper leave the component down, or cancels the hold; with mu held.
func (w *watcher) keepDown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepLimit)
	defer cancel()
	if err := w.keep.hold(ctx); err != nil {
		endErr := w.endHold(ctx)
		if endErr != nil {
			w.holdFor(retryPause)
		}
		return errors.Join(fmt.Errorf("failed to hold it down: %w", err), endErr)
	}
	return nil
}

// stop ends the component gracefully, if it can. The hold counts from its exit, plus the time
// until then. It continues when ctx ends.
func (w *watcher) stop(ctx context.Context, hold time.Duration) error {
	first := hold
	if hold > 0 {
		first += StopGrace + retryPause
	}
	w.mu.Lock()
	p, err := w.begin(first)
	if err == nil && p != nil {
		err = p.signal(syscall.SIGTERM)
	}
	w.mu.Unlock()
	if err != nil {
		return err
	}
	stopped := make(chan error, 1)
	go func() { stopped <- w.stopped(p, hold) }()
	select {
	case err := <-stopped:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stopped waits for the exit of a process that was asked to stop, and then holds the component
// down. Not before: the shim reads the output of the process, so without it a process that
// writes much during shutdown would not exit, and a unit would be stopped a second time, upon
// which some programs drop everything.
func (w *watcher) stopped(p *process, hold time.Duration) error {
	if p != nil {
		grace := time.NewTimer(StopGrace)
		defer grace.Stop()
		select {
		case <-p.gone:
		case <-grace.C:
			w.mu.Lock()
			if w.proc == p {
				_ = p.signal(syscall.SIGKILL)
			}
			w.mu.Unlock()
			<-p.gone
		}
	}
	w.mu.Lock()
	if hold <= 0 || !w.held() { // it was started again since
		w.mu.Unlock()
		return nil
	}
	w.note(func(st *componentState) { st.HoldUntil = time.Now().Add(hold) })
	w.holdFor(hold)
	err := w.keepDown(context.Background())
	w.look()
	p = w.proc
	w.mu.Unlock()
	if err != nil {
		return err
	}
	return w.awaitDown(context.Background(), p, true)
}

// holdFor ends the hold later; with mu held.
func (w *watcher) holdFor(d time.Duration) {
	w.timers.Start(changes{w}, holding, d, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), keepLimit)
		defer cancel()
		return w.endHold(ctx)
	})
}

// endHold ends a hold, if there is one, and has the component started; with mu held. If systemd does
// not start it, what else starts it ends the hold as well, and is not killed from then on.
func (w *watcher) endHold(ctx context.Context) error {
	w.ending = true
	if err := w.keep.release(ctx); err != nil {
		if w.look(); w.spec.Unit == "" || w.proc == nil || w.proc.killed.Load() {
			return fmt.Errorf("failed to release the hold on %s: %w", w.spec.Name, err)
		}
	}
	w.ending = false
	w.timers.Stop(holding)
	if w.held() {
		w.note(func(st *componentState) { st.HoldUntil = time.Time{} })
		w.hurryLater()
	}
	return nil
}

// startPatience is how long a component may stay down after a hold. The kubelet waits 10 s before the
// first restart (https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#container-restarts),
// to which its pod worker adds up to half, and a slow node needs time to start the container. For a
// component that had exited before in the last ten minutes it waits up to five minutes, which says
// nothing about the cluster: the faults of this and of earlier experiments caused it.
const startPatience = 30 * time.Second

// hurryLater ends the back-off of a component that nothing has started for startPatience; with mu
// held.
func (w *watcher) hurryLater() {
	w.stopHurry()
	w.late = time.AfterFunc(startPatience, func() {
		ctx, cancel := context.WithTimeout(context.Background(), keepLimit)
		defer cancel()
		w.mu.Lock()
		defer w.mu.Unlock()
		if err := w.hurry(ctx, w.held()); err != nil {
			complain(fmt.Errorf("%s: %w", w.spec.Name, err))
		}
	})
}

// stopHurry leaves the next back-off alone; with mu held.
func (w *watcher) stopHurry() {
	if w.late != nil {
		w.late.Stop()
	}
}

// start ends a hold, and the back-off of a restart.
func (w *watcher) start(ctx context.Context) error {
	w.changing.Lock()
	defer w.changing.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	held := w.held()
	if err := w.endHold(ctx); err != nil {
		w.holdFor(retryPause)
		return err
	}
	return w.hurry(ctx, held)
}

// hurry ends the back-off of a restart if nothing runs; with mu held. A component that was held
// down until now is being started anyway.
func (w *watcher) hurry(ctx context.Context, held bool) error {
	if w.look(); w.proc != nil || held {
		return nil
	}
	if err := w.keep.hurry(ctx); err != nil {
		return fmt.Errorf("failed to start it: %w", err)
	}
	return nil
}

func (w *watcher) freeze(ttl time.Duration) error {
	if ttl <= 0 {
		return ErrNoTTL
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.look()
	switch {
	case w.proc == nil:
		return ErrNotRunning
	case !w.saved().ThawAt.IsZero():
		return ErrFrozen
	}
	if err := w.update(func(st *componentState) { st.ThawAt = time.Now().Add(ttl) }); err != nil {
		w.note(func(st *componentState) { st.ThawAt = time.Time{} })
		return agenthttp.NothingDone(err.Error())
	}
	w.thawIn(ttl)
	return w.proc.signal(syscall.SIGSTOP)
}

// thawIn thaws the component later; with mu held.
func (w *watcher) thawIn(d time.Duration) {
	w.timers.Start(&w.mu, freezing, d, w.endFreeze)
}

func (w *watcher) thaw() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timers.Stop(freezing)
	return w.endFreeze()
}

// endFreeze is thaw with mu held.
func (w *watcher) endFreeze() error {
	if !w.saved().ThawAt.IsZero() {
		w.note(func(st *componentState) { st.ThawAt = time.Time{} })
	}
	if w.look(); w.proc == nil {
		return nil
	}
	return w.proc.signal(syscall.SIGCONT)
}

// crashLoop kills the component now and after each start, until ttl has passed.
func (w *watcher) crashLoop(after, ttl time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.look()
	switch {
	case ttl <= 0:
		return ErrNoTTL
	case w.proc == nil:
		return ErrNotRunning
	case time.Now().Before(w.saved().CrashUntil):
		return ErrCrashLoop
	}
	err := w.update(func(st *componentState) { st.CrashAfter, st.CrashUntil = after, time.Now().Add(ttl) })
	if err != nil {
		w.note(func(st *componentState) { st.CrashUntil = time.Time{} })
		return agenthttp.NothingDone(err.Error())
	}
	w.endCrashLoopIn(ttl)
	return w.proc.signal(syscall.SIGKILL)
}

// endCrashLoopIn ends the crash loop later; with mu held.
func (w *watcher) endCrashLoopIn(d time.Duration) {
	w.timers.Start(&w.mu, looping, d, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), keepLimit)
		defer cancel()
		return w.endLoop(ctx)
	})
}

// crashLater kills a process that has just been found, if the component is in a crash loop;
// with mu held. The time counts from its start.
func (w *watcher) crashLater() {
	p, saved := w.proc, w.saved()
	if !time.Now().Before(saved.CrashUntil) {
		return
	}
	w.crashing = time.AfterFunc(max(0, time.Until(saved.Started.Add(saved.CrashAfter))), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.proc == p && time.Now().Before(w.saved().CrashUntil) {
			_ = p.signal(syscall.SIGKILL)
		}
	})
}

// endCrashLoop ends the crash loop, and the back-off that it caused.
func (w *watcher) endCrashLoop(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timers.Stop(looping)
	err := w.endLoop(ctx)
	if err != nil {
		w.endCrashLoopIn(retryPause)
	}
	return err
}

// endLoop is endCrashLoop with mu held.
func (w *watcher) endLoop(ctx context.Context) error {
	if w.crashing != nil {
		w.crashing.Stop()
	}
	if w.saved().CrashUntil.IsZero() {
		return nil
	}
	// The past: nothing is killed any more, and the end is tried again until the back-off is over.
	w.note(func(st *componentState) { st.CrashUntil = time.Now() })
	if err := w.hurry(ctx, w.held()); err != nil {
		return err
	}
	w.note(func(st *componentState) { st.CrashUntil = time.Time{} })
	return nil
}
