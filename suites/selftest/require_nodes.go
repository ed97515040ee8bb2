package selftest

import (
	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
)

// The kinds of clusters whose nodes change. Those that follow on one find other names
// than on a new one, so that only these scenarios share them.
const (
	// growing is healthy.
	growing = "growing"
	// numbered has API servers that count on three of them.
	numbered = "numbered"
	// unlearnt has API servers that do not list themselves.
	unlearnt = "unlearnt"
)

func nodeKinds() map[string]kind {
	reconciler := func(args map[string]string) kind {
		return kind{with(clusters.ExtraArgs{framework.APIServer: args}), false}
	}
	return map[string]kind{
		growing:  {with(nil), false},
		numbered: reconciler(map[string]string{"endpoint-reconciler-type": "master-count", "apiserver-count": "3"}),
		unlearnt: reconciler(map[string]string{"endpoint-reconciler-type": "none"}),
	}
}

// nodePlants are those for requirements on nodes that join and leave.
func nodePlants() []Plant {
	follow := func(says string) []Catch {
		return []Catch{
			{Judge: "endpoints-follow", Says: says},
			{Requirement: "HA-EP-008", Says: says},
			{Requirement: "HA-EP-009", Says: says},
		}
	}
	return []Plant{
		{Name: "count-configured", Violation: "kube-apiserver --endpoint-reconciler-type=master-count --apiserver-count=3",
			Cluster: numbered, Twin: growing, Scenario: "catalogue/nodes-scaled",
			Catches: follow("must hold exactly the API servers"), May: []string{"endpoints-never-empty"}},
		{Name: "nodes-not-listed", Violation: "kube-apiserver --endpoint-reconciler-type=none, nodes that change",
			Cluster: unlearnt, Twin: growing, Scenario: "catalogue/nodes-scaled",
			Catches: follow("still held []"), May: []string{"learns-addresses", "endpoints-never-empty"}},
		{Name: "nothing-to-learn", Violation: "kube-apiserver --endpoint-reconciler-type=none, a client that knows the first addresses",
			Cluster: unlearnt, Twin: growing, Scenario: "catalogue/addresses-learnt", Catches: []Catch{
				{Judge: "learns-addresses", Says: "must learn new ones from the kubernetes service"},
				{Requirement: "HA-CL-002", Says: "must learn new ones from the kubernetes service"},
			}},
	}
}
