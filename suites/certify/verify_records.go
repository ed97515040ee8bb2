package certify

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/engine"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// span is the wall time of an experiment.
type span struct {
	scenario string
	from, to time.Time
}

// records judges each experiment's record, one at a time, and checks that it belongs to this run
// and exists only once.
func (v *verifier) records() {
	spans := map[string][]span{}        // by part; all parts on a cluster that stays are one
	bodies := map[string]string{}       // scenario by the digest of its observations
	members := map[string]record.Meta{} // what each part's first record says of its cluster
	var all []experiment
	for _, s := range v.plan.Scenarios {
		name := s.Metadata.Name
		if v.progress != nil {
			v.progress(name)
		}
		results, seen := v.plan.JudgeScenario(v.dir, s)
		v.derived.Add(s, results, seen)
		all = append(all, experiment{s, results, hit(seen, nodesOf(v.plan))})
		if seen == nil {
			if s.NotFor(len(v.plan.Part(s).Cluster.Spec.Nodes)) == "" {
				v.problem("%s has no record of its own: %s", name, sentenceOf(results))
			}
			continue
		}
		v.v.Experiments++
		if seen.Problem != "" || !seen.Complete {
			v.problem("the record of %s is not complete: %s", name, seen.Problem)
		}
		if text(seen.Meta.Checks) != text(s.Experiment().Checks) {
			v.problem("the record of %s asks for checks that differ from those of the catalogue", name)
		}
		if seen.Meta.Harness != v.plan.Harness || seen.Meta.Provider != v.plan.Provider {
			v.problem("the record of %s was made by holdfast %s on provider %s, and the run by holdfast %s on provider %s",
				name, seen.Meta.Harness, seen.Meta.Provider, v.plan.Harness, v.plan.Provider)
		}
		if seed := engine.SeedOf(v.plan.Seed, name); seen.Meta.Seed != seed {
			v.problem("the record of %s has seed %d, and the run's seed makes it %d", name, seen.Meta.Seed, seed)
		}
		v.cluster(s, seen.Meta)
		if from, to := seen.Meta.Started, seen.Meta.Started.Add(time.Duration(seen.EndAt)); from.Before(v.plan.Started) || to.After(v.plan.Ended) {
			v.problem("%s was run from %s to %s, and the run lasted from %s to %s", name, from.Format(time.RFC3339), to.Format(time.RFC3339),
				v.plan.Started.UTC().Format(time.RFC3339), v.plan.Ended.UTC().Format(time.RFC3339))
		}
		body, err := observed(record.Dir(v.dir, name))
		if err != nil {
			v.problem("the record of %s: %v", name, err)
		} else if other := bodies[body]; other != "" {
			v.problem("%s and %s have the same observations: one is a copy of the other", other, name)
		}
		bodies[body] = name
		part := v.plan.Part(s).Name
		if v.plan.Attach {
			part = v.plan.Cluster.Metadata.Name
		}
		if first, ok := members[part]; !ok {
			members[part] = seen.Meta
		} else if !sameCluster(first, seen.Meta) || v.plan.Attach && !slices.Equal(namesIn(first), namesIn(seen.Meta)) {
			v.problem("the records of %s and %s, both of %s, are from different clusters", first.Scenario, name, part)
		} else if !sameSettings(first, seen.Meta) {
			v.problem("the records of %s and %s, both of %s, have different settings, which their bounds follow", first.Scenario, name, part)
		} else if why := otherDistribution(first, seen.Meta); why != "" {
			v.problem("the records of %s and %s, both of %s, have nodes of different distributions: %s", first.Scenario, name, part, why)
		}
		spans[part] = append(spans[part], span{name, seen.Meta.Started, seen.Meta.Started.Add(time.Duration(seen.EndAt))})
	}
	for _, part := range slices.Sorted(maps.Keys(spans)) {
		of := spans[part]
		slices.SortFunc(of, func(a, b span) int { return a.from.Compare(b.from) })
		for i := 1; i < len(of); i++ {
			if of[i].from.Before(of[i-1].to) {
				v.problem("%s and %s were both run on %s at the same time", of[i-1].scenario, of[i].scenario, part)
			}
		}
	}
	v.v.Outcome = outcome(v.plan, all)
}

// cluster checks that a scenario ran on the plan's cluster with the settings that the scenario asks
// for, and that its record names the nodes, versions and settings of that.
func (v *verifier) cluster(s *scenarios.Scenario, seen record.Meta) {
	planned := v.plan.Part(s).Cluster
	if asked, err := run.Cluster(v.plan.Cluster, s.Spec.Cluster); err != nil || text(planned.Spec) != text(asked.Spec) {
		v.problem("%s did not run on the plan's cluster with the settings that the scenario asks for", s.Metadata.Name)
	}
	nodes := planned.Nodes()
	want := namesOf(nodes)
	got := namesIn(seen)
	slices.Sort(want)
	slices.Sort(got)
	// A provider may name the nodes that it creates, and nodes of an existing cluster that the plan
	// does not name: then no name is one of the plan's.
	named := slices.ContainsFunc(planned.Spec.Nodes, func(n clusters.NodeSpec) bool { return n.Name != "" })
	renamed := !(v.plan.Attach && named) && v.plan.Provider != "local" && len(want) == len(got) && !slices.ContainsFunc(got, func(n string) bool { return slices.Contains(want, n) })
	if !slices.Equal(want, got) && !renamed {
		v.problem("the record of %s is from a cluster with nodes %s, but the plan's has %s", s.Metadata.Name, strings.Join(got, ", "), strings.Join(want, ", "))
	}
	for i, n := range seen.Nodes {
		at := i // renamed nodes have their places
		if !renamed {
			at = slices.IndexFunc(nodes, func(p clusters.Node) bool { return p.Name == n.Name })
		}
		if at >= 0 {
			v.versions(s, nodes[at], n.Name, seen.Versions[n.Name])
		}
	}
	settings, err := clusters.Settings(planned)
	if err != nil {
		v.problem("the plan's cluster of %s: %v", s.Metadata.Name, err)
		return
	}
	symbols := settings.Symbols()
	for _, name := range slices.Sorted(maps.Keys(symbols)) {
		// The local provider's balancer is the one in the plan; others bring their own.
		if got := seen.Settings[name]; got != symbols[name] && (name != "H" || v.plan.Provider == "local") {
			v.problem("the record of %s has %s = %s, but the plan's cluster has %s", s.Metadata.Name, name, got, symbols[name])
		}
	}
	elections := map[string]map[string]time.Duration{} // from which the bounds on each component follow
	for component, e := range settings.Elections {
		elections[string(component)] = e.Symbols()
	}
	if !maps.EqualFunc(seen.Elections, elections, maps.Equal) {
		v.problem("the record of %s has other election times than the plan's cluster, which has %v", s.Metadata.Name, elections)
	}
}

// versions checks the versions in a scenario's record of a node of that name against the plan's
// node.
func (v *verifier) versions(s *scenarios.Scenario, planned clusters.Node, name string, seen map[string]string) {
	if got := seen[string(framework.APIServer)]; got != planned.KubernetesVersion {
		v.problem("the record of %s has API server %s on %s, but the plan's cluster has %s there", s.Metadata.Name, dash(got), name, planned.KubernetesVersion)
	}
	// Other providers than local bring their own etcd.
	got, want := seen[string(framework.Etcd)], cmp.Or(planned.EtcdVersion, release.EmbeddedEtcd)
	if v.plan.Provider == "local" && got != "" && got != want {
		v.problem("the record of %s has etcd %s on %s, but the plan's cluster has %s there", s.Metadata.Name, got, name, want)
	}
}

// namesIn returns the names of the nodes in a record, in their order.
func namesIn(m record.Meta) []string {
	return framework.Names(m.Nodes, func(n record.Node) string { return n.Name })
}

// sameSettings reports whether two records have the same bounds' inputs.
func sameSettings(a, b record.Meta) bool {
	return reflect.DeepEqual(a.Settings, b.Settings) && reflect.DeepEqual(a.Elections, b.Elections) && slices.Equal(a.Assumed, b.Assumed) &&
		a.RemoteEtcd == b.RemoteEtcd && a.GoawayChance == b.GoawayChance
}

// otherDistribution says how the distribution profiles of the nodes differ that two records have in
// common; empty if they do not. A node without one was not inspected: its owner may have withdrawn
// the consent to that between two experiments.
func otherDistribution(a, b record.Meta) string {
	for _, n := range a.Nodes {
		for _, m := range b.Nodes {
			one, other := n.Distribution, m.Distribution
			if n.Name == m.Name && one != nil && other != nil && *one != *other {
				return fmt.Sprintf("%s was found by profile %s (%.12s) and by profile %s (%.12s)", n.Name, one.Name, one.Digest, other.Name, other.Digest)
			}
		}
	}
	return ""
}

func sentenceOf(results []judge.Result) string {
	if len(results) == 0 {
		return "nothing is known about it"
	}
	return results[0].Sentence
}

// sameCluster reports whether the control-plane nodes that two records have in common have the
// same addresses: nodes may join and leave.
func sameCluster(a, b record.Meta) bool {
	for _, n := range a.Nodes {
		for _, m := range b.Nodes {
			if n.Name == m.Name && n.Address != m.Address {
				return false
			}
		}
	}
	return true
}

// observed returns a digest of a record, without its own metadata and without the write times of
// its entries.
func observed(dir string) (string, error) {
	r, err := record.Open(dir)
	if err != nil {
		return "", err
	}
	defer r.Close()
	sum := sha256.New()
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) || errors.As(err, new(*record.Damage)) {
			return fmt.Sprintf("%x", sum.Sum(nil)), nil
		}
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %s\n", e.Kind, e.Data)
	}
}
