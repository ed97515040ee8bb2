package selftest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local/tamper"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/workload"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites/run"
)

const (
	// previous has the Kubernetes version before the default one, previousEtcd also the previous
	// etcd version.
	previous     = "previous-release"
	previousEtcd = "previous-release-and-etcd"
	// previousProxied is the first with proxies.
	previousProxied = "previous-release-proxied"
	// previousEtcdProxied is the second with proxies.
	previousEtcdProxied = "previous-release-and-etcd-proxied"
	// previousAstray is the same, with a scheduler that talks to another node's API server.
	previousAstray = "previous-release-astray"
	// previousAddons has add-on managers; previousStale has one whose files are not upgraded.
	previousAddons = "previous-release-with-addons"
	previousStale  = "previous-release-with-stale-addons"
)

func upgradeKinds() map[string]kind {
	stale := topology(previousAddons)
	return map[string]kind{
		previous:            {topology(previous), false},
		previousProxied:     {topology(previous), true},
		previousEtcd:        {topology(previousEtcd), false},
		previousEtcdProxied: {topology(previousEtcd), true},
		previousAstray:      {onNode(topology(previous), 1, clusters.ExtraArgs{framework.Scheduler: {"master": "https://10.77.0.11:6443"}}), false},
		previousAddons:      {topology(previousAddons), false},
		previousStale:       {onNode(stale, 1, clusters.ExtraArgs{framework.AddonManager: {"release": stale.Spec.KubernetesVersion}}), false},
	}
}

// topology returns the cluster of a topology of the catalogue.
func topology(name string) *clusters.Cluster {
	c, err := run.Cluster(clusters.Default(), scenarios.Topologies()[name])
	if err != nil {
		panic(err) // the topology is part of the program and tested with it
	}
	return c
}

func upgradePlants() []Plant {
	return []Plant{
		{Name: "taken-back", Violation: "another process downgrades a node as soon as it is upgraded",
			Cluster: previous, Twin: previous, Scenario: "catalogue/upgrade-apiserver-killed", From: 9, Do: move(scenarios.Topologies()[previous].Kubernetes, 2),
			Catches: both("HA-UP-004", "changed-one-by-one", "reported v1.36.3"), May: []string{"restarts"}},
		{Name: "upgraded-together", Violation: "all nodes are upgraded with the first one, without waiting for their turn",
			Cluster: previous, Twin: previous, Scenario: "catalogue/upgrade-one-by-one", From: 4, Do: move(upgradedTo, 2, 3),
			Catches: both("HA-UP-001", "changed-one-by-one", "reported v1.37.1 before its turn"), May: []string{"restarts", "steady-state"}},
		{Name: "skips-a-minor", Violation: "an upgrade that leaves an API server two minor versions behind another",
			Cluster: previousProxied, Twin: previous, Scenario: "catalogue/upgrade-one-by-one", From: 4, Until: 5,
			Tamper:  []Tampering{api(tamper.Rule{Mode: tamper.OlderVersion, Prefix: "/version", By: 1}, 3)},
			Catches: both("HA-UP-001", "changed-one-by-one", "The version skew policy must hold at every step")},
		{Name: "not-taken-back", Violation: "another process upgrades a node again as soon as it was downgraded",
			Cluster: previousEtcd, Twin: previousEtcd, Scenario: "catalogue/upgrade-taken-back", From: 10, Do: move(upgradedTo, 1),
			Catches: []Catch{{Requirement: "HA-UP-002", Says: "reported v1.37.1"}}, May: []string{"restarts", "steady-state"}},
		{Name: "no-way-in", Violation: "a load balancer that repeatedly loses every API server for 10 s, as if all nodes were upgraded at the same time",
			Cluster: previous, Twin: previous, Scenario: "catalogue/upgrade-one-by-one", From: 3, Do: cutBalancer(),
			Catches: both("HA-UP-001", "available-through-changes", "must not go without a successful request"), May: []string{"steady-state", "watch-alive"}},
		{Name: "not-upgraded", Violation: "a node whose API server still has the old version after the upgrade",
			Cluster: previousProxied, Twin: previous, Scenario: "catalogue/upgrade-one-by-one", From: 11, Until: 12,
			Tamper:  []Tampering{api(tamper.Rule{Mode: tamper.OlderVersion, Prefix: "/version", By: 1}, 3)},
			Catches: both("HA-UP-001", "changed-one-by-one", "every component of the node must have the new version: kube-apiserver reported v1.36")},
		{Name: "scheduler-taken-back", Violation: "another process downgrades the scheduler of a node, alone, as soon as the node is upgraded",
			Cluster: previous, Twin: previous, Scenario: "catalogue/upgrade-one-by-one", From: 11, Do: takeBackScheduler,
			Catches: []Catch{
				{Requirement: "HA-UP-001", Says: "every component of the node must have the new version: kube-scheduler reported v1.36.3"},
				{Judge: "changed-one-by-one", Says: "kube-scheduler reported v1.36.3"},
				// It asks that of each change, too.
				{Requirement: "HA-UP-006", Says: "kube-scheduler reported v1.36.3"},
			}, May: []string{"restarts"}},
		{Name: "members-together", Violation: "the other etcd members are upgraded with the first one, without waiting for their turn",
			Cluster: previousEtcd, Twin: previousEtcd, Scenario: "catalogue/upgrade-taken-back", From: 3, Do: upgradeMembers,
			Catches: []Catch{{Requirement: "HA-UP-003", Says: "etcd on node-2 reported v3.7.3 before its turn"}},
			May:     []string{"restarts", "steady-state", "available-through-changes"}},
		{Name: "member-stays-old", Violation: "an etcd member that still has the old version once all are upgraded",
			Cluster: previousEtcdProxied, Twin: previousEtcd, Scenario: "catalogue/upgrade-taken-back", From: 5,
			Tamper:  []Tampering{etcd(tamper.Rule{Mode: tamper.OlderRelease, By: 1}, 3)},
			Catches: []Catch{{Requirement: "HA-UP-003", Says: "every component of the node must have the new version: etcd reported v3.6"}}},
		{Name: "no-way-back", Violation: "a load balancer that repeatedly loses every API server for 10 s while etcd is upgraded, a node downgraded and every component restarted",
			Cluster: previousEtcd, Twin: previousEtcd, Scenario: "catalogue/upgrade-taken-back", From: 2, Do: cutBalancer(),
			Catches: []Catch{
				{Requirement: "HA-UP-002", Says: "must not go without a successful request"},
				{Requirement: "HA-UP-003", Says: "must not go without a successful request"},
				{Requirement: "HA-UP-008", Says: "must not go without a successful request"},
				{Judge: "available-through-changes", Says: "must not go without a successful request"},
			}, May: []string{"steady-state", "watch-alive"}},
		{Name: "lost-field", Violation: "a field of Deployments is lost when an API server of another version has changed them",
			Cluster: previous, Twin: previous, Scenario: "catalogue/upgrade-one-by-one", From: 6, Do: loseField,
			Catches: both("HA-UP-005", "objects-between-versions", "spec.revisionHistoryLimit is 10, not 3")},
		{Name: "astray", Violation: "a scheduler that talks to the API server of another node",
			Cluster: previousAstray, Twin: previous, Scenario: "catalogue/upgrade-one-by-one",
			Catches: both("HA-UP-006", "own-apiserver", "kube-scheduler on node-2 asked the API server on node-1"), May: []string{"restarts", "one-actor"}},
		{Name: "stale-addons", Violation: "an add-on manager whose files are left out of the upgrade",
			Cluster: previousStale, Twin: previousAddons, Scenario: "catalogue/addons-upgraded",
			Catches: both("HA-UP-007", "addons-converge", "Once all nodes are upgraded")},
	}
}

// takeBackScheduler downgrades the scheduler of the third node, which is the first component to
// restart in an older version, and stops there.
func takeBackScheduler(ctx context.Context, c framework.Cluster) error {
	enough := errors.New("the scheduler has the old version")
	ctx = framework.WithSteps(ctx, func(framework.Step) error { return enough })
	if err := move(scenarios.Topologies()[previous].Kubernetes, 3)(ctx, c); !errors.Is(err, enough) {
		return errors.Join(errors.New("the downgrade did not stop at its first step"), err)
	}
	return nil
}

// upgradeMembers upgrades the members of the second and the third node.
func upgradeMembers(ctx context.Context, c framework.Cluster) error {
	u, ok := c.(framework.EtcdUpgrader)
	if !ok {
		return errors.New("the etcd members of the cluster cannot be upgraded")
	}
	for _, n := range []int{2, 3} {
		if err := u.UpgradeEtcd(ctx, c.Nodes()[n-1].Name(), upgradedEtcd); err != nil {
			return err
		}
	}
	return nil
}

// The versions to which the catalogue's scenarios upgrade.
const (
	upgradedTo   = "v1.37.1"
	upgradedEtcd = "v3.7.3"
)

// move upgrades or downgrades nodes, given by their numbers, without an entry in the record.
func move(version string, nodes ...int) func(context.Context, framework.Cluster) error {
	return func(ctx context.Context, c framework.Cluster) error {
		u, ok := c.(framework.Upgrader)
		if !ok {
			return errors.New("the nodes of the cluster cannot be upgraded")
		}
		for _, n := range nodes {
			if err := u.UpgradeNode(ctx, c.Nodes()[n-1].Name(), version); err != nil {
				return err
			}
		}
		return nil
	}
}

// cutBalancer cuts the balancer off from every node for 10 s in every 16 s, until ctx is done.
func cutBalancer() func(context.Context, framework.Cluster) error {
	return cutAgain(fromBalancer, 10*time.Second, 6*time.Second)
}

// loseField makes every Deployment of the mixed objects lose a field, until ctx is done.
func loseField(ctx context.Context, c framework.Cluster) error {
	api, err := client.NewAPI(c.Entrances()[0].Config, client.Options{})
	if err != nil {
		return err
	}
	path := fmt.Sprintf("/apis/apps/v1/namespaces/%s/deployments", workload.DefaultNamespace)
	go func() {
		defer api.Close()
		for client.Pause(ctx, 20*time.Millisecond) {
			var all struct {
				Items []struct{ Metadata struct{ Name string } }
			}
			_ = json.Unmarshal(api.Do(ctx, client.Request{Method: http.MethodGet, Path: path}).Body, &all)
			for _, d := range all.Items {
				api.Do(ctx, client.Request{Method: http.MethodPatch, Path: path + "/" + d.Metadata.Name, Type: "application/merge-patch+json",
					Body: []byte(`{"spec":{"revisionHistoryLimit":null}}`)})
			}
		}
	}()
	return nil
}
