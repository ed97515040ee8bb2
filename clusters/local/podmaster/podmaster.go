// Package podmaster elects components from outside: on every node a podmaster competes for a
// lock in etcd, and its node agent runs the component only where the lock is held. This is how
// the admin guide for highly available clusters elected the scheduler and the controller
// manager before they had leader election.
//
// The lock is a key that is created if it does not exist, under an etcd lease that its holder
// keeps alive. A holder that cannot renew the lease knows when it asked for the last granted
// renewal: the component has been stopped at the latest Renew after that, before the lock can
// expire. The agent stops it automatically, so this does not depend on the podmaster.
//
// The tests run a real etcd member.
package podmaster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// Key is the key of a component's lock. Its value is the name of the holder's node.
func Key(c framework.Component) string { return "/holdfast/podmaster/" + string(c) }

// Times are the times of an election, with the same meaning as for Kubernetes' components.
type Times struct {
	// Lease is how long the lock outlives its holder's last renewal: whole seconds.
	Lease time.Duration `json:"lease"`
	// Renew is how long a holder continues without a successful renewal; less than Lease.
	Renew time.Duration `json:"renew"`
	// Retry is the pause between two attempts to take or to renew the lock.
	Retry time.Duration `json:"retry"`
}

// Agent runs components, each until a deadline at which it must have exited.
type Agent interface {
	// Admit lets a component run until then, or stops it if that has passed. It returns once
	// that is done.
	Admit(ctx context.Context, c framework.Component, until time.Duration) error
}

// master competes for one component's lock.
type master struct {
	Component
	node  string
	etcd  *clientv3.Client
	agent Agent
	log   func(format string, args ...any)
}

// forever is the deadline of a component of a careless podmaster.
const forever = time.Duration(1 << 62)

// errLost says that another node has the lock, or none.
var errLost = errors.New("the lock is lost")

// run competes until ctx ends.
func (m *master) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := m.reign(ctx); err != nil && ctx.Err() == nil {
			m.log("%s: %v", m.Name, err)
		}
		m.pause(ctx)
	}
}

// pause is a retry period with jitter, so that competitors do not always collide.
func (m *master) pause(ctx context.Context) {
	client.Pause(ctx, m.Retry-time.Duration(rand.Int64N(int64(m.Retry)/5+1)))
}

// reign takes the lock, if it is free, and holds it until it is lost or ctx ends.
func (m *master) reign(ctx context.Context) error {
	asked := system.Monotonic()
	lease, err := m.take(ctx)
	if err != nil || lease == 0 {
		return err
	}
	m.log("%s: the lock is taken (lease %x)", m.Name, lease)
	until := asked + m.Renew
	for m.admit(ctx, until); ; {
		m.pause(ctx)
		if ctx.Err() != nil {
			err = ctx.Err()
			break
		}
		asked = system.Monotonic()
		if err = m.renew(ctx, lease, until); err == nil {
			until = asked + m.Renew
			m.admit(ctx, until)
		} else if errors.Is(err, errLost) || system.Monotonic() >= until {
			break
		}
	}
	m.resign(ctx, lease)
	return fmt.Errorf("it stands by: %w", err)
}

// take acquires the lock for this node. The lease is 0 if the lock is held already.
func (m *master) take(ctx context.Context) (clientv3.LeaseID, error) {
	ctx, cancel := context.WithTimeout(ctx, m.Renew)
	defer cancel()
	key := Key(m.Name)
	held, err := m.etcd.Get(ctx, key)
	if err != nil || len(held.Kvs) > 0 {
		return 0, wrap("reading the lock", err)
	}
	lease, err := m.etcd.Grant(ctx, int64(m.Lease/time.Second))
	if err != nil {
		return 0, wrap("asking for a lease", err)
	}
	won, err := m.etcd.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, m.node, clientv3.WithLease(lease.ID))).Commit()
	if err == nil && won.Succeeded {
		return lease.ID, nil
	}
	// Also if it is unknown whether it was acquired: afterwards it is free.
	m.revoke(lease.ID)
	return 0, wrap("taking the lock", err)
}

// renew keeps the lease alive, and checks whether the lock still has it.
func (m *master) renew(ctx context.Context, lease clientv3.LeaseID, until time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, max(until-system.Monotonic(), time.Millisecond))
	defer cancel()
	if _, err := m.etcd.KeepAliveOnce(ctx, lease); errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return errLost
	} else if err != nil {
		return wrap("renewing the lease", err)
	}
	held, err := m.etcd.Get(ctx, Key(m.Name))
	if err != nil {
		return wrap("reading the lock", err)
	}
	if len(held.Kvs) == 0 || held.Kvs[0].Lease != int64(lease) {
		return errLost
	}
	return nil
}

// admit lets the component run. If the agent does not answer, the component keeps its state,
// and the lock too.
func (m *master) admit(ctx context.Context, until time.Duration) {
	if m.Careless {
		until = forever
	}
	ctx, cancel := context.WithTimeout(ctx, m.Retry)
	defer cancel()
	if err := m.agent.Admit(ctx, m.Name, until); err != nil {
		m.log("%s: %v", m.Name, err)
	}
}

// resign stops the component, and releases the lock once it has exited. It does so after the
// end of ctx as well; if the agent does not answer, the lock expires.
func (m *master) resign(ctx context.Context, lease clientv3.LeaseID) {
	if m.Careless {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.Lease)
	defer cancel()
	for ctx.Err() == nil {
		err := m.agent.Admit(ctx, m.Name, 0)
		if err == nil {
			m.revoke(lease)
			return
		}
		m.log("%s: %v", m.Name, err)
		m.pause(ctx)
	}
}

// revoke revokes a lease, and so the lock, within a useful time.
func (m *master) revoke(lease clientv3.LeaseID) {
	ctx, cancel := context.WithTimeout(context.Background(), m.Retry)
	defer cancel()
	_, _ = m.etcd.Revoke(ctx, lease) // otherwise it expires
}

func wrap(what string, err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return err
}
