package selftest

import "github.com/holdfast-ha/holdfast/clusters/local/tamper"

// Where API servers keep, in etcd, the leases of their addresses, and the list that they make
// from them.
const (
	addressLeases = "/registry/masterleases/"
	listedOld     = "/registry/services/endpoints/default/kubernetes"
	listedNew     = "/registry/endpointslices/default/kubernetes"
)

// endpointPlants are those for the requirements on the default kubernetes Service.
func endpointPlants() []Plant {
	return []Plant{
		{Name: "none-listed", Violation: "kube-apiserver --endpoint-reconciler-type=none",
			Cluster: unlisted, Scenario: "catalogue/steady",
			Catches: []Catch{{Requirement: "HA-EP-001", Says: "must hold exactly the live API servers"}}},
		{Name: "list-not-written", Violation: "no API server can write the list of addresses while one is stopped",
			Cluster: drainsProxied, Twin: drainsProxied, Scenario: "catalogue/apiservers-restarted", From: 2, Until: 5,
			Tamper: []Tampering{etcd(tamper.Rule{Mode: tamper.RefusedWrite, Prefix: listedOld}),
				etcd(tamper.Rule{Mode: tamper.RefusedWrite, Prefix: listedNew})},
			Catches: []Catch{{Requirement: "HA-EP-002", Says: "was still listed"}}},
		{Name: "counted-when-killed", Violation: "kube-apiserver --endpoint-reconciler-type=master-count --apiserver-count=3, and one is killed",
			Cluster: counting, Scenario: "catalogue/apiserver-killed",
			Catches: []Catch{{Requirement: "HA-EP-003", Says: "was still listed"}}},
		{Name: "counted-when-silent", Violation: "kube-apiserver --endpoint-reconciler-type=master-count --apiserver-count=3, and one is frozen, another cut off",
			Cluster: counting, Scenario: "catalogue/apiservers-silent",
			Catches: []Catch{
				{Requirement: "HA-EP-004", Says: "within 27s (T + I + M, I = 10s, M = 2s, T = 15s) of the freeze of kube-apiserver on node-3"},
				{Requirement: "HA-EP-005", Says: "of the isolation of etcd on node-2"},
			}},
		{Name: "lease-not-written", Violation: "an API server that is back cannot write the lease of its address",
			Cluster: proxied, Scenario: "catalogue/apiserver-killed", From: 7, May: []string{"steady-state"},
			Tamper:  []Tampering{etcd(tamper.Rule{Mode: tamper.RefusedWrite, Prefix: addressLeases})},
			Catches: []Catch{{Requirement: "HA-EP-006", Says: "still not in"}}},
		{Name: "lease-not-renewed", Violation: "an API server that runs but cannot renew the lease of its address",
			Cluster: proxied, Scenario: "catalogue/undisturbed", From: 7, May: []string{"steady-state"},
			Tamper:  []Tampering{etcd(tamper.Rule{Mode: tamper.RefusedWrite, Prefix: addressLeases}, 2)},
			Catches: []Catch{{Requirement: "HA-EP-007", Says: "must not change"}, {Requirement: "HA-EP-001", Says: "must hold exactly the live API servers"}}},
		{Name: "survivor-not-shown", Violation: "the last API server shows the list without any address",
			Cluster: proxied, Scenario: "catalogue/apiservers-killed-but-one", From: 6, Until: 7,
			Tamper: []Tampering{api(tamper.Rule{Mode: tamper.NoAddresses, Prefix: "/api/v1/namespaces/default/endpoints"}, 1),
				api(tamper.Rule{Mode: tamper.NoAddresses, Prefix: "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"}, 1)},
			Catches: []Catch{{Requirement: "HA-EP-010", Says: "must never be without an address"}}},
		{Name: "list-empty", Violation: "while the last API server is restarted, the others show the list without any address",
			Cluster: drainsProxied, Twin: drainsProxied, Scenario: "catalogue/apiservers-restarted", From: 12, Until: 13,
			Tamper: []Tampering{api(tamper.Rule{Mode: tamper.NoAddresses, Prefix: "/api/v1/namespaces/default/endpoints"}),
				api(tamper.Rule{Mode: tamper.NoAddresses, Prefix: "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"})},
			Catches: []Catch{{Requirement: "HA-EP-011", Says: "must never be without an address"}}},
		{Name: "stale-list", Violation: "the first API server that starts again cannot write the list of addresses",
			Cluster: proxied, Scenario: "catalogue/apiservers-all-killed", From: 6, Until: 10,
			Tamper: []Tampering{etcd(tamper.Rule{Mode: tamper.RefusedWrite, Prefix: listedOld}),
				etcd(tamper.Rule{Mode: tamper.RefusedWrite, Prefix: listedNew})},
			Catches: []Catch{{Requirement: "HA-EP-012", Says: "still held"}}},
	}
}
