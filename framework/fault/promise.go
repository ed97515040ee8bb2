package fault

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// What is done through etcd or the API is on no node whose agent could heal it in time.
// The process that injects it does, for as long as it lives. Where the cluster outlives
// that process, its nodes are told beforehand what to undo, and when.

// promiserNeed is what such a fault needs of a cluster.
const promiserNeed = "Promiser (a cluster that outlives the process that injects)"

// promiseGrace is how long after the time to live nodes undo what the process that injected
// would have undone by then.
const promiseGrace = 5 * time.Second

// undoer is a fault that can be undone by another process than the one that injected it.
type undoer interface {
	// undoData undoes what an injection was about to do when it promised this.
	undoData(ctx context.Context, c framework.Cluster, data json.RawMessage) error
}

// Undo carries out what undoes a fault, on the cluster's side: c is the cluster as it is
// seen from there, where some nodes may lack abilities. What others can do is left to them.
func Undo(ctx context.Context, c framework.Cluster, u framework.Undoing) error {
	f, err := Find(u.Fault)
	if err != nil {
		return err
	}
	x, ok := f.(undoer)
	if !ok {
		return fmt.Errorf("failed to undo %s: it is healed by its own provider", u.Fault)
	}
	if err := x.undoData(ctx, c, u.Data); err != nil {
		return fmt.Errorf("failed to undo %s: %w", u.Fault, err)
	}
	return nil
}

// keepable refuses a fault on a cluster that outlives this process and would not heal it
// then. A lossy fault loses data for good.
func keepable(f Fault, c framework.Cluster, lossy bool) error {
	missing := &MissingAbility{Ability: "Promiser", Of: "cluster " + c.Name(), For: "fault " + f.Name()}
	if p, ok := c.(framework.Promiser); ok {
		err := p.CheckPromise(framework.Undoing{Fault: f.Name(), Lossy: lossy})
		if err == nil {
			return nil
		}
		missing.Why = err.Error()
		return missing
	}
	if _, ok := c.(framework.Mortal); ok {
		return nil
	}
	missing.Why = "it would stay broken if this process was killed"
	return missing
}

// undoing returns what a fault promises.
func undoing(f Fault, data any) *framework.Undoing {
	b, err := json.Marshal(data)
	if err != nil {
		panic(err) // the types of this package can all be written
	}
	return &framework.Undoing{Fault: f.Name(), Data: b}
}

// promised completes an attempt whose fault the cluster's nodes undo where this process
// does not come to it.
func (a attempt) promised(c framework.Cluster, u *framework.Undoing) attempt {
	promiser, ok := c.(framework.Promiser)
	if !ok {
		return a // the cluster ends with this process
	}
	ask, undo := a.ask, a.undo
	handle := ""
	a.ask = func(ctx context.Context) error {
		given, err := promiser.Promise(ctx, *u, a.ttl+promiseGrace)
		if err != nil {
			return fmt.Errorf("failed to have the cluster promise to undo it: %w", err)
		}
		handle = given
		return ask(ctx)
	}
	a.undo = func(ctx context.Context) error {
		if handle == "" {
			return nil // nothing was begun
		}
		if err := undo(ctx); err != nil {
			return err
		}
		// A node that does not hear of it finds nothing left to undo.
		_ = promiser.Withdraw(ctx, handle)
		return nil
	}
	return a
}
