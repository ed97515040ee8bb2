package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/observe"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// elected are the components that elect one active instance.
var elected = []framework.Component{framework.ControllerManager, framework.Scheduler}

// held looks for holders of leases: that of the component that was hit, or of every
// elected one where a node or another component was. A holder must be on a node of the
// cluster, so that one who stole the lease is none, and on another one than was hit
// where elsewhere is set.
func (r *run) held(ctx context.Context, id string, elsewhere bool) error {
	i, err := r.injection(id)
	if err != nil {
		return err
	}
	components := elected
	if c := i.inj.Target().Component; slices.Contains(elected, c) {
		components = []framework.Component{c}
	}
	return r.everywhere(ctx, func(ctx context.Context, api *client.API) error {
		for _, c := range components {
			var lease struct {
				Spec struct{ HolderIdentity string }
			}
			if err := get(ctx, api, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/"+string(c), nil, &lease); err != nil {
				return err
			}
			holder := observe.HolderNode(lease.Spec.HolderIdentity)
			known := slices.ContainsFunc(r.cluster.Nodes(), func(n framework.Node) bool { return n.Name() == holder })
			if !known || elsewhere && slices.Contains(i.nodes(), holder) {
				return fmt.Errorf("the lease of %s is held by %q", c, lease.Spec.HolderIdentity)
			}
		}
		return nil
	})
}
