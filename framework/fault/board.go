package fault

import (
	"cmp"
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

// Board holds the active injections on one cluster, so that a later caller can heal each by its
// name, in any order. An injection that no caller heals is healed when its time to live expires.
type Board struct {
	cluster framework.Cluster
	told    func(Entry)
	telling sync.Mutex // held while told is called, so that changes arrive in order; before mu

	mu      sync.Mutex
	entries []*posted // active, in the order of injection; guarded by mu
	counts  map[string]int
}

// Phase says how far an injection is.
type Phase string

const (
	// Active injections were requested and are not yet healed.
	Active Phase = "active"
	// Healed injections have a proof of healing.
	Healed Phase = "healed"
	// Unproven injections had no proof of effect and were undone immediately.
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
	// Expires is when the fault is healed automatically.
	Expires time.Time `json:"expires"`
	// Effect is the proof of effect, withdrawn from a healed fault that did not last. Healing is the proof of healing or, while the fault is active, the result of the
	// last attempt to heal it.
	Effect  Proof  `json:"effect"`
	Healing *Proof `json:"healing,omitempty"`
	Error   string `json:"error,omitempty"`
}

type posted struct {
	Entry     // guarded by Board.mu
	injection Injection
	ttl       time.Duration
	onNode    bool // that the cluster had
	promised  bool // see Fault.Promised
	timer     *time.Timer
}

// Refused is the error of an injection that was refused before anything was touched: the request
// is invalid, or the cluster lacks an ability that it needs.
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

// Inject finds the target and injects a fault. An invalid request is an error of type Refused. An
// injection without proof of effect is undone and returned as Unproven. If ctx ends before the
// effect is seen, the fault is healed, because the caller would not know its ID.
func (b *Board) Inject(ctx context.Context, name, on string, p Params) (Entry, error) {
	f, err := Find(name)
	if err != nil {
		return Entry{}, &Refused{err}
	}
	target, err := Resolve(ctx, b.cluster, on)
	if errors.Is(err, errNoInstance) {
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
	// A fault that takes long to take effect, such as a graceful stop, still lasts for its full
	// time.
	e := &posted{injection: injection, Entry: Entry{Fault: name, Target: injection.Target(), Params: Used(injection, p.Values),
		Phase: Active, Expires: time.Now().Add(p.TTL), Effect: injection.Proof()}, ttl: p.TTL, onNode: b.hasNode(injection.Target().Node), promised: f.Promised}
	entry := b.post(e)
	if !entry.Effect.Proven || ctx.Err() != nil {
		healed, err := b.heal(context.WithoutCancel(ctx), e)
		if ctx.Err() != nil {
			return healed, fmt.Errorf("%s was healed, because the client that requested it disconnected: %w", entry.ID, context.Cause(ctx))
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

// expire heals an injection that no caller has healed in time. The provider has already undone
// it; this proves it, and does not give up.
func (b *Board) expire(e *posted) {
	persist(func() bool {
		healed, err := b.heal(context.Background(), e)
		return err == nil && healed.Phase != Active
	})
}

func (b *Board) hasNode(name string) bool {
	return slices.Contains(framework.NodeNames(b.cluster.Nodes()), name)
}

// heal heals one injection and takes it off the board once that is proven.
func (b *Board) heal(ctx context.Context, e *posted) (Entry, error) {
	proof, err := e.injection.Heal(ctx)
	// What is in etcd or the API does not go with the node.
	if e.onNode && (err != nil && !e.promised || err == nil && !proof.Proven) && !b.hasNode(e.Target.Node) {
		proof, err = Proof{Called: proof.Called, Effect: time.Now(), Proven: true, What: e.Target.Node + " was removed from the cluster"}, nil
	}
	b.telling.Lock()
	defer b.telling.Unlock()
	entry, changed := b.note(e, proof, err)
	if !changed {
		return entry, nil // another caller was faster
	}
	b.told(entry)
	return entry, err
}

// note records the result of an attempt to heal, unless there already is proof of healing.
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
		// The injection withdraws its proof if the fault did not act throughout, or was not active any
		// more when it was to be healed. The latter says nothing once its time was over.
		own, ok := e.injection.(*injection)
		if now := e.injection.Proof(); !now.Proven && (ok && own.refuted.Load() || proof.Called.Before(e.Effect.Called.Add(e.ttl))) {
			e.Effect = now
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

// Heal heals the injections of the given names in parallel, or all of them if none is given, and
// returns how each came out. If a name is not active, it returns an error of type Refused and
// touches nothing.
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
			return nil, &Refused{fmt.Errorf("no injection %q is active; active: %s", id, cmp.Or(strings.Join(slices.Sorted(maps.Keys(active)), ", "), "none"))}
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
