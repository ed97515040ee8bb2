package fault

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// Board holds the active injections on one cluster, so that each can be
// healed by its name, in any order, by somebody who comes later. An injection
// that nobody heals is healed when its time to live is over.
type Board struct {
	cluster framework.Cluster
	told    func(Entry)
	telling sync.Mutex // held while told is called, so that changes come in order; before mu

	mu      sync.Mutex
	entries []*posted // active, in the order of injection; guarded by mu
	counts  map[string]int
}

// Phase says how far an injection is.
type Phase string

const (
	// Active injections have been asked for and not been healed.
	Active Phase = "active"
	// Healed injections have a proof of it.
	Healed Phase = "healed"
	// Unproven injections had no proof of effect and were undone at once.
	Unproven Phase = "unproven"
)

// Entry is the state of one injection on a board.
type Entry struct {
	// ID is the fault's name and a number, such as kill-2.
	ID     string            `json:"id"`
	Fault  string            `json:"fault"`
	Target Target            `json:"target"`
	Params map[string]string `json:"params,omitempty"`
	Phase  Phase             `json:"phase"`
	// Expires is when the fault is healed if nobody did it before.
	Expires time.Time `json:"expires"`
	// Effect is the proof of effect, Healing that of healing or, while the
	// fault is active, what the last attempt to heal it came to.
	Effect  Proof  `json:"effect"`
	Healing *Proof `json:"healing,omitempty"`
	Error   string `json:"error,omitempty"`
}

type posted struct {
	Entry     // guarded by Board.mu
	injection Injection
	timer     *time.Timer
}

// Refused says that an injection was refused before anything was touched: its
// words are wrong, or the cluster lacks what it needs.
type Refused struct{ Err error }

func (r *Refused) Error() string { return r.Err.Error() }

func (r *Refused) Unwrap() error { return r.Err }

// NewBoard returns an empty board. told is notified of every change; it may be nil.
func NewBoard(c framework.Cluster, told func(Entry)) *Board {
	if told == nil {
		told = func(Entry) {}
	}
	return &Board{cluster: c, told: told, counts: map[string]int{}}
}

// Inject finds the target and injects a fault. What is wrong with the request
// is an error of type Refused. An injection without proof of effect is undone
// and returned as Unproven. When ctx ends before the effect is seen, the fault
// is healed: nobody would know of it.
func (b *Board) Inject(ctx context.Context, name, on string, p Params) (Entry, error) {
	f, err := Find(name)
	if err != nil {
		return Entry{}, &Refused{err}
	}
	target, err := Resolve(ctx, b.cluster, on)
	if errors.Is(err, errNobody) {
		return Entry{}, err
	}
	if err == nil {
		err = f.Check(b.cluster, target, p)
	}
	if err != nil {
		return Entry{}, &Refused{err}
	}
	injection, err := f.Inject(ctx, b.cluster, target, p)
	if err != nil {
		return Entry{}, err
	}
	// A fault that takes long to come about, as a graceful stop may, lasts for
	// its time all the same.
	e := &posted{injection: injection, Entry: Entry{Fault: name, Target: injection.Target(), Params: Used(injection, p.Values),
		Phase: Active, Expires: time.Now().Add(p.TTL), Effect: injection.Proof()}}
	entry := b.post(e)
	if !entry.Effect.Proven || ctx.Err() != nil {
		healed, err := b.heal(context.WithoutCancel(ctx), e)
		if ctx.Err() != nil {
			return healed, fmt.Errorf("%s was healed again, since the client that asked for it is gone: %w", entry.ID, context.Cause(ctx))
		}
		return healed, err
	}
	return entry, nil
}

// post puts an injection on the board and returns its entry as of now.
func (b *Board) post(e *posted) Entry {
	b.telling.Lock()
	defer b.telling.Unlock()
	b.mu.Lock()
	b.counts[e.Fault]++
	e.ID = fmt.Sprintf("%s-%d", e.Fault, b.counts[e.Fault])
	b.entries = append(b.entries, e)
	e.timer = time.AfterFunc(time.Until(e.Expires), func() { b.expire(e) })
	entry := e.Entry
	b.mu.Unlock()
	b.told(entry)
	return entry
}

// expire heals what nobody has healed in time. The provider has undone it by
// now; this proves it, and does not give up.
func (b *Board) expire(e *posted) {
	for pause := time.Second; ; pause = min(2*pause, time.Minute) {
		if healed, err := b.heal(context.Background(), e); err == nil && healed.Phase != Active {
			return
		}
		time.Sleep(pause)
	}
}

// heal heals one injection and takes it off the board once that is proven.
func (b *Board) heal(ctx context.Context, e *posted) (Entry, error) {
	proof, err := e.injection.Heal(ctx)
	b.telling.Lock()
	defer b.telling.Unlock()
	entry, changed := b.note(e, proof, err)
	if !changed {
		return entry, nil // somebody else was faster
	}
	b.told(entry)
	return entry, err
}

// note takes down what an attempt to heal came to, unless there is proof of
// healing already.
func (b *Board) note(e *posted, proof Proof, err error) (entry Entry, changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.Phase != Active {
		return e.Entry, false
	}
	e.Healing, e.Error = &proof, ""
	if err != nil {
		e.Error = err.Error()
	}
	if err == nil && proof.Proven {
		if e.Phase = Healed; !e.Effect.Proven {
			e.Phase = Unproven
		}
		e.timer.Stop()
		b.entries = slices.DeleteFunc(b.entries, func(o *posted) bool { return o == e })
	}
	return e.Entry, true
}

// Active returns the active injections, in the order of injection.
func (b *Board) Active() []Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := []Entry{}
	for _, e := range b.entries {
		all = append(all, e.Entry)
	}
	return all
}

// Heal heals the injections of the given names at once, or all there are where
// none is given, and returns how each came out. Names that are not active are
// an error of type Refused, and nothing is touched then.
func (b *Board) Heal(ctx context.Context, ids ...string) ([]Entry, error) {
	b.mu.Lock()
	active := map[string]*posted{}
	for _, e := range b.entries {
		active[e.ID] = e
	}
	b.mu.Unlock()
	var chosen []*posted
	for _, id := range ids {
		e := active[id]
		if e == nil {
			there := "nothing is"
			if len(active) > 0 {
				there = "active: " + strings.Join(slices.Sorted(maps.Keys(active)), ", ")
			}
			return nil, &Refused{fmt.Errorf("no injection %q is active; %s", id, there)}
		}
		chosen = append(chosen, e)
	}
	if len(ids) == 0 {
		chosen = slices.Collect(maps.Values(active))
		slices.SortFunc(chosen, func(a, b *posted) int { return strings.Compare(a.ID, b.ID) })
	}
	healed := make([]Entry, len(chosen))
	errs := make([]error, len(chosen))
	var wg sync.WaitGroup
	for i, e := range chosen {
		wg.Go(func() { healed[i], errs[i] = b.heal(ctx, e) })
	}
	wg.Wait()
	return healed, errors.Join(errs...)
}
