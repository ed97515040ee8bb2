package suites

import (
	"maps"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/scenarios"
)

// Cluster returns the description of the cluster that a scenario runs on: the run's
// own, with what the scenario asks for on top. An error says what of it no cluster
// can have.
func Cluster(run *clusters.Cluster, wants scenarios.Topology) (*clusters.Cluster, error) {
	c := *run
	if wants.LoadBalancer != "" {
		c.Spec.LoadBalancer.Kind = clusters.BalancerKind(wants.LoadBalancer)
	}
	if wants.Disk != "" {
		c.Spec.Disk = clusters.Disk(wants.Disk)
	}
	if len(wants.Election) > 0 {
		c.Spec.Election = maps.Clone(run.Spec.Election)
		if c.Spec.Election == nil {
			c.Spec.Election = map[framework.Component]clusters.Election{}
		}
		for component, how := range wants.Election {
			c.Spec.Election[framework.Component(component)] = clusters.Election(how)
		}
	}
	args := clusters.ExtraArgs{}
	for component, flags := range wants.ExtraArgs {
		args[framework.Component(component)] = flags
	}
	c.Spec.ExtraArgs = run.Spec.ExtraArgs.Merge(args)
	return &c, c.Validate()
}
