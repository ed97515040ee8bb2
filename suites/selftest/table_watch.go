package selftest

import "github.com/holdfast-ha/holdfast/clusters/local/tamper"

// watchPlants are those about the watches of the API.
func watchPlants() []Plant {
	plant := func(name, violation string, mode tamper.Mode, judge string) Plant {
		return Plant{Name: name, Violation: violation, Cluster: proxied, Scenario: "traffic",
			Tamper:  []Tampering{api(tamper.Rule{Mode: mode, Prefix: configs, After: 10})},
			Catches: []Catch{{Judge: judge}}}
	}
	late := plant("late-start", "an API server that begins resumed watches with the next change", tamper.LateStart, "watch-resumable")
	late.Tamper[0].Rule.After = 0
	unfiltered := plant("unfiltered-watch", "an API server that shows a watch what it did not ask for", tamper.Unfiltered, "watch-filter")
	unfiltered.Tamper[0].Rule.After = 0
	return []Plant{
		plant("swapped-events", "an API server that swaps two events of a watch", tamper.SwappedLines, "watch-ordered"),
		plant("repeated-event", "an API server that sends events of a watch twice", tamper.RepeatedLine, "watch-unique"),
		plant("lost-event", "an API server that loses events of a watch", tamper.LostLine, "watch-reliable"),
		plant("silence", "an API server that sends nothing more on watches, and leaves them open", tamper.Silence, "watch-alive"),
		plant("altered-event", "an API server that shows an object as it was before", tamper.AlteredLine, "watch-content"),
		plant("early-bookmark", "an API server that sends a bookmark before the event it stands for", tamper.EarlyBookmark, "watch-bookmark"),
		plant("wrong-type", "an API server that shows additions as changes and changes as additions", tamper.WrongType, "watch-flags"),
		late, unfiltered,
		{Name: "ended-watches", Violation: "API servers that accept watches and close them immediately", Cluster: proxied, Scenario: "traffic",
			Tamper:  []Tampering{api(tamper.Rule{Mode: tamper.EndedWatch, Prefix: configs})},
			Catches: []Catch{{Judge: "watch-alive", Says: "that it continued"}}},
	}
}

// etcdWatchPlants are those about the watches of etcd members.
func etcdWatchPlants() []Plant {
	plant := func(name, violation string, mode tamper.Mode, judge string) Plant {
		return Plant{Name: name, Violation: violation, Cluster: proxied, Scenario: "etcd-watches",
			Tamper:  []Tampering{etcd(tamper.Rule{Mode: mode, Prefix: watchedPrefix})},
			Catches: []Catch{{Judge: judge}}}
	}
	return []Plant{
		plant("split-revision", "an etcd member that spreads one revision over two responses of a watch", tamper.SplitRevision, "watch-atomic"),
		plant("wrong-previous", "an etcd member that gives a key's new value as the one before", tamper.WrongPrevious, "watch-previous"),
		plant("silent-gap", "an etcd member that begins a watch of compacted history with the next change", tamper.SilentGap, "watch-compacted"),
		plant("create-as-modify", "an etcd member that shows new keys as changes of older ones", tamper.CreateAsModify, "watch-flags"),
		{Name: "etcd-3.5.12", Violation: "etcd 3.5.12, which drops a deletion at the revision that was compacted (etcd issue 18089)",
			Cluster: dropping, Scenario: "etcd-watches", Catches: []Catch{{Judge: "watch-reliable"}}},
	}
}
