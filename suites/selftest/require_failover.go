package selftest

import "github.com/holdfast-ha/holdfast/clusters/local/tamper"

// failoverPlants are those for clients that know several API servers.
func failoverPlants() []Plant {
	says := "must succeed as long as one of them answers"
	return []Plant{{Name: "refused-everywhere", Violation: "API servers that refuse the requests of clients with a list of addresses, and answer all others",
		Cluster: proxied, Scenario: "catalogue/apiservers-killed-in-turn", From: 1, Until: 4,
		Tamper: []Tampering{api(tamper.Rule{Mode: tamper.Unavailable, Prefix: "/api/v1/namespaces/default"}),
			// This keeps them from learning the addresses behind the proxies.
			api(tamper.Rule{Mode: tamper.Unavailable, Prefix: "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"})},
		Catches: both("HA-CL-001", "fails-over", says)}}
}
