package suites

import (
	"fmt"
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
	if wants.EtcdBalancer != "" {
		c.Spec.EtcdBalancer = clusters.EtcdBalancer(wants.EtcdBalancer)
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
	if len(wants.Sysctls) > 0 {
		c.Spec.Sysctls = maps.Clone(wants.Sysctls)
		for name, value := range run.Spec.Sysctls {
			if _, own := wants.Sysctls[name]; !own {
				c.Spec.Sysctls[name] = value
			}
		}
	}
	return &c, c.Validate()
}

// Here returns the scenarios with what a provider lacks on this machine for the cluster
// that they ask for. What the run itself asks for is not theirs: a run whose own cluster
// cannot be made fails.
func Here(p clusters.Provider, run *clusters.Cluster, all []*scenarios.Scenario) []*scenarios.Scenario {
	if p.Lacks(run) != "" {
		return all
	}
	here := make([]*scenarios.Scenario, len(all))
	for i, s := range all {
		here[i] = s
		c, err := Cluster(run, s.Spec.Cluster)
		if err != nil {
			continue
		}
		if why := p.Lacks(c); why != "" {
			copied := *s
			copied.Missing = fmt.Sprintf("the provider %s cannot make the cluster that it asks for: %s", p.Name(), why)
			here[i] = &copied
		}
	}
	return here
}
