package fault

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/members"
	"github.com/holdfast-ha/holdfast/framework/undo"
)

// A fault through etcd or the API does not go through a node whose agent could heal it in time.
// The process that injects it heals it, as long as it lives. If the cluster outlives that
// process, its nodes receive in advance what to undo, and when.

// promiserNeed is what such a fault needs from a cluster.
const promiserNeed = "Promiser (on a cluster that outlives the process that injects)"

// promiseGrace is how long after the time to live the nodes undo the fault if the injecting
// process has not.
const promiseGrace = 5 * time.Second

// checkUndo refuses the fault if the cluster outlives this process but could not heal the fault
// then.
func (r Request) checkUndo() error {
	of := "cluster " + r.Cluster.Name()
	if p, ok := r.Cluster.(framework.Promiser); ok {
		if err := p.CheckPromise(framework.Undoing{Fault: r.Fault.Name, Lossy: r.Fault.lossy}); err != nil {
			return r.missing("Promiser", of, err.Error())
		}
		return nil
	}
	if _, ok := r.Cluster.(framework.Mortal); ok {
		return nil
	}
	return r.missing("Promiser", of, "it would stay broken if this process was killed")
}

// checkOwner refuses a fault without an undo if the cluster's owner has not agreed to it. The cluster
// then lacks an ability that the fault needs.
func (r Request) checkOwner(ability string) error {
	p, ok := r.Cluster.(framework.Promiser)
	if !ok || r.Fault.Promised { // which the cluster is asked to promise
		return nil
	}
	if err := p.CheckPromise(framework.Undoing{Fault: r.Fault.Name, Nothing: !r.Fault.permanent}); err != nil {
		return r.missing(ability, "cluster "+r.Cluster.Name(), err.Error())
	}
	return nil
}

// promised completes an attempt whose fault the cluster's nodes undo if this process cannot.
// Without an undo of its own, it undoes what is promised.
func (a attempt) promised(r Request, u framework.Undoing) attempt {
	u.Fault, u.Lossy = r.Fault.Name, r.Fault.lossy
	a.ttl = r.TTL
	if a.undo == nil {
		a.undo = func(ctx context.Context) error { return undo.Do(ctx, r.Cluster.(undo.Cluster), u) }
	}
	promiser, ok := r.Cluster.(framework.Promiser)
	if !ok {
		return a // the cluster ends with this process
	}
	ask, heal := a.ask, a.undo
	handle, until := "", time.Time{}
	a.ask = func(ctx context.Context) error {
		until = time.Now().Add(a.ttl + promiseGrace)
		given, err := promiser.Promise(ctx, u, a.ttl+promiseGrace)
		if err != nil {
			return fmt.Errorf("failed to register with the cluster's nodes how to undo it: %w", err)
		}
		handle = given
		return ask(ctx)
	}
	a.undo = func(ctx context.Context) error {
		if handle == "" {
			return nil // nothing was started
		}
		if err := heal(ctx); err != nil {
			return err
		}
		if promiser.Withdraw(ctx, handle) != nil {
			// A node that keeps its promise would undo a later fault, too.
			go persist(func() bool {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
				defer cancel()
				return promiser.Withdraw(ctx, handle) == nil || time.Now().After(until)
			})
		}
		return nil
	}
	return a
}

// stored completes an attempt that is undone by deleting an object's key in etcd: it is refused
// on a cluster whose nodes would not find the key there, and so would not keep the promise.
func (a attempt) stored(r Request) attempt {
	_, promises := r.Cluster.(framework.Promiser)
	_, access := r.Cluster.(framework.EtcdAccess)
	if !promises || !access {
		return a
	}
	ask := a.ask
	a.ask = func(ctx context.Context) error {
		found := int64(0)
		err := onAny(ctx, r.Cluster, func(ctx context.Context, m members.Member) error {
			answer, err := m.Client.Get(ctx, registry+"namespaces/", clientv3.WithPrefix(), clientv3.WithCountOnly())
			if err == nil {
				found = answer.Count
			}
			return err
		})
		switch {
		case err != nil:
			return fmt.Errorf("failed to check whether the cluster's nodes can undo it in etcd: %w", err)
		case found == 0:
			return r.missing("Promiser", "cluster "+r.Cluster.Name(), "its API servers do not keep their objects under "+registry+" in etcd, where its nodes would undo it (--etcd-prefix)")
		}
		return ask(ctx)
	}
	return a
}
