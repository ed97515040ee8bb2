package selftest

import (
	"time"

	"github.com/holdfast-ha/holdfast/clusters/local/tamper"
)

// historyPlants are those about reads, writes and lists.
func historyPlants() []Plant {
	plant := func(name, violation string, t Tampering, catches ...Catch) Plant {
		return Plant{Name: name, Violation: violation, Cluster: proxied, Scenario: "traffic", Tamper: []Tampering{t}, Catches: catches}
	}
	return []Plant{
		plant("old-registers", "API servers that, after some time, read registers as they were 100 revisions ago",
			etcd(tamper.Rule{Mode: tamper.OldRange, Prefix: registers, After: 30, By: 100}),
			Catch{Judge: "linearizable", Says: "must be linearizable"},
			Catch{Judge: "read-your-writes"}, Catch{Judge: "monotonic-reads"}),
		// The last writes: no write follows them.
		{Name: "lost-writes", Violation: "etcd acknowledges writes and does nothing",
			Cluster: proxied, Scenario: "traffic", From: 1,
			Tamper:  []Tampering{etcd(tamper.Rule{Mode: tamper.LostWrite, Prefix: registers})},
			Catches: []Catch{{Judge: "no-lost-write", Says: "acknowledged"}}},
		// No write follows them: only the set shows what registers overwrite.
		{Name: "lost-elements", Violation: "etcd acknowledges creates of a set and does nothing",
			Cluster: proxied, Scenario: "traffic", From: 1,
			Tamper:  []Tampering{etcd(tamper.Rule{Mode: tamper.LostWrite, Prefix: inEtcd + "element-1-"})},
			Catches: []Catch{{Judge: "no-lost-write", Says: "element-1-"}}},
		{Name: "lost-transactions", Violation: "an etcd member acknowledges transactions and does nothing",
			Cluster: proxied, Scenario: "etcd-traffic", From: 1,
			Tamper:  []Tampering{etcd(tamper.Rule{Mode: tamper.LostWrite, Prefix: "/holdfast/traffic/"}, 2)},
			Catches: []Catch{{Judge: "etcd-linearizable", Says: "etcd"}}},
		plant("two-winners", "etcd carries out transactions whatever their compares say",
			etcd(tamper.Rule{Mode: tamper.NoCompare, Prefix: registers, For: 150 * time.Millisecond}),
			Catch{Judge: "one-winner"}),
		plant("low-versions", "acknowledged writes have a resourceVersion that is too low by 40",
			etcd(tamper.Rule{Mode: tamper.LowRevision, Prefix: registers, After: 10, By: 40}),
			Catch{Judge: "revision-order"}),
		plant("old-lists", "an API server that answers lists as it did the first time",
			api(tamper.Rule{Mode: tamper.OldAnswer, Prefix: configs, After: 5}, 2),
			Catch{Judge: "list-semantics"}),
		plant("empty-answers", "an API server that answers some reads and lists with an empty object",
			api(tamper.Rule{Mode: tamper.EmptyAnswer, Prefix: configs, After: 20, Times: 40}, 2),
			Catch{Judge: "list-semantics", Says: "was answered with something else"}, Catch{Judge: "linearizable"}),
		plant("torn-pages", "an API server that serves the later pages of a list from a newer state",
			api(tamper.Rule{Mode: tamper.OtherPage, Prefix: configs}),
			Catch{Judge: "list-snapshot"}),
	}
}
