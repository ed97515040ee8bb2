package selftest

import (
	"maps"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local/tamper"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// scaledTime returns the cluster of the scenario node-lost, with additional arguments for kwok.
func scaledTime(kwok map[string]string) *clusters.Cluster {
	s, err := scenario(catalogue + "node-lost")
	if err != nil {
		panic(err) // it is part of the program and tested with it
	}
	c, err := run.Cluster(clusters.Default(), s.Spec.Cluster)
	if err != nil {
		panic(err)
	}
	args := maps.Clone(kwok)
	c.Spec.ExtraArgs = c.Spec.ExtraArgs.Merge(clusters.ExtraArgs{framework.Kwok: args})
	return c
}

// applicationPlants are those about what controllers, schedulers and nodes do with an
// application. The numbers are steps of the scenario: the first fault is injected at 1, those of
// the controller manager and the scheduler at 12 and 13, and these are healed at 17 and 18.
func applicationPlants() []Plant {
	const scenario, pods = catalogue + "application", "/registry/pods/holdfast-app/"
	return []Plant{
		{Name: "no-replicasets", Violation: "kube-controller-manager --controllers=*,-replicaset-controller",
			Cluster: podless, Scenario: catalogue + "steady", Catches: []Catch{
				{Requirement: "HA-WL-003", Says: "an application must come up and follow each change within 12s"},
				{Judge: "application-follows", Says: "was not in its desired state for"},
			}},
		{Name: "throttled-scheduler", Violation: "kube-scheduler --kube-api-qps=0.2 --kube-api-burst=20",
			Cluster: throttled, Twin: proxied, Scenario: catalogue + "steady",
			Catches: []Catch{{Requirement: "HA-WL-003", Says: "an application must come up and follow each change within 12s"}}},
		{Name: "changes-not-followed", Violation: "a store that accepts no more pods of the application, while nothing else is broken",
			Cluster: proxied, Scenario: catalogue + "steady",
			Tamper:  []Tampering{etcd(tamper.Rule{Mode: tamper.RefusedWrite, Prefix: pods})},
			Catches: []Catch{{Requirement: "HA-WL-003", Says: "was not in its desired state for"}}},
		{Name: "refused-pods", Violation: "a store that no longer accepts pods of one Deployment",
			Cluster: proxied, Scenario: scenario, From: 1,
			Tamper: []Tampering{etcd(tamper.Rule{Mode: tamper.RefusedWrite, Prefix: pods + "frontend-"})},
			Catches: []Catch{
				{Requirement: "HA-WL-001", Says: "frontend-"},
				{Judge: "application-converges", Says: "must be in its desired state within"},
			}},
		{Name: "work-stands-still", Violation: "standby controller managers cannot write the lease while work is waiting",
			Cluster: proxied, Scenario: scenario, From: 13, Until: 19, May: []string{"steady-state"},
			Tamper: []Tampering{etcd(tamper.Rule{Mode: tamper.RefusedWrite, Prefix: "/registry/leases/kube-system/kube-controller-manager"})},
			Catches: []Catch{
				{Requirement: "HA-LE-008", Says: "Deployments created while kube-controller-manager has no active instance must be reconciled"},
				{Requirement: "HA-WL-001", Says: "must be in its desired state within"},
				{Judge: "work-goes-on", Says: "created by"},
			}},
		{Name: "lost-bindings", Violation: "a store that acknowledges the bindings of some pods and loses them",
			Cluster: proxied, Scenario: scenario, From: 13, Until: 17,
			Tamper: []Tampering{etcd(tamper.Rule{Mode: tamper.LostUpdate, Prefix: pods + "pod-"})},
			// The scheduler forgets the pod, or one that has noticed binds it again.
			Catches: both("HA-LE-009", "pods-bound", "pod")},
		{Name: "rogue-controllers", Violation: "kube-controller-manager --leader-elect=false on one node",
			Cluster: rogue, Scenario: scenario,
			Catches: []Catch{
				{Requirement: "HA-LE-008", Says: "although at most"},
				{Judge: "one-actor", Says: "kube-controller-manager"},
			}},
		{Name: "pinned-workers", Violation: "worker nodes that use one API server instead of the balancer",
			Cluster: pinned, Twin: scaled, Scenario: catalogue + "node-lost",
			Catches: []Catch{
				{Requirement: "HA-CL-008", Says: "Heartbeats of worker nodes must arrive despite the isolation of node-1"},
				{Requirement: "HA-WL-002", Says: "Running pods must not be touched by the isolation of node-1"},
				{Judge: "nodes-ready", Says: "Heartbeats of worker nodes must arrive"},
				{Judge: "pods-untouched", Says: "which no client changed"},
			}},
	}
}
