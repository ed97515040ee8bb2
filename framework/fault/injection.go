package fault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/members"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// Limits of waiting. They are far above what the fault itself needs, so that a working fault is
// not left without proof on a slow machine; the caller's context can cut them short.
const (
	// effectLimit is how long an injection waits for its effect.
	effectLimit = 5 * time.Second
	// healLimit is how long healing waits for its proof: the longest
	// recovery limit of the catalogue.
	healLimit = 60 * time.Second
	// undoLimit is how long a failed injection tries to undo its possible effects.
	undoLimit = 5 * time.Second
	// tryLimit is how long one request of a proof may take.
	tryLimit = members.TryLimit
	// lastLimit is how long healing checks whether the fault still has its effect: a process that is
	// held down may run briefly after each start.
	lastLimit = time.Second
)

// Pauses between two checks. Injection latency is measured, so the first checks come in quick
// succession; later ones should cost the cluster nothing.
const (
	firstPause   = time.Millisecond
	longestPause = 50 * time.Millisecond
)

// look reports whether the awaited condition holds, and what was seen.
type look func(ctx context.Context) (held bool, seen string)

// await checks until the condition holds, limit has passed or ctx is done. It returns when the
// condition was first seen to hold, if it did, and what was seen last: of a check that the end of the
// time cut short, only if it was the first.
func await(ctx context.Context, limit time.Duration, l look) (at time.Time, held bool, seen string) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	for pause := firstPause; ; pause = min(pause*3/2, longestPause) {
		held, now := l(ctx)
		if held {
			return time.Now(), true, now
		}
		if seen == "" || ctx.Err() == nil {
			seen = now
		}
		if !client.Pause(ctx, pause) {
			return time.Time{}, false, fmt.Sprintf("%s, after %s", seen, time.Since(began).Round(time.Millisecond))
		}
	}
}

// injection is an active fault, or one that never took effect.
type injection struct {
	target Target
	proof  Proof
	// revoked replaces the proof if later observations contradict it.
	revoked atomic.Pointer[Proof]
	// undo heals the fault and proves it. It may run more than once.
	undo func(context.Context) (Proof, error)

	// chosen are the parameters that the fault chose itself.
	chosen map[string]string

	mu      sync.Mutex
	healed  Proof       // guarded by mu
	deadMan *time.Timer // guarded by mu; nil if the provider undoes the fault automatically
	refuted atomic.Bool // the proof was revoked since the fault did not act throughout
}

func (i *injection) Target() Target { return i.target }

func (i *injection) Proof() Proof {
	if p := i.revoked.Load(); p != nil {
		return *p
	}
	return i.proof
}

// revoke withdraws the proof of effect.
func (i *injection) revoke(why string) {
	p := i.proof
	p.Proven, p.What = false, p.What+"; but "+why
	i.revoked.Store(&p)
}

// Chosen implements Chooser.
func (i *injection) Chosen() map[string]string { return i.chosen }

// Heal returns the first proof of healing; while there is none, it tries again.
func (i *injection) Heal(ctx context.Context) (Proof, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.healed.Proven {
		return i.healed, nil
	}
	proof, err := i.undo(ctx)
	if err != nil {
		return proof, err
	}
	if i.deadMan != nil {
		i.deadMan.Stop()
	}
	i.healed = proof
	return proof, nil
}

// notInjected is the outcome if the target was already in the faulted state or cannot show an
// effect: nothing was touched, and healing touches nothing, because the state belongs to another
// caller.
func notInjected(t Target, format string, args ...any) Injection {
	now := time.Now()
	return &injection{
		target: t,
		proof:  Proof{What: "nothing was injected: " + fmt.Sprintf(format, args...), Called: now},
		undo: func(context.Context) (Proof, error) {
			now := time.Now()
			return Proof{Proven: true, What: "nothing was injected, so there is nothing to undo", Called: now, Effect: now}, nil
		},
	}
}

// attempt is everything needed to inject a fault and to heal it.
type attempt struct {
	target Target
	what   string // for errors, such as "kill of etcd on node-2"
	ask    func(context.Context) error
	effect look // holds when the fault took effect
	// lasts checks whether the fault still has its effect, just before it is healed; nil if only
	// healing ends the effect.
	lasts  look
	undo   func(context.Context) error
	healed look // holds when it is healed
	// patience is how long to wait for the effect; 0 means effectLimit.
	patience time.Duration
	// settles is how long healing waits for its proof; 0 means healLimit.
	settles time.Duration
	// ttl is for faults that the provider does not undo on its own: this process undoes the fault
	// when ttl is over, or the cluster's promise does if this process was killed. If a cluster
	// outlives its command, that process is the cluster's. 0 means that the provider undoes it.
	ttl time.Duration
	// already says why a node, among others, needs no action; empty if it does.
	already string
	// single says that the fault takes one request, so that nothing was done if that is refused.
	single bool
}

// ifGiven returns a function that calls undo with the handle of a request. Without a handle it does
// nothing: the request was refused, or what it did ends with its time to live.
func ifGiven(handle *string, undo func(context.Context, string) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if *handle == "" {
			return nil
		}
		return undo(ctx, *handle)
	}
}

// tried sends one request about a target for a proof, and waits for tryLimit at most. Its error reads
// "failed to", then what, such as "probe the disk of", then the target.
func tried[T any](ctx context.Context, what string, t Target, request func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	result, err := request(ctx)
	if err != nil {
		err = fmt.Errorf("failed to %s %s: %w", what, t, err)
	}
	return result, err
}

// nothingToUndo completes an attempt whose effect must not be undone: it is part of what the
// cluster is for.
func (a attempt) nothingToUndo(why string) attempt {
	a.undo = func(context.Context) error { return nil }
	a.healed = func(context.Context) (bool, string) { return true, "there is nothing to undo: " + why }
	return a
}

// oneRequest completes an attempt whose fault takes one request: if the provider reports that it
// did nothing, nothing is undone.
func (a attempt) oneRequest() attempt {
	ask, undo := a.ask, a.undo
	refused := false
	a.single = true
	a.ask = func(ctx context.Context) error {
		err := ask(ctx)
		refused = errors.Is(err, framework.ErrNothingDone)
		return err
	}
	a.undo = func(ctx context.Context) error {
		if refused {
			return nil
		}
		return undo(ctx)
	}
	return a
}

// inject requests the fault, waits for its effect and returns the injection. If the request
// fails, it undoes the fault as far as possible, since it may have been carried out in part, and
// returns the error.
func (a attempt) inject(ctx context.Context) (*injection, error) {
	called := time.Now()
	if err := a.ask(ctx); err != nil {
		if err = fmt.Errorf("%s: %w", a.what, err); a.single && errors.Is(err, framework.ErrNothingDone) {
			err = framework.Untouched{Err: err}
		}
		undoing, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
		defer cancel()
		if undoErr := a.undo(undoing); undoErr != nil {
			later := "the provider heals it when its time to live expires"
			if a.ttl > 0 {
				later = "holdfast keeps trying"
				i := &injection{undo: func(ctx context.Context) (Proof, error) { return Proof{}, a.undo(ctx) }}
				go i.expire()
			}
			// Whatever err is, something may be left.
			err = fmt.Errorf("%v; and undoing what it may have done failed: %w (%s)", err, undoErr, later)
		}
		return nil, err
	}
	i := &injection{target: a.target}
	i.undo = a.healing(i)
	if a.ttl > 0 {
		i.mu.Lock() // its time may be over already
		i.deadMan = time.AfterFunc(a.ttl-time.Since(called), i.expire)
		i.mu.Unlock()
	}
	proof := Prove(ctx, called, cmp.Or(a.patience, effectLimit), a.effect)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.proof = proof
	return i, nil
}

// expire heals the fault when its time to live expires, or when no caller holds the injection to
// heal it. It does not give up: no other process may be left to do it.
func (i *injection) expire() {
	persist(func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), healLimit)
		defer cancel()
		_, err := i.Heal(ctx)
		return err == nil
	})
}

// persist tries until it succeeds, less and less often.
func persist(try func() bool) {
	for pause := time.Second; !try(); pause = min(2*pause, time.Minute) {
		time.Sleep(pause)
	}
}

// injection is inject as an interface, nil on an error.
func (a attempt) injection(ctx context.Context) (Injection, error) {
	i, err := a.inject(ctx)
	if err != nil {
		return nil, err
	}
	return i, nil
}

// healing returns the function that heals the injection. It first withdraws the proof if the fault
// no longer has its effect, for example after a reboot.
func (a attempt) healing(i *injection) func(context.Context) (Proof, error) {
	looked := a.lasts == nil // guarded by i.mu
	return func(ctx context.Context) (Proof, error) {
		if !looked && i.proof.Proven {
			if _, still, seen := await(ctx, lastLimit, a.lasts); !still {
				i.revoke("when it was to be healed " + seen)
			}
		}
		looked = true
		called := time.Now()
		if err := a.undo(ctx); err != nil {
			return Proof{What: "healing was refused", Called: called}, fmt.Errorf("failed to heal %s: %w", a.what, err)
		}
		return Prove(ctx, called, cmp.Or(a.settles, healLimit), a.healed), nil
	}
}

// Prove waits until a look holds, limit has passed or ctx is done, and returns the proof for what
// was requested at called. A look returns whether the request has taken effect, and a description
// of what was seen. It is repeated after a millisecond, then less and less often, and its ctx
// ends with the limit.
func Prove(ctx context.Context, called time.Time, limit time.Duration, look func(context.Context) (held bool, seen string)) Proof {
	at, held, seen := await(ctx, limit, look)
	return Proof{Proven: held, What: seen, Called: called, Effect: at}
}
