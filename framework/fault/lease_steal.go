package fault

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/undo"
)

// stranger is the holder that no instance knows.
const stranger = "holdfast-stranger"

// LeaseSteal takes over the lease of an elected component.
var LeaseSteal = onLease(&Fault{
	Name:     "lease-steal",
	Summary:  "takes over the lease of an elected component with an identity that no instance has, so that no instance is active; healing releases the lease",
	Params:   []Param{boolParam("renew", "true: the new holder renews the lease until healed or until its time to live expires; false: it takes the lease over once, and the lease expires", true)},
	Needs:    []string{"an entrance; EtcdAccess to release the lease immediately if no API server answers", promiserNeed},
	Example:  " renew=true",
	Promised: true,
}, func(r Request, l leaseObject) (Inject, error) {
	if len(r.Cluster.Entrances()) == 0 {
		return nil, fmt.Errorf("cluster %s has no entrance", r.Cluster.Name())
	}
	return func(ctx context.Context) (Injection, error) { return stealLease(ctx, r, l) }, nil
})

// theft is a stranger that holds a lease.
type theft struct {
	lease    leaseObject
	stop     context.CancelFunc
	renewals sync.WaitGroup
}

func stealLease(ctx context.Context, r Request, l leaseObject) (Injection, error) {
	t, renew := r.Target, Value[bool](r, "renew")
	old, err := l.get(ctx)
	if err != nil {
		return nil, r.beforeFault(fmt.Errorf("failed to read lease kube-system/%s: %w", l.name, err))
	}
	holder := text(old.Spec.HolderIdentity)
	if holder == stranger {
		return notInjected(t, "lease kube-system/%s was already stolen", l.name), nil
	}
	stolen := func(ctx context.Context) (bool, string) {
		now, how, err := l.read(ctx)
		if err != nil {
			return false, fmt.Sprintf("lease kube-system/%s %s: %v", l.name, how, err)
		}
		got := text(now.Spec.HolderIdentity)
		return got == stranger, fmt.Sprintf("the holder of lease kube-system/%s %s is %s, %s before", l.name, how, got, holder)
	}
	renewing, stop := context.WithTimeout(context.WithoutCancel(ctx), r.TTL)
	x := &theft{lease: l, stop: stop}
	a := attempt{
		target: t,
		what:   "stealing lease kube-system/" + l.name,
		ask: func(ctx context.Context) error {
			if err := l.change(ctx, take); err != nil {
				return err
			}
			if renew {
				x.renewals.Go(func() { x.renew(renewing, old) })
			}
			return nil
		},
		effect: stolen,
		undo:   x.giveUp,
		healed: l.held(func(now *coordinationv1.Lease) bool { return text(now.Spec.HolderIdentity) == stranger }),
	}.promised(r, l.stolen()).stored(r)
	if renew {
		a.lasts = func(ctx context.Context) (bool, string) { // until another holder takes it over
			now, how, err := l.read(ctx)
			if errors.Is(err, errGone) {
				return false, fmt.Sprintf("lease kube-system/%s was gone, as read %s", l.name, how)
			}
			return err != nil || text(now.Spec.HolderIdentity) == stranger, fmt.Sprintf("lease kube-system/%s had another holder", l.name)
		}
	}
	return a.injection(ctx)
}

// take makes the stranger the holder.
func take(l *coordinationv1.Lease) error {
	now, name, transitions := metav1.NowMicro(), stranger, int32(1)
	if l.Spec.LeaseTransitions != nil {
		transitions += *l.Spec.LeaseTransitions
	}
	l.Spec.HolderIdentity, l.Spec.LeaseTransitions = &name, &transitions
	l.Spec.AcquireTime, l.Spec.RenewTime = &now, &now
	return nil
}

var errNotStranger = errors.New("holdfast's identity does not hold it")

// renew renews the lease, several times in its duration.
func (x *theft) renew(ctx context.Context, old *coordinationv1.Lease) {
	every := 2 * time.Second
	if seconds := old.Spec.LeaseDurationSeconds; seconds != nil && *seconds > 0 {
		every = time.Duration(*seconds) * time.Second / 5
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := x.lease.change(ctx, func(l *coordinationv1.Lease) error {
			if text(l.Spec.HolderIdentity) != stranger {
				return errNotStranger
			}
			now := metav1.NowMicro()
			l.Spec.RenewTime = &now
			return nil
		})
		if errors.Is(err, errNotStranger) || errors.Is(err, errGone) {
			return // another instance holds it
		}
	}
}

// giveUp leaves the lease without a holder, as an instance does on a clean exit. If neither the
// API nor etcd answers, it expires on its own.
func (x *theft) giveUp(ctx context.Context) error {
	x.stop()
	x.renewals.Wait()
	x.lease.release(ctx)
	return nil
}

// stolen is what undoes the theft without an API server.
func (l leaseObject) stolen() framework.Undoing {
	return framework.Undoing{Release: &framework.HeldLease{Key: registry + l.key(), Holder: stranger}}
}

// release removes the stranger from the lease, if it is the holder.
func (l leaseObject) release(ctx context.Context) {
	release := func(l *coordinationv1.Lease) error {
		if text(l.Spec.HolderIdentity) != stranger {
			return errNotStranger
		}
		now, nobody, second := metav1.NowMicro(), "", int32(1)
		l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = &nobody, &second
		l.Spec.AcquireTime, l.Spec.RenewTime = &now, &now
		return nil
	}
	err := l.change(ctx, release)
	if c, ok := l.cluster.(undo.Cluster); ok && !errors.Is(err, errNotStranger) && !answered(err) {
		_ = undo.Do(ctx, c, l.stolen())
	}
}
