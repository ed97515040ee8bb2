package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/holdfast-ha/holdfast/framework"
)

// holder returns the node of the active instance of an elected component.
//
// A lease outlives its holder, so that its name alone may be that of a dead
// instance, or of one that was restarted and stands by. The holder is believed
// if it runs since before it acquired the lease and the lease has not run out,
// or, where clocks disagree on that, once it is seen to renew.
func (c resolver) holder(ctx context.Context, k kind) (string, error) {
	if key := c.lock(k.component); key != "" {
		return c.lockHolder(ctx, k, key)
	}
	var first *coordinationv1.Lease
	return awaitNode(ctx, func(ctx context.Context) (string, error) {
		lease, err := c.lease(ctx, k.lease)
		if err != nil {
			return "", err
		}
		identity := text(lease.Spec.HolderIdentity)
		if identity == "" {
			return "", fmt.Errorf("lease kube-system/%s has no holder", k.lease)
		}
		n, err := c.holderNode(lease.Name, identity)
		if err != nil {
			return "", err
		}
		if down := c.down(ctx, n, k.component); down != "" {
			return "", fmt.Errorf("%s holds lease kube-system/%s, but %s", identity, k.lease, down)
		}
		if first == nil || text(first.Spec.HolderIdentity) != identity {
			first = lease
		}
		renewed := lease.Spec.RenewTime != nil && first.Spec.RenewTime != nil && !lease.Spec.RenewTime.Equal(first.Spec.RenewTime)
		if doubt := c.doubt(ctx, n, k.component, lease); doubt != "" && !renewed {
			return "", errors.New(doubt)
		}
		return n.Name(), nil
	})
}

// doubt describes why the holder of a lease may not be active.
func (c resolver) doubt(ctx context.Context, n framework.Node, component framework.Component, l *coordinationv1.Lease) string {
	identity := text(l.Spec.HolderIdentity)
	if l.Spec.RenewTime == nil || l.Spec.LeaseDurationSeconds == nil {
		return fmt.Sprintf("lease kube-system/%s of %s has no renew time or no duration", l.Name, identity)
	}
	end := l.Spec.RenewTime.Add(time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second)
	if over := time.Since(end); over > 0 {
		return fmt.Sprintf("lease kube-system/%s of %s expired %s ago", l.Name, identity, over.Round(time.Millisecond))
	}
	if reporter, ok := n.(framework.ProcessReporter); ok && l.Spec.AcquireTime != nil {
		if p, err := reporter.Process(ctx, component); err == nil && p.Started.After(l.Spec.AcquireTime.Time) {
			return fmt.Sprintf("lease kube-system/%s is held by an earlier process of %s on %s", l.Name, component, n.Name())
		}
	}
	return ""
}

// holderNode returns the node of a holder identity.
func (c resolver) holderNode(lease, identity string) (framework.Node, error) {
	nodes := c.Nodes()
	name := framework.HolderNode(identity, nodes)
	i := slices.IndexFunc(nodes, func(n framework.Node) bool { return n.Name() == name })
	if i < 0 {
		return nil, fmt.Errorf("lease kube-system/%s is held by %q, which does not run on any of the nodes %s", lease, identity, strings.Join(framework.NodeNames(nodes), ", "))
	}
	return nodes[i], nil
}

// lease reads a lease of kube-system through the first entrance that serves it.
func (c resolver) lease(ctx context.Context, name string) (*coordinationv1.Lease, error) {
	var problems []string
	for _, e := range c.Entrances() {
		body, status, err := get(ctx, e, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/"+name)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d: %.200s", status, body)
		}
		var l coordinationv1.Lease
		if err == nil {
			err = json.Unmarshal(body, &l)
		}
		if err == nil {
			return &l, nil
		}
		problems = append(problems, fmt.Sprintf("through entrance %s: %v", e.Name, err))
	}
	if len(problems) == 0 {
		problems = []string{"the cluster has no entrance"}
	}
	return nil, fmt.Errorf("lease kube-system/%s cannot be read: %s", name, strings.Join(problems, "; "))
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
