package judge

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// told is a history in the text of chronicle with a fault from 4 s to 9 s, which is
// healed with proof at 10 s.
func told(t *testing.T, fault, component, history string) func() *story {
	return func() *story {
		s := &story{run: chronicle(t, facts.APIKubernetes, history)}
		return s.fault("fault", fault, "node-2", component, 4, 9)
	}
}

// The lines after twoKeys are at 4 s, 5 s and so on.
func TestListWatch(t *testing.T) {
	const (
		listed = `
			list unset = 103 k1:v3@b:103 k2:v2@b:102
			watch w from=103 through=node-2`
		streamed = `
			watch x initial through=node-2
			added x k1 v3@b 103
			added x k2 v2@b 102
			bookmark x 103 end`
		more = `
			update k2 v4@a 104 over=102
			modified w k2 v4@a 104
			with modified x k2 v4@a 104`
	)
	restarted := func(history string) func() *story { return told(t, "restart", "kube-apiserver", history) }
	rule(t, record.Check{Requirement: "HA-WCH-005", Judge: "list-watch", Fault: "fault", Bound: "M"}, []ruling{
		{name: "as it should be", want: Pass, story: restarted(twoKeys + listed + streamed + more),
			says: "1 list continued as a watch and 1 streaming list were complete"},
		{name: "an old list", want: Fail, says: "gave version 101, although version 103 had been acknowledged",
			story: restarted(twoKeys + "list unset = 101 k1:v1@a:101\nwatch w from=101 through=node-2" + streamed)},
		{name: "a list that lacks something", want: Fail, says: `it lacks k1 = "v3"`,
			story: restarted(twoKeys + "list unset = 103 k2:v2@b:102\nwatch w from=103 through=node-2" + streamed)},
		{name: "an old streaming list", want: Fail, says: "began with the state of version 102, although version 103 had been acknowledged",
			story: restarted(twoKeys + listed + "\nwatch x initial through=node-2\nadded x k1 v1@a 101\nadded x k2 v2@b 102\nbookmark x 102 end\nmodified x k1 v3@b 103")},
		{name: "a streaming list that lacks something", want: Fail, says: "began with something other than the state of version 103",
			story: restarted(twoKeys + listed + "\nwatch x initial through=node-2\nadded x k2 v2@b 102\nbookmark x 103 end")},
		{name: "a watch with a gap", want: Fail, says: `left out k2 = "v4"`,
			story: restarted(twoKeys + listed + streamed + "\nupdate k2 v4@a 104 over=102\nupdate k1 v5@a 105 over=103\nmodified w k1 v5@a 105")},
		{name: "through another API server", want: Inconclusive, says: "one of each is required",
			story: restarted(twoKeys + listed + "\nwatch x initial through=node-3\nadded x k1 v1@a 101\nbookmark x 101 end")},
		{name: "long after", want: Inconclusive, says: "0 lists continued as a watch and 0 streaming lists",
			story: restarted(twoKeys + more + more + more + more + more + listed + streamed)},
		{name: "streaming lists are rejected", want: Pass, says: "1 list continued as a watch and 0 streaming lists",
			story: restarted(twoKeys + listed + "\nrefused x initial through=node-2 status=422")},
		{name: "streaming lists are rejected only now", want: Inconclusive, says: "one of each is required",
			story: restarted(twoKeys + listed + "\nrefused x initial through=node-2 status=422" + "\nwatch y initial through=node-2")},
		{name: "streaming lists are refused", want: Inconclusive, says: "one of each is required",
			story: restarted(twoKeys + listed + "\nrefused x initial through=node-2 status=503")},
		{name: "streaming lists are rejected by another API server", want: Inconclusive, says: "one of each is required",
			story: restarted(twoKeys + listed + "\nrefused x initial through=node-3 status=422")},
		{name: "cut short", want: Inconclusive, says: "1 list continued as a watch and 0 streaming lists",
			story: restarted(twoKeys + listed + "\nwatch x initial through=node-2\nadded x k2 v2@b 102")},
	})
}

// A watch counts as one of compacted history if that is certain.
func TestWatchCompactedByFault(t *testing.T) {
	compacted := func(history string) func() *story { return told(t, "compact", "etcd", history) }
	rule(t, record.Check{Requirement: "HA-WCH-004", Judge: "watch-compacted", Fault: "fault"}, []ruling{
		{name: "accepted, and all there", want: Pass, says: "0 were refused with 410, and 1 was accepted",
			story: compacted(twoKeys + "\nbookmark none 1\nwatch w from=101 through=node-2\nadded w k2 v2@b 102\nmodified w k1 v3@b 103")},
		{name: "refused", want: Pass, says: "1 was refused with 410, and 0 were accepted",
			story: compacted(twoKeys + "\nbookmark none 1\nrefused w from=101 status=410")},
		{name: "accepted, and nothing to show", want: Pass, says: "1 was accepted", story: compacted(`create k1 v1@a 101
			create k2 v2@b 102
			create k3 v3@b 103
			bookmark none 1
			watch w from=101 group=a through=node-2
			later 3
			ended w`)},
		{name: "accepted, and mute", want: Inconclusive, says: "showed nothing of what had changed since, so whether it has a gap is not known",
			story: compacted(twoKeys + "\nbookmark none 1\nwatch w from=101 through=node-2\nlater 3\nended w")},
		{name: "one accepted, and mute, another refused", want: Pass, says: "1 was refused",
			story: compacted(twoKeys + "\nbookmark none 1\nrefused x from=101 status=410\nwatch w from=101 through=node-2\nlater 3\nended w")},
		{name: "one accepted, and mute, another with a gap", want: Fail, says: `left out k2`,
			story: compacted(twoKeys + "\nbookmark none 1\nwatch w from=101 through=node-2\nwatch x from=101 through=node-3\nmodified x k1 v3@b 103")},
		{name: "accepted, and then refused", want: Pass, says: "1 was refused", story: compacted(twoKeys + "\nbookmark none 1\nwatch w from=101 through=node-2\nended w status=410")},
		{name: "with a gap", want: Fail, says: `left out k2 = "v2" in version 102`,
			story: compacted(twoKeys + "\nbookmark none 1\nwatch w from=101 through=node-2\nmodified w k1 v3@b 103")},
		{name: "from the edge of what is left", want: Inconclusive, says: "No client watched from a version that was no longer in the history",
			story: compacted(twoKeys + "\nbookmark none 1\nwatch w from=102 through=node-2\nmodified w k1 v3@b 103")},
		{name: "opened before", want: Inconclusive, says: "No client watched",
			story: compacted(twoKeys + "watch w from=101 through=node-2\nadded w k2 v2@b 102\nmodified w k1 v3@b 103")},
		{name: "some is kept", want: Inconclusive, says: "No client watched", story: func() *story {
			return compacted(twoKeys + "\nbookmark none 1\nwatch w from=101 through=node-2\nadded w k2 v2@b 102")().change(func(r *record.Run) {
				r.Faults[0].V.Params = map[string]string{"keep": "3"}
			})
		}},
	})
}
