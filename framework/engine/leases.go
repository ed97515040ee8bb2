package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// elected are the components that elect one active instance.
var elected = []framework.Component{framework.ControllerManager, framework.Scheduler}

// leasePath is the path of their leases.
const leasePath = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/"

// lease is the part of a coordination.k8s.io/v1 Lease that is read.
type lease struct {
	Spec struct {
		HolderIdentity string
		RenewTime      time.Time
	}
}

// held checks the holders of leases: of the component that was hit, or of every elected one if a
// node or another component was. A holder must be on a node of the cluster, so a stranger that
// stole the lease does not count, and on a node other than the one hit if elsewhere is set.
func (r *run) held(ctx context.Context, id string, elsewhere bool) error {
	i, err := r.injection(id)
	if err != nil {
		return err
	}
	components := elected
	if c := i.inj.Target().Component; slices.Contains(elected, c) && len(i.group) == 0 {
		components = []framework.Component{c}
	}
	return r.everywhere(ctx, func(ctx context.Context, api *client.API) error {
		for _, c := range components {
			var l lease
			if err := get(ctx, api, leasePath+string(c), nil, &l); err != nil {
				return err
			}
			holder := framework.HolderNode(l.Spec.HolderIdentity, r.cluster.Nodes())
			known := slices.ContainsFunc(r.cluster.Nodes(), func(n framework.Node) bool { return n.Name() == holder })
			if !known || elsewhere && slices.Contains(i.nodes(), holder) {
				return fmt.Errorf("the lease of %s is held by %q", c, l.Spec.HolderIdentity)
			}
		}
		return nil
	})
}

// furtherRenewed returns which lease of a further elected component, of those that were ever
// held, was not seen to be renewed since an injection.
func (r *run) furtherRenewed(id string) error {
	i, err := r.injection(id)
	if err != nil {
		return err
	}
	since := r.w.Since(i.inj.Proof().Called)
	for _, c := range sortedKeys(r.cluster.Settings().Elections) {
		if seen := r.observers.Renewal(string(c)); !slices.Contains(elected, c) && seen.Held && seen.At < since {
			return fmt.Errorf("the lease of %s was not seen to be renewed", c)
		}
	}
	return nil
}

// awaitElected returns when the existing leases of all elected components are being renewed. An
// earlier scenario may have cost an active instance its lease, which must expire before another
// takes it. An error says what is missing if no instance takes it in time.
func (r *run) awaitElected(ctx context.Context) error {
	s := r.cluster.Settings()
	ctx, cancel := context.WithTimeout(ctx, 2*s.LeaseDuration+5*s.RetryPeriod+s.Margin)
	defer cancel()
	var mu sync.Mutex
	first := map[framework.Component]time.Time{} // its last renewal at the start
	renewed := func(c framework.Component, at time.Time) bool {
		mu.Lock()
		defer mu.Unlock()
		if _, ok := first[c]; !ok {
			first[c] = at
		}
		// The cluster's clock may differ.
		return at.After(first[c]) || time.Since(at).Abs() <= 2*s.RetryPeriod
	}
	look := func(ctx context.Context, api *client.API) error {
		for _, c := range elected {
			var l lease
			err := get(ctx, api, leasePath+string(c), nil, &l)
			switch {
			case errors.Is(err, errNotFound):
			case err != nil:
				return err
			case l.Spec.HolderIdentity == "" || !renewed(c, l.Spec.RenewTime):
				return fmt.Errorf("no instance renews the lease of %s", c)
			}
		}
		return nil
	}
	return client.Until(ctx, conditionPause, func(ctx context.Context) error { return r.everywhere(ctx, look) })
}

// locksTaken returns what is missing until every component that a supervisor elects runs on a
// node other than the fault's, which holds its lock.
func (r *run) locksTaken(ctx context.Context, id string) error {
	i, err := r.injection(id)
	if err != nil {
		return err
	}
	reporter, ok := r.cluster.(framework.LockReporter)
	if !ok || len(reporter.Locks()) == 0 {
		return fmt.Errorf("no component of cluster %s is elected by a supervisor", r.cluster.Name())
	}
	hit := r.hit()
	for _, c := range sortedKeys(reporter.Locks()) {
		t, err := fault.Resolve(ctx, r.cluster, string(c)+"/active")
		if err != nil {
			return err
		}
		if slices.Contains(i.nodes(), t.Node) || slices.Contains(hit, t.Node) {
			return fmt.Errorf("the lock of %s is held by %s", c, t.Node)
		}
	}
	return nil
}
