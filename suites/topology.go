package suites

import (
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/engine"
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

// AsItIs returns the scenarios with why they do not apply to a cluster that is taken as it
// is and that stays: those that ask for another one than the run's, and those that do not
// leave it as they found it.
func AsItIs(all []*scenarios.Scenario) []*scenarios.Scenario {
	apply := make([]*scenarios.Scenario, len(all))
	for i, s := range all {
		apply[i] = s
		why := ""
		switch {
		case s.Missing != "":
		case !s.Spec.Cluster.AsTheRun():
			why = "it asks for a cluster of its own kind, and the run takes one over as it is"
		case s.Spec.Cluster.Own || changesNodes(s):
			why = "it does not leave the cluster as it found it, and the run takes one over that stays"
		}
		if why != "" {
			copied := *s
			copied.Missing = why
			apply[i] = &copied
		}
	}
	return apply
}

func changesNodes(s *scenarios.Scenario) bool {
	return slices.ContainsFunc(s.Spec.Timeline, func(step scenarios.Step) bool { return step.Action != nil && engine.ChangesNodes(step.Action.Name) })
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
