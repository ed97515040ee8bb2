package selftest

import "github.com/holdfast-ha/holdfast/clusters/local/tamper"

// watchRequirementPlants are those for the requirements on watches. They tamper for as long as
// the fault is active, and only the checks of every run that are named here may find anything
// else.
func watchRequirementPlants() []Plant {
	return []Plant{
		{Name: "swapped-without-leader", Violation: "API servers that swap events of watches after the etcd leader was killed",
			Cluster: proxied, Scenario: "catalogue/etcd-leader-killed", From: 3, Until: 4,
			Tamper:  []Tampering{api(tamper.Rule{Mode: tamper.SwappedLines, Prefix: configs, After: 5, Times: 3})},
			Catches: []Catch{{Requirement: "HA-WCH-001", Says: "must come in the order of their versions"}, {Judge: "watch-ordered"}}},
		{Name: "repeated-without-leader", Violation: "API servers that send events of watches twice after the etcd leader was killed",
			Cluster: proxied, Scenario: "catalogue/etcd-leader-killed", From: 3, Until: 4,
			Tamper:  []Tampering{api(tamper.Rule{Mode: tamper.RepeatedLine, Prefix: configs, After: 5, Times: 3})},
			Catches: []Catch{{Requirement: "HA-WCH-001", Says: "must not show a change twice"}, {Judge: "watch-unique"}}},
		{Name: "resumed-late", Violation: "API servers that start resumed watches with the next change while another one is down",
			Cluster: proxied, Scenario: "catalogue/apiserver-killed", From: 3, Until: 7,
			Tamper:  []Tampering{api(tamper.Rule{Mode: tamper.LateStart, Prefix: configs})},
			Catches: []Catch{{Requirement: "HA-WCH-002", Says: "left out"}, {Judge: "watch-resumable"}, {Judge: "watch-reliable"}},
			// A skipped event is also missing before a bookmark, if one comes next.
			May: []string{"watch-bookmark"}},
		{Name: "false-bookmark", Violation: "API servers that send bookmarks before the events they stand for",
			Cluster: proxied, Scenario: "catalogue/undisturbed", From: 7,
			Tamper:  []Tampering{api(tamper.Rule{Mode: tamper.EarlyBookmark, Prefix: configs, After: 5, Times: 3})},
			Catches: []Catch{{Requirement: "HA-WCH-003", Says: "must come after all changes up to its version"}, {Judge: "watch-bookmark"}}},
		{Name: "gone-not-reported", Violation: "etcd members that start watches of compacted history with the next change",
			Cluster: proxied, Scenario: "catalogue/apiservers-silent", From: 8, Until: 10,
			// A bookmark may follow the gap.
			May:    []string{"HA-INV-007"},
			Tamper: []Tampering{etcd(tamper.Rule{Mode: tamper.SilentGap, Prefix: "/holdfast/traffic/"})},
			Catches: []Catch{{Requirement: "HA-WCH-004", Says: "must be refused with 410, or have no gap"},
				{Judge: "watch-compacted"}, {Judge: "watch-reliable"}, {Judge: "watch-resumable"}}},
		{Name: "old-streams", Violation: "an API server that starts streaming lists with an old state while it starts up",
			Cluster: drainsProxied, Twin: drainsProxied, Scenario: "catalogue/apiservers-restarted", From: 8, Until: 9, May: []string{"linearizable"},
			// On a slow machine, an API server that starts answers after some seconds: the state must be from
			// before the request.
			Tamper:  []Tampering{api(tamper.Rule{Mode: tamper.OldStream, Prefix: configs, By: 400}, 2)},
			Catches: []Catch{{Requirement: "HA-WCH-005", Says: "must not show the past"}, {Judge: "list-watch"}, {Judge: "watch-bookmark"}}},
	}
}
