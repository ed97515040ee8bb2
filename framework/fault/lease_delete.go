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
var LeaseDelete Fault = leaseDelete{}

type leaseDelete struct{}

func (leaseDelete) Name() string { return "lease-delete" }

func (leaseDelete) Doc() Doc {
	return Doc{
		Summary: "deletes the lease by which a component elects its active instance; whoever is first makes a new one, so that there is nothing to undo",
		Targets: []string{"kcm", "scheduler"},
		Needs:   []string{"an entrance, or EtcdAccess"},
		Example: "kcm/active",
	}
}

func (f leaseDelete) Check(c framework.Cluster, t Target, p Params) error {
	_, err := f.lease(c, t, p)
	return err
}

func (f leaseDelete) lease(c framework.Cluster, t Target, p Params) (leaseObject, error) {
	l, err := leaseOf(f, c, t, p)
	if err != nil {
		return l, err
	}
	if _, ok := c.(framework.EtcdAccess); !ok && len(c.Entrances()) == 0 {
		return l, &MissingAbility{Ability: "EtcdAccess", Of: "cluster " + c.Name() + ", which has no entrance", For: "fault lease-delete"}
	}
	return l, nil
}

func (f leaseDelete) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	l, err := f.lease(c, t, p)
	if err != nil {
		return nil, err
	}
	old, _, err := l.read(ctx)
	switch {
	case errors.Is(err, errGone):
		return notInjected(t, "there was no lease kube-system/%s", l.name), nil
	case err != nil:
		return nil, fmt.Errorf("fault lease-delete: reading lease kube-system/%s before the fault: %w", l.name, err)
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
				return false, fmt.Sprintf("%s (uid %s) is there, as read %s", name, old.UID, how)
			}
			return true, fmt.Sprintf("%s (uid %s) is gone: another one (uid %s) of %s has its place, as read %s", name, old.UID, now.UID, text(now.Spec.HolderIdentity), how)
		},
		undo:   func(context.Context) error { return nil },
		healed: l.held(isOld),
	}.injection(ctx)
}
