package selftest

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local/tamper"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/scenarios"
)

// Plant is a violation planted into a real cluster.
type Plant struct {
	// Name is the name of the plant.
	Name string
	// Violation describes the planted violation.
	Violation string
	// Cluster is the kind of cluster that the violation is planted into. Scenario runs on it: one
	// of this package's own, or "catalogue/" and the name of one of the catalogue's.
	Cluster, Scenario string
	// Twin is the kind of cluster of the healthy twin; proxied if empty.
	Twin string
	// Tamper is what proxies do from the step with number From on (0: the first one, so that the
	// baseline is healthy) until the step with number Until is reached (0: to the end). The
	// number after the last step's is the check of the steady state.
	Tamper      []Tampering
	From, Until int
	// Stop is how long the harness itself is stopped at the step From.
	Stop time.Duration
	// Do changes the cluster at the step From, without an entry in the record; nil for nothing.
	Do func(context.Context, framework.Cluster) error
	// Catches are the judges, or the requirements of the catalogue, that must find it. If they
	// are requirements, no other one of the scenario may fail, and no invariant unless one of its
	// judges is named here as well.
	Catches []Catch
	// May are judges of every run, or requirements, that may find it too but do not have to. They
	// count only if Catches names requirements.
	May []string
}

// twin returns the kind of cluster of the healthy twin.
func (p Plant) twin() string { return cmp.Or(p.Twin, proxied) }

// Catch is the required verdict on a planted violation: by a judge, or on a requirement.
type Catch struct {
	Judge, Requirement string
	// Says must be in the sentence.
	Says string
	// Verdict is Fail if empty.
	Verdict judge.Verdict
}

// both requires a failure on a requirement and by its judge, in the same words.
func both(requirement, by, says string) []Catch {
	return []Catch{{Requirement: requirement, Says: says}, {Judge: by, Says: says}}
}

// subject returns what the verdict is on.
func (c Catch) subject() string { return cmp.Or(c.Requirement, c.Judge) }

// Of reports whether a result is on the same subject.
func (c Catch) Of(r judge.Result) bool {
	return r.Judge == c.Judge || r.Requirement == c.Requirement
}

// Found reports whether a result has the required verdict and sentence.
func (c Catch) Found(r judge.Result) bool {
	return c.Of(r) && r.Verdict == c.verdict() && strings.Contains(r.Sentence, c.Says)
}

// verdict returns the required verdict.
func (c Catch) verdict() judge.Verdict {
	if c.Verdict == "" {
		return judge.Fail
	}
	return c.Verdict
}

// Tampering is a rule for a proxy.
type Tampering struct {
	// Nodes are the nodes, from 1, with the rule in their proxy; all if empty.
	Nodes []int
	// At is a target such as kcm/active: only the node that has it at the step From has the rule.
	At   string
	Site tamper.Site
	Rule tamper.Rule
}

// The kinds of clusters.
const (
	// proxied has proxies, and elections that take seconds.
	proxied = "proxied"
	// unelected has controller managers that all act, and API servers that do
	// not list themselves.
	unelected = "unelected"
	// dropping has an etcd release with a bug: a watch from a compacted revision at which a key
	// was deleted does not see the deletion (https://github.com/etcd-io/etcd/issues/18089).
	dropping = "etcd-3.5.12"
	// counted has API servers that expect a fixed number of them, and a balancer without health
	// checks.
	counted = "counted"
	// rogue has one controller manager that does not take part in the election, and is always
	// active.
	rogue = "rogue"
	// podless has controller managers that create no pods for Deployments.
	podless = "podless"
	// throttled has schedulers that may make one request in five seconds once they have started. They
	// renew their lease every ten, so that it does not suffer.
	throttled = "throttled"
	// scaled and pinned: see require_application.go.
	scaled = "scaled-time"
	pinned = "pinned-workers"
	// unlisted has API servers that do not list themselves.
	unlisted = "unlisted"
	// counting has API servers that expect a fixed number of them.
	counting = "counting"
	// crowded has two of three nodes in one fault domain.
	crowded = "crowded"
	// otherKey has an API server that uses another of its node's keys for tokens.
	otherKey = "other-key"
	// entangled has small times, and is healthy as long as its first node exists.
	entangled = "entangled"
	// sluggish has a scheduler whose lease lasts an hour.
	sluggish = "sluggish"
	// careless has supervisors that leave a component running when they lose its lock; supervised
	// has correct ones.
	careless   = "careless"
	supervised = "supervised"
)

// kind describes how to create a kind of cluster, and whether it has proxies.
type kind struct {
	spec   *clusters.Cluster
	tamper bool
}

// with returns the default cluster with additional arguments.
func with(args clusters.ExtraArgs) *clusters.Cluster {
	c := clusters.Default()
	c.Spec.ExtraArgs = args
	return c
}

// onNode gives a node of a cluster, by its index, arguments of its own.
func onNode(c *clusters.Cluster, node int, args clusters.ExtraArgs) *clusters.Cluster {
	c.Spec.Nodes[node].ExtraArgs = args
	return c
}

// kinds returns every kind of cluster.
func kinds() map[string]kind {
	const frontProxyKey = "pki/front-proxy-client.key" // below the node's directory, where components run
	elections := map[string]string{"leader-elect-lease-duration": "6s", "leader-elect-renew-deadline": "4s", "leader-elect-retry-period": "1s"}
	elected := clusters.ExtraArgs{framework.ControllerManager: elections, framework.Scheduler: elections}
	buggy := with(nil)
	buggy.SetNodes(1)
	buggy.Spec.Workers, buggy.Spec.EtcdVersion = 0, "v3.5.12"
	blind := with(clusters.ExtraArgs{framework.APIServer: {"endpoint-reconciler-type": "master-count", "apiserver-count": "3"}})
	blind.Spec.LoadBalancer.HealthCheck.Disabled = true
	all := map[string]kind{
		proxied: {with(elected), true},
		unelected: {with(clusters.ExtraArgs{framework.APIServer: {"endpoint-reconciler-type": "none"},
			framework.ControllerManager: {"leader-elect": "false"}}), false},
		counted:  {blind, false},
		dropping: {buggy, false},
		rogue:    {onNode(with(elected), 2, clusters.ExtraArgs{framework.ControllerManager: {"leader-elect": "false"}}), false},
		podless:  {with(clusters.ExtraArgs{framework.ControllerManager: {"controllers": "*,-replicaset-controller"}}), false},
		throttled: {with(clusters.ExtraArgs{framework.Scheduler: {"kube-api-qps": "0.2", "kube-api-burst": "20",
			"leader-elect-lease-duration": "60s", "leader-elect-renew-deadline": "40s", "leader-elect-retry-period": "10s"}}), false},
		scaled:   {scaledTime(nil), false},
		pinned:   {scaledTime(map[string]string{"master": "https://10.77.0.11:6443"}), false},
		onDisks:  diskCluster(),
		unlisted: {with(clusters.ExtraArgs{framework.APIServer: {"endpoint-reconciler-type": "none"}}), false},
		counting: {with(clusters.ExtraArgs{framework.APIServer: {"endpoint-reconciler-type": "master-count", "apiserver-count": "3"}}), false},
		crowded:  {zoned("a", "a", "b"), false},
		otherKey: {onNode(with(nil), 2, clusters.ExtraArgs{framework.APIServer: {"service-account-key-file": frontProxyKey, "service-account-signing-key-file": frontProxyKey}}), false},
		entangled: {onNode(onNode(scaledTime(nil),
			1, clusters.ExtraArgs{framework.Scheduler: {"master": "https://10.77.0.11:6443"}}),
			2, clusters.ExtraArgs{framework.APIServer: {"etcd-servers": "https://10.77.0.11:2379"}}), false},
		sluggish:   {with(clusters.ExtraArgs{framework.Scheduler: {"leader-elect-lease-duration": "1h"}}), false},
		careless:   {electedBy(clusters.ElectionCareless, elections), false},
		supervised: {electedBy(clusters.ElectionSupervisor, elections), false},
	}
	maps.Copy(all, nodeKinds())
	maps.Copy(all, leaseKinds(elections))
	maps.Copy(all, balancingKinds())
	maps.Copy(all, upgradeKinds())
	maps.Copy(all, memberKinds())
	maps.Copy(all, recoveryKinds())
	maps.Copy(all, trustKinds())
	return all
}

//go:embed scenarios/*.yaml
var files embed.FS

// catalogue is the prefix of the names of the catalogue's scenarios.
const catalogue = "catalogue/"

// scenario returns one of this package's scenarios, or of the catalogue's.
func scenario(name string) (*scenarios.Scenario, error) {
	if rest, ok := strings.CutPrefix(name, catalogue); ok {
		for _, s := range scenarios.All() {
			if s.Metadata.Name == rest {
				return s, nil
			}
		}
		return nil, fmt.Errorf("the catalogue has no scenario %s", rest)
	}
	file := "scenarios/" + name + ".yaml"
	b, err := files.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("no scenario %s: %w", name, err)
	}
	return scenarios.Parse(file, b)
}

// Clusters returns the descriptions of the clusters that the work needs.
func Clusters(work []Batch) (all []*clusters.Cluster) {
	seen := map[string]bool{}
	for _, b := range work {
		if !seen[b.Cluster] {
			seen[b.Cluster] = true
			all = append(all, kinds()[b.Cluster].spec)
		}
	}
	return all
}
