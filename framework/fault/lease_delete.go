package fault

import (
	"context"
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/holdfast-ha/holdfast/framework"
)

// LeaseDelete deletes the lease by which a component elects its active
// instance.
var LeaseDelete = onLease(&Fault{
	Name:    "lease-delete",
	Summary: "deletes the lease by which a component elects its active instance; the first instance to try makes a new one, so that healing changes nothing",
	Needs:   []string{"an entrance, or EtcdAccess"},

	permanent: true,
}, func(r Request, l leaseObject) (Inject, error) {
	if _, ok := r.Cluster.(framework.EtcdAccess); !ok && len(r.Cluster.Entrances()) == 0 {
		return nil, r.missing("EtcdAccess", "cluster "+r.Cluster.Name()+", which has no entrance", "")
	}
	return func(ctx context.Context) (Injection, error) { return deleteLease(ctx, r, l) }, nil
})

func deleteLease(ctx context.Context, r Request, l leaseObject) (Injection, error) {
	c, t := r.Cluster, r.Target
	old, _, err := l.read(ctx)
	switch {
	case errors.Is(err, errGone):
		return notInjected(t, "there was no lease kube-system/%s", l.name), nil
	case err != nil:
		return nil, r.beforeFault(fmt.Errorf("failed to read lease kube-system/%s: %w", l.name, err))
	}
	isOld := func(now *coordinationv1.Lease) bool { return now.UID == old.UID }
	return attempt{
		target: t,
		what:   "deleting lease kube-system/" + l.name,
		ask:    func(ctx context.Context) error { return remove(ctx, c, l.path(), l.key()) },
		effect: func(ctx context.Context) (bool, string) {
			now, how, err := l.read(ctx)
			name := "lease kube-system/" + l.name
			switch {
			case errors.Is(err, errGone):
				return true, fmt.Sprintf("%s (uid %s) is gone, as read %s", name, old.UID, how)
			case err != nil:
				return false, fmt.Sprintf("%s %s: %v", name, how, err)
			case isOld(now):
				return false, fmt.Sprintf("%s (uid %s) still exists, as read %s", name, old.UID, how)
			}
			return true, fmt.Sprintf("%s (uid %s) is gone: another one (uid %s) of %s has replaced it, as read %s", name, old.UID, now.UID, text(now.Spec.HolderIdentity), how)
		},
		undo:   func(context.Context) error { return nil },
		healed: l.held(isOld),
	}.injection(ctx)
}
