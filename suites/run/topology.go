package run

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/engine"
	"github.com/holdfast-ha/holdfast/scenarios"
)

// Cluster returns the description of the cluster that a scenario runs on: the run's own, with
// what the scenario asks for on top. An error names what is impossible. For a cluster that the
// user described, see AsDescribed.
func Cluster(run *clusters.Cluster, wants scenarios.Topology) (*clusters.Cluster, error) {
	c := *run
	c.Spec.LoadBalancer.Kind = cmp.Or(clusters.BalancerKind(wants.LoadBalancer), c.Spec.LoadBalancer.Kind)
	c.Spec.EtcdBalancer = cmp.Or(clusters.EtcdBalancer(wants.EtcdBalancer), c.Spec.EtcdBalancer)
	c.Spec.Disk = cmp.Or(clusters.Disk(wants.Disk), c.Spec.Disk)
	c.Spec.KubernetesVersion = cmp.Or(wants.Kubernetes, c.Spec.KubernetesVersion)
	c.Spec.EtcdVersion = cmp.Or(wants.Etcd, c.Spec.EtcdVersion)
	if len(wants.Election) > 0 {
		c.Spec.Election = map[framework.Component]clusters.Election{}
		maps.Copy(c.Spec.Election, run.Spec.Election)
		for component, how := range wants.Election {
			c.Spec.Election[framework.Component(component)] = clusters.Election(how)
		}
	}
	c.Spec.RegisterNodes = run.Spec.RegisterNodes || wants.RegisterNodes
	args := clusters.ExtraArgs{}
	for component, flags := range wants.ExtraArgs {
		args[framework.Component(component)] = flags
	}
	c.Spec.ExtraArgs = run.Spec.ExtraArgs.Merge(args)
	if len(wants.Sysctls) > 0 {
		c.Spec.Sysctls = map[string]string{}
		maps.Copy(c.Spec.Sysctls, run.Spec.Sysctls)
		maps.Copy(c.Spec.Sysctls, wants.Sysctls)
	}
	return &c, c.Validate()
}

// AsDescribed returns the scenarios for a cluster that the user described: it is tested unchanged.
// Scenarios that ask for other arguments or kernel settings, or for registered nodes, run with
// the cluster's own; those that need another balancer, disk or election do not apply.
func AsDescribed(c *clusters.Cluster, all []*scenarios.Scenario) []*scenarios.Scenario {
	described := make([]*scenarios.Scenario, len(all))
	for i, s := range all {
		copied := *s
		described[i] = &copied
		copied.Spec.Cluster = copied.Spec.Cluster.Needed()
		wants := &copied.Spec.Cluster
		wants.Name, wants.ExtraArgs, wants.Sysctls, wants.RegisterNodes = "", nil, nil, false
		like, err := Cluster(c, *wants)
		able := err == nil && like.Spec.KubernetesVersion == c.Spec.KubernetesVersion && like.Spec.EtcdVersion == c.Spec.EtcdVersion && like.Spec.Disk == c.Spec.Disk
		alike := err == nil && like.Spec.LoadBalancer == c.Spec.LoadBalancer && like.Spec.EtcdBalancer == c.Spec.EtcdBalancer && maps.Equal(like.Spec.Election, c.Spec.Election)
		if able && alike {
			*wants = scenarios.Topology{Own: wants.Own}
		} else if copied.Missing == "" {
			copied.Missing = "the scenario needs " + wants.String() + ", but the cluster under test is used exactly as described"
			copied.ByDesign = able
		}
	}
	return described
}

// AsItIs returns the scenarios for an existing cluster that stays: those that would not leave it
// as they found it do not apply either, nor do those that add nodes which the provider cannot add,
// or could not remove again if the run is interrupted.
func AsItIs(ctx context.Context, p clusters.Provider, c *clusters.Cluster, all []*scenarios.Scenario) []*scenarios.Scenario {
	cannot := cannotAdd(ctx, p, c)
	apply := AsDescribed(c, all)
	for _, s := range apply {
		switch {
		case s.Missing != "":
		case s.Spec.Cluster.Own || !s.Experiment().KeepsNodes():
			s.Missing = "the scenario does not leave the cluster as it found it, but this run uses an existing cluster"
		case changesNodes(s) && cannot != "":
			s.Missing = "the scenario adds nodes, but " + cannot
		}
	}
	return apply
}

// cannotAdd returns why a provider cannot add nodes to a cluster that the run takes over; empty if
// it can.
func cannotAdd(ctx context.Context, p clusters.Provider, c *clusters.Cluster) string {
	expander, ok := p.(clusters.Expander)
	if !ok {
		return "the provider " + p.Name() + " cannot add any to a cluster that the run takes over"
	}
	if err := expander.Expands(ctx, c); err != nil {
		return fmt.Sprintf("the provider %s cannot add any to this one: %v", p.Name(), err)
	}
	return ""
}

// OfVersions returns the scenarios for clusters whose versions the user chose: Kubernetes, etcd or
// both. Those that name another version, such as one to upgrade from, do not apply.
func OfVersions(c *clusters.Cluster, kubernetes, etcd bool, all []*scenarios.Scenario) []*scenarios.Scenario {
	chosen := make([]*scenarios.Scenario, len(all))
	for i, s := range all {
		chosen[i] = s
		for _, v := range []struct {
			product       string
			fixed         bool
			wants, chosen string
		}{
			{"Kubernetes", kubernetes, s.Spec.Cluster.Kubernetes, c.Spec.KubernetesVersion},
			{"etcd", etcd, s.Spec.Cluster.Etcd, c.Spec.EtcdVersion},
		} {
			if v.fixed && v.wants != "" && v.wants != v.chosen && s.Missing == "" {
				copied := *s
				copied.Missing = fmt.Sprintf("the scenario needs %s %s, but this run uses %s", v.product, v.wants, v.chosen)
				chosen[i] = &copied
				break
			}
		}
	}
	return chosen
}

func changesNodes(s *scenarios.Scenario) bool {
	return slices.ContainsFunc(s.Spec.Timeline, func(step engine.Step) bool { return step.Action != nil && engine.ChangesNodes(step.Action.Name) })
}

// Here marks the scenarios that ask for something that a provider does not have on this machine.
// It ignores what the run itself asks for: a run whose own cluster cannot be created fails.
func Here(p clusters.Provider, run *clusters.Cluster, all []*scenarios.Scenario) []*scenarios.Scenario {
	if p.Lacks(run) != "" {
		return all
	}
	here := make([]*scenarios.Scenario, len(all))
	limits, limited := p.(clusters.ChangeLimiter)
	for i, s := range all {
		here[i] = s
		if limited && s.Missing == "" {
			if here[i] = withinLimits(limits, p.Name(), s); here[i] != s {
				continue
			}
		}
		c, err := Cluster(run, s.Spec.Cluster)
		if err != nil {
			continue
		}
		if why := p.Lacks(c); why != "" {
			copied := *s
			copied.Missing = fmt.Sprintf("the provider %s cannot create the cluster that the scenario asks for: %s", p.Name(), why)
			here[i] = &copied
		}
	}
	return here
}

// withinLimits marks a scenario with changes of nodes that a provider's clusters cannot make, with
// the reason for each requirement that names such changes; others stay as they are.
func withinLimits(limits clusters.ChangeLimiter, provider string, s *scenarios.Scenario) *scenarios.Scenario {
	lacking := map[string]string{} // by what the scenario calls the change
	first, newest := "", ""
	for _, step := range s.Spec.Timeline {
		a := step.Action
		if a == nil || !engine.ChangesNodes(a.Name) {
			continue
		}
		change := a.Name
		if change == "upgrade" {
			if semver.Compare(a.To, newest) < 0 {
				change = "downgrade"
			} else {
				newest = a.To
			}
		}
		why := limits.LacksChange(change)
		if why == "" && change == "upgrade" && a.Undo {
			why = limits.LacksChange("downgrade") // which takes it back
		}
		if why != "" {
			why = fmt.Sprintf("the provider %s cannot make the change of nodes that the scenario asks for: %s", provider, why)
			first, lacking[a.ID] = cmp.Or(first, why), cmp.Or(lacking[a.ID], why)
		}
	}
	if first == "" {
		return s
	}
	copied := *s
	copied.Missing, copied.MissingFor = first, map[string]string{}
	for _, r := range s.Spec.Requirements {
		for id := range strings.SplitSeq(r.Params["changes"], ",") {
			if why := lacking[strings.TrimSpace(id)]; why != "" && why != first {
				copied.MissingFor[r.ID] = cmp.Or(copied.MissingFor[r.ID], why)
			}
		}
	}
	return &copied
}
