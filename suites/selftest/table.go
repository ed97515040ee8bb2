package selftest

import (
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/local/tamper"
	"github.com/holdfast-ha/holdfast/framework/judge"
)

// What the rules are about.
const (
	inEtcd    = "/registry/configmaps/holdfast-traffic/" // ConfigMaps of the traffic, in etcd
	registers = inEtcd + "register"
	configs   = "/api/v1/namespaces/holdfast-traffic/configmaps" // the same, in the API
)

func etcd(r tamper.Rule, nodes ...int) Tampering {
	return Tampering{Nodes: nodes, Site: tamper.Etcd, Rule: r}
}

func api(r tamper.Rule, nodes ...int) Tampering {
	return Tampering{Nodes: nodes, Site: tamper.API, Rule: r}
}

// Plants are all planted violations.
func Plants() []Plant {
	all := []Plant{
		{Name: "no-election", Violation: "kube-controller-manager --leader-elect=false, kube-apiserver --endpoint-reconciler-type=none",
			Cluster: unelected, Scenario: "looked-at", Catches: []Catch{
				{Judge: "single-holder", Says: "kube-controller-manager"},
				{Judge: "endpoints-match", Says: "10.77.0.1"},
			}},
		{Name: "fixed-count", Violation: "kube-apiserver --endpoint-reconciler-type=master-count --apiserver-count=3, a balancer without health checks",
			Cluster: counted, Scenario: "apiserver-killed", Catches: []Catch{
				{Judge: "endpoint-removed", Says: "was still listed"},
				{Judge: "availability", Says: "must not see errors for longer than"},
			}},
		{Name: "lease-refused", Violation: "an API server that is back cannot write its endpoint lease",
			Cluster: proxied, Scenario: "apiserver-killed", From: 5,
			Tamper:  []Tampering{etcd(tamper.Rule{Mode: tamper.RefusedWrite, Prefix: "/registry/masterleases/"}, 3)},
			Catches: []Catch{{Judge: "endpoint-returned", Says: "still not in"}, {Judge: "endpoints-converge", Says: "still held"}}},
		{Name: "old-reads", Violation: "the etcd member of one node serves linearizable reads from 20 revisions ago",
			Cluster: proxied, Scenario: "looked-at",
			Tamper: []Tampering{etcd(tamper.Rule{Mode: tamper.OldRange, Prefix: "/holdfast/cross/", By: 20}, 2),
				etcd(tamper.Rule{Mode: tamper.OldRange, Prefix: inEtcd + "cross", By: 20}, 3)},
			Catches: []Catch{
				{Judge: "etcd-membership", Says: "must be read through every other"},
				{Judge: "etcd-linearizable", Says: "/holdfast/cross/"},
				{Judge: "cross-read", Says: "must be seen by the next read"},
			}},
		{Name: "versions-from-elsewhere", Violation: "an API server whose writes have versions that its etcd members had long before, as if it used other members",
			Cluster: proxied, Scenario: "looked-at",
			Tamper:  []Tampering{etcd(tamper.Rule{Mode: tamper.LowRevision, Prefix: inEtcd, By: 200}, 2)},
			Catches: []Catch{{Judge: "etcd-membership", Says: "must use one etcd cluster"}}},
		{Name: "not-ready", Violation: "an API server that answers /readyz with 503, once",
			Cluster: proxied, Scenario: "looked-at", From: 1,
			Tamper:  []Tampering{api(tamper.Rule{Mode: tamper.Unavailable, Prefix: "/readyz", Times: 1}, 3)},
			Catches: []Catch{{Judge: "control-plane-complete", Says: "/readyz does not answer ok through node-3"}}},
		{Name: "serializable-reads", Violation: "API servers read etcd without a quorum while a member is isolated",
			Cluster: proxied, Scenario: "member-isolated",
			Tamper:  []Tampering{etcd(tamper.Rule{Mode: tamper.Serializable, Prefix: inEtcd})},
			Catches: []Catch{{Judge: "isolated-member", Says: "No quorum read may be stale"}}},
		{Name: "no-hazard", Violation: "an isolated member that serves no serializable read, so that its isolation is not shown",
			Cluster: proxied, Scenario: "member-isolated",
			Tamper:  []Tampering{etcd(tamper.Rule{Mode: tamper.Linearizable, Prefix: "/holdfast/stale"})},
			Catches: []Catch{{Judge: "stale-serializable-read", Says: "was answered while it was isolated", Verdict: judge.Inconclusive}}},
		{Name: "refused-writes", Violation: "no write succeeds once the etcd leader is gone",
			Cluster: proxied, Scenario: "leader-killed", From: 1,
			Tamper: []Tampering{etcd(tamper.Rule{Mode: tamper.RefusedWrite, Prefix: inEtcd}),
				etcd(tamper.Rule{Mode: tamper.RefusedWrite, Prefix: "/registry/configmaps/holdfast-probes/"})},
			Catches: []Catch{{Judge: "write-gap", Says: "2E + M"}}},
		{Name: "stopped-harness", Violation: "the harness itself is stopped for 8 s, which makes a healthy cluster look slow",
			Cluster: proxied, Scenario: "leader-killed", From: 2, Stop: 8 * time.Second,
			Catches: []Catch{{Judge: "harness", Says: "which cost", Verdict: judge.Inconclusive}}},
		{Name: "writes-without-quorum", Violation: "etcd members that acknowledge writes without a quorum",
			Cluster: proxied, Scenario: "quorum-lost", From: 4, Until: 5,
			Tamper: []Tampering{etcd(tamper.Rule{Mode: tamper.Serializable, Prefix: "/registry/configmaps/"}),
				etcd(tamper.Rule{Mode: tamper.LostWrite, Prefix: "/registry/configmaps/"})},
			Catches: []Catch{{Judge: "quorum-loss", Says: "no write may be acknowledged"}}},
		{Name: "no-takeover", Violation: "standby controller managers cannot write the lease",
			Cluster: proxied, Scenario: "controller-manager-killed", From: 1,
			Tamper:  []Tampering{etcd(tamper.Rule{Mode: tamper.RefusedWrite, Prefix: "/registry/leases/kube-system/kube-controller-manager"})},
			Catches: []Catch{{Judge: "takeover", Says: "none did"}}},
		{Name: "no-active-instance-afterwards", Violation: "no controller manager can write the lease, even after the healing",
			Cluster: proxied, Scenario: "controller-manager-killed", From: 1,
			Tamper:  []Tampering{etcd(tamper.Rule{Mode: tamper.RefusedWrite, Prefix: "/registry/leases/kube-system/kube-controller-manager"})},
			Catches: []Catch{{Judge: "steady-state", Says: "not steady again: lease of kube-controller-manager"}}},
		{Name: "unlisted-afterwards", Violation: "an API server that is back never lists its address again",
			Cluster: proxied, Scenario: "apiserver-killed", From: 5,
			Tamper:  []Tampering{etcd(tamper.Rule{Mode: tamper.RefusedWrite, Prefix: "/registry/masterleases/"}, 3)},
			Catches: []Catch{{Judge: "steady-state", Says: "not steady again: live addresses in default/kubernetes"}}},
		{Name: "read-only-afterwards", Violation: "an API server that is ready again, and refuses writes",
			Cluster: proxied, Scenario: "apiserver-killed", From: 5,
			Tamper:  []Tampering{etcd(tamper.Rule{Mode: tamper.RefusedWrite, Prefix: inEtcd + "holdfast-writable"}, 3)},
			Catches: []Catch{{Judge: "steady-state", Says: "not steady again: writes and watches"}}},
		{Name: "not-steady", Violation: "an API server that is not ready for longer than the recovery limit",
			Cluster: proxied, Scenario: "traffic", From: 1,
			Tamper:  []Tampering{api(tamper.Rule{Mode: tamper.Unavailable, Prefix: "/readyz", Times: 30}, 3)},
			Catches: []Catch{{Judge: "steady-state", Says: "back to its steady state"}}},
		{Name: "slow-afterwards", Violation: "API servers that refuse most requests once a fault was healed",
			Cluster: proxied, Scenario: "recovered", From: 3, Until: 4,
			Tamper:  []Tampering{api(tamper.Rule{Mode: tamper.Unavailable, Prefix: configs})},
			Catches: []Catch{{Judge: "throughput", Says: "of their rate of acknowledged operations"}}},
		{Name: "two-leaders", Violation: "etcd members that name themselves the leader while they follow",
			Cluster: proxied, Scenario: "traffic", Until: 1,
			Tamper:  []Tampering{etcd(tamper.Rule{Mode: tamper.ClaimedLeader})},
			Catches: []Catch{{Judge: "one-leader-per-term", Says: "one leader per term"}}},
	}
	return slices.Concat(all, historyPlants(), watchPlants(), etcdWatchPlants(), componentPlants(), nodePlants(),
		leasePlants(), applicationPlants(), quorumPlants(), endpointPlants(), watchRequirementPlants(),
		topologyPlants(), supervisedPlants(), balancingPlants(), failoverPlants(), upgradePlants(), memberPlants(), recoveryPlants(), trustPlants())
}
