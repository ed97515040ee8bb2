package clusters_test

import (
	"context"
	"fmt"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/framework"
)

// Provider makes clusters as a vendor ships them, with the help of the local provider.
type Provider struct{ local.Provider }

func (Provider) Name() string { return "acme" }

func (p Provider) Lacks(c *clusters.Cluster) string {
	if c.Spec.LoadBalancer.Kind != clusters.BalancerBuiltin {
		return "ours have one load balancer: leave spec.loadBalancer.kind at builtin"
	}
	return p.Provider.Lacks(c)
}

func (p Provider) Create(ctx context.Context, c *clusters.Cluster, o clusters.Options) (clusters.Made, error) {
	ours := *c
	ours.Spec.ExtraArgs = clusters.ExtraArgs{framework.Etcd: {"election-timeout": "500", "heartbeat-interval": "50"}}.Merge(c.Spec.ExtraArgs)
	return p.Provider.Create(ctx, &ours, o)
}

// A provider of one's own. One that attaches to existing machines implements all methods
// itself; abilities such as framework.Killer are those of its nodes.
func ExampleProvider() {
	var provider clusters.Provider = Provider{}
	described := clusters.Default()
	described.Spec.LoadBalancer.Kind = clusters.BalancerVIP
	fmt.Println(provider.Name())
	fmt.Println(provider.Lacks(described))
	// Output:
	// acme
	// ours have one load balancer: leave spec.loadBalancer.kind at builtin
}
