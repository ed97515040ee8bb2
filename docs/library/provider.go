package ha

import (
	"context"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/framework"
)

// Provider makes control planes as Acme ships them, in the sandboxes of holdfast's local
// provider: what is not special about Acme's is left to that.
type Provider struct{ local.Provider }

var _ clusters.Provider = Provider{}

// Name implements clusters.Provider.
func (Provider) Name() string { return "acme" }

// Lacks implements clusters.Provider.
func (p Provider) Lacks(c *clusters.Cluster) string {
	if c.Spec.LoadBalancer.Kind != clusters.BalancerBuiltin {
		return "Acme's control planes come with one load balancer: leave spec.loadBalancer.kind at builtin"
	}
	return p.Provider.Lacks(c)
}

// Create implements clusters.Provider.
func (p Provider) Create(ctx context.Context, c *clusters.Cluster, o clusters.Options) (clusters.Made, error) {
	return p.Provider.Create(ctx, shipped(c), o)
}

// shipped returns a cluster with Acme's settings. Those of the description win.
func shipped(c *clusters.Cluster) *clusters.Cluster {
	elected := map[string]string{
		"leader-elect-lease-duration": "6s",
		"leader-elect-renew-deadline": "4s",
		"leader-elect-retry-period":   "1s",
	}
	own := *c
	own.Spec.ExtraArgs = clusters.ExtraArgs{
		framework.ControllerManager: elected,
		framework.Scheduler:         elected,
	}.Merge(c.Spec.ExtraArgs)
	return &own
}
