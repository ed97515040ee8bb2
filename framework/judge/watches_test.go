package judge

import (
	"fmt"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// Three writes of two keys, with which most histories of watches start.
const twoKeys = `
	create k1 v1@a 101
	create k2 v2@b 102
	update k1 v3@b 103 over=101
`

func TestWatchOrdered(t *testing.T) {
	tell(t, named("watch-ordered"), []telling{
		{"in order", "", twoKeys + `
			watch w from=100
			added w k1 v1@a 101
			added w k2 v2@b 102
			modified w k1 v3@b 103`, Pass, ""},
		{"the state has no order", "", twoKeys + `
			watch w
			added w k1 v3@b 103
			added w k2 v2@b 102
			create k3 v4@a 104
			added w k3 v4@a 104
			bookmark w 105`, Pass, ""},
		{"initial events have no order", "", twoKeys + `
			watch w initial
			added w k1 v3@b 103
			added w k2 v2@b 102
			bookmark w 103 end`, Pass, ""},
		{"a transaction of etcd", facts.APIEtcd, `
			put k1 v1 101 txn=t
			with put k2 v2 101 txn=t
			watch w from=101
			added w k1 v1 101
			added w k2 v2 101`, Pass, ""},
		{"back", "", twoKeys + `
			watch w from=100
			added w k2 v2@b 102
			added w k1 v1@a 101`, Fail, "watch w of things by watcher through node-1 showed version 101 of k1 after version 102 of k2"},
		{"back after the initial events", "", twoKeys + `
			watch w initial
			added w k1 v3@b 103
			bookmark w 103 end
			modified w k2 v2@b 102`, Fail, "showed version 102 of k2 after version 103 of k1"},
		{"two objects of one version", "", twoKeys + `
			watch w from=100
			added w k1 v1@a 101
			added w k2 v2@b 101`, Fail, "showed version 101 of k2 after version 101 of k1"},
		{"no watch", "", twoKeys, NotApplicable, "no watch"},
	})
}

func TestWatchUnique(t *testing.T) {
	tell(t, named("watch-unique"), []telling{
		{"once each, over two entrances", "", twoKeys + `
			watch w from=100
			added w k1 v1@a 101
			ended w
			watch x from=101 resumes=w through=node-2
			added x k2 v2@b 102
			modified x k1 v3@b 103`, Pass, ""},
		{"a new list shows the state again", "", twoKeys + `
			watch w from=100
			added w k2 v2@b 102
			ended w
			watch x initial resumes=w through=node-2
			added x k2 v2@b 102
			bookmark x 103 end`, Pass, ""},
		{"its client asked for it again", "", twoKeys + `
			watch w from=100
			added w k1 v1@a 101
			watch x from=100 resumes=w
			added x k1 v1@a 101`, Pass, ""},
		{"twice on one watch", "", twoKeys + `
			watch w from=100
			added w k1 v1@a 101
			added w k1 v1@a 101`, Fail, "showed version 101 of k1 at 5.000s and again at 6.000s"},
		{"twice over two entrances", "", twoKeys + `
			watch w from=100
			added w k1 v1@a 101
			watch x from=101 resumes=w through=node-2
			added x k1 v1@a 101`, Fail, "watch x of things by watcher through node-2, which continues from version 101, showed version 101 of k1 again, which watch w had shown"},
	})
}

func TestWatchReliable(t *testing.T) {
	tell(t, named("watch-reliable"), []telling{
		{"all of it", "", twoKeys + `
			watch w from=101
			added w k2 v2@b 102
			modified w k1 v3@b 103`, Pass, ""},
		{"not there yet", "", twoKeys + `
			watch w from=100
			added w k1 v1@a 101`, Pass, ""},
		{"of one key", "", twoKeys + `
			watch w from=100 key=k1
			added w k1 v1@a 101
			modified w k1 v3@b 103`, Pass, ""},
		{"of one group", "", twoKeys + `
			watch w from=100 group=a
			added w k1 v1@a 101
			deleted w k1 v1@a 103
			bookmark w 110`, Pass, ""},
		{"nobody knows whether it was written", "", twoKeys + `
			update k2 v4@b over=102 unknown
			watch w from=103
			bookmark w 110`, Pass, ""},
		{"the end of the state is not marked", "", twoKeys + `
			watch w
			added w k1 v3@b 103
			added w k2 v2@b 102
			create k3 v4@a 104
			added w k3 v4@a 104
			update k2 v5@a 105 over=102
			modified w k2 v5@a 105`, Pass, ""},
		{"nothing shown", "", twoKeys + "watch w from=100\nended w", NotApplicable, "no watch that showed anything"},
		{"one left out", "", twoKeys + `
			watch w from=100
			added w k1 v1@a 101
			modified w k1 v3@b 103`, Fail, `watch w of things by watcher through node-1 left out k2 = "v2" in version 102 (create by writer, acknowledged at 2.500s), and had passed it at 6.000s with "modified k1 = \"v3\" in version 103"`},
		{"one of unknown outcome left out, which a list shows", "", twoKeys + `
			create k3 v4@a unknown
			list unset = 110 k1:v3@b:103 k2:v2@b:102 k3:v4@a:104
			watch w from=103
			bookmark w 110`, Fail, `left out k3 = "v4" in version 104 (create by writer, called at 4.000s, of unknown outcome)`},
		{"a deletion left out, which another watch shows", "", twoKeys + `
			delete k2
			watch w from=103
			watch x from=103
			deleted x k2 v2@b 104
			bookmark w 104`, Fail, "left out the deletion of k2 in version 104"},
		{"one key's change left out", "", twoKeys + `
			update k1 v4@b 104 over=103
			watch w from=100 key=k1
			added w k1 v1@a 101
			modified w k1 v4@b 104`, Fail, "left out k1 = \"v3\" in version 103"},
		{"the leaving of a group left out", "", twoKeys + `
			watch w from=100 group=a
			added w k1 v1@a 101
			bookmark w 110`, Fail, "left out k1 = \"v3\" in version 103"},
		{"the state lacks an object", "", twoKeys + `
			watch w
			added w k1 v3@b 103
			create k3 v4@a 104
			update k1 v5@b 105 over=103
			modified w k1 v5@b 105`, Fail, "began with something other than the state of version 104: it lacks k2"},
		{"etcd: the first change after the watch stood", facts.APIEtcd, `
			watch w
			put k1 v1 101
			put k2 v2 102
			added w k2 v2 102
			put k3 v3 103
			added w k3 v3 103`, Fail, `left out k1 = "v1" in version 101`},
		{"etcd: DELETE at r, COMPACT r, WATCH from r", facts.APIEtcd, `
			put k1 v1 101
			delete k1 102
			put k2 v3 103
			watch w from=102
			added w k2 v3 103
			bookmark w 103`, Fail, "left out the deletion of k1 in version 102"},
	})
}

func TestWatchResumable(t *testing.T) {
	tell(t, named("watch-resumable"), []telling{
		{"over two entrances", "", twoKeys + `
			watch w from=100
			added w k1 v1@a 101
			ended w
			watch x from=101 resumes=w through=node-2
			added x k2 v2@b 102
			ended x
			watch y from=102 resumes=x through=node-3
			modified y k1 v3@b 103`, Pass, ""},
		{"a gap at the break", "", twoKeys + `
			watch w from=100
			added w k1 v1@a 101
			ended w
			watch x from=101 resumes=w through=node-2
			modified x k1 v3@b 103`, Fail, "watch x of things by watcher through node-2, from version 101 of watch w through node-1, left out k2"},
		{"from before", "", twoKeys + `
			watch w from=102
			added w k2 v2@b 102
			modified w k1 v3@b 103`, Fail, "from version 102, showed version 102 of k2, which is from before"},
		{"etcd begins at the version", facts.APIEtcd, `
			put k1 v1 101
			put k2 v2 102
			watch w from=101
			added w k1 v1 101`, Pass, ""},
		{"etcd leaves the version itself out", facts.APIEtcd, `
			put k1 v1 101
			put k2 v2 102
			put k3 v3 103
			watch w from=101
			added w k2 v2 102
			added w k3 v3 103`, Fail, `left out k1 = "v1" in version 101`},
		{"from no version", "", twoKeys + "watch w\nadded w k1 v3@b 103", NotApplicable, ""},
	})
}

// TestWatchesUnderFault: node-2's API server is killed at 4 s and healed at 30 s, and the watches
// must have been affected.
func TestWatchesUnderFault(t *testing.T) {
	resumable := record.Check{Requirement: "HA-WCH-002", Judge: "watch-resumable", Fault: "fault"}
	ordered := record.Check{Requirement: "HA-WCH-001", Judge: "watch-ordered", Fault: "fault"}
	healed := 30.0
	// A watch of node-2 ends with an error at 6.1 s, another one continues.
	broken := func(entrance, problem string, events int) func() *story {
		return func() *story {
			history := twoKeys + "watch w from=100 through=node-2\nadded w k1 v1@a 101\nended w through=node-2\nwatch x from=101 resumes=w through=" + entrance + "\n"
			if events > 0 {
				history += "added x k2 v2@b 102\nmodified x k1 v3@b 103\n"
			}
			for i := range max(0, events-2) {
				history += fmt.Sprintf("bookmark x %d\n", 104+i)
			}
			return told(t, "kill", "kube-apiserver", history)().change(func(r *record.Run) {
				r.Watches[1].V.Error = problem
				r.Faults[1].V.Called, r.Faults[1].V.Effect = sec(healed), sec(healed)
			})
		}
	}
	rule(t, resumable, []ruling{
		{name: "broke and went on", want: Pass, story: broken("node-1", "unexpected EOF", 12)},
		{name: "ended in due time", want: Inconclusive, says: "no watch that broke", story: broken("node-1", "", 12)},
		{name: "ended in due time and refused then", want: Pass, story: func() *story {
			return broken("node-1", "", 12)().change(func(r *record.Run) {
				refused := r.Watches[2]
				refused.V.ID, refused.V.Entrance, refused.V.Phase = "y", "node-2", record.WatchRefused
				r.Watches = append(r.Watches, refused)
			})
		}},
		{name: "its client ended it", want: Inconclusive, says: "no watch that broke", story: broken("node-1", facts.ClientsOwn, 12)},
		{name: "went on where it was", want: Inconclusive, says: "no watch that broke", story: broken("node-2", "unexpected EOF", 12)},
		{name: "showed nothing then", want: Inconclusive, says: "1 message came after the kill of kube-apiserver on node-2 took effect", story: broken("node-1", "unexpected EOF", 0)},
		{name: "left something out", want: Fail, says: "left out k2", story: func() *story {
			return told(t, "kill", "kube-apiserver", twoKeys+"watch w from=100 through=node-2\nadded w k1 v1@a 101\nended w\nwatch x from=101 resumes=w\nmodified x k1 v3@b 103")()
		}},
	})
	rule(t, ordered, []ruling{
		{name: "enough", want: Pass, story: broken("node-1", "", 9)},
		{name: "too little", want: Inconclusive, says: "9 messages came after", story: broken("node-1", "", 8)},
		{name: "enough, but only after the healing", want: Inconclusive, says: "1 message came after the kill of kube-apiserver on node-2 took effect and before it was healed", story: func() *story {
			return broken("node-1", "", 9)().change(func(r *record.Run) { r.Faults[1].V.Called = sec(8) })
		}},
	})
	// Ten writes and reads meet the fault through node-2, and per second five through node-3.
	lossy := func(attempts string, until float64) func() *story {
		return func() *story {
			return newStory(record.Check{Requirement: "HA-QR-012", Level: "MUST", Judge: "linearizable", Fault: "loss", Params: map[string]string{"attempts": attempts}}).
				fault("loss", "loss", "node-1", "", 10, 20).traffic("node-2", 1, 12).traffic("node-3", 12, until)
		}
	}
	rule(t, record.Check{Requirement: "HA-QR-012", Judge: "linearizable", Fault: "loss"}, []ruling{
		{name: "traffic under the fault", want: Pass, story: lossy("", 14),
			says: "no acknowledged write is lost. While the loss of node-1 lasted, clients attempted 10 writes and 10 quorum reads through node-2 and 10 writes and 10 quorum reads through node-3."},
		{name: "one too few of each", want: Inconclusive, says: "9 attempted quorum reads came through node-3 while the loss of node-1 lasted (10.000s to 20.000s), fewer than the 10 required", story: lossy("", 13.8)},
		{name: "one fewer than the check requires", want: Inconclusive, says: "10 attempted quorum reads came through node-2 while the loss of node-1 lasted (10.000s to 20.000s), fewer than the 11 required", story: lossy("11", 16)},
		{name: "less than the least is required", want: Inconclusive, says: `parameter attempts = "9" is not a number, 10 or more`, story: lossy("9", 14)},
		{name: "a stale read under the fault", want: Fail, says: "must be linearizable", story: func() *story {
			return lossy("", 14)().read("node-2", "k-node-3-12", "v1", 220, 15, 15.1)
		}},
		{name: "through the hit node alone", want: Inconclusive, says: "0 answered operations came through node-2 while", story: func() *story {
			return newStory().fault("loss", "loss", "node-1", "", 10, 20).traffic("node-1", 1, 12)
		}},
		{name: "through one of the others alone", want: Inconclusive, says: "0 answered operations came through node-3 while", story: func() *story {
			return newStory().fault("loss", "loss", "node-1", "", 10, 20).traffic("node-2", 1, 12)
		}},
		{name: "reads alone through one of the others", want: Inconclusive, says: "2 attempted writes came through node-3 while", story: func() *story {
			s := newStory().fault("loss", "loss", "node-1", "", 10, 20).traffic("node-2", 1, 12).traffic("node-3", 12, 12.4)
			for t := range steps(12.5, 14.5, 0.1) {
				s.read("node-3", "k-node-3-12", "v2", 222, t, t+0.01)
			}
			return s
		}},
		{name: "traffic only before it", want: Inconclusive, says: "0 answered operations came while the loss of node-1 lasted (10.000s to 20.000s)", story: func() *story {
			return newStory().fault("loss", "loss", "node-1", "", 10, 20).traffic("node-1", 1, 9)
		}},
		{name: "traffic only after it", want: Inconclusive, says: "0 answered operations came while the loss", story: func() *story {
			return newStory().fault("loss", "loss", "node-1", "", 10, 20).traffic("node-1", 30, 40)
		}},
		{name: "traffic after a fault of a moment", want: Pass, says: "After the loss of node-1 took effect, clients attempted 50 writes and 50 quorum reads through node-1.", story: func() *story {
			return newStory().fault("loss", "loss", "node-1", "", 10, 11).traffic("node-1", 30, 40)
		}},
		{name: "traffic after all nodes were hit", want: Pass, story: func() *story {
			return newStory().fault("loss", "loss", "node-1", "", 10, 20).traffic("node-1", 30, 40).change(func(r *record.Run) {
				r.Faults[0].V.Nodes = []string{"node-2", "node-3"}
			})
		}},
	})
}

func TestWatchBookmark(t *testing.T) {
	tell(t, named("watch-bookmark"), []telling{
		{"after all", "", twoKeys + `
			watch w from=100
			added w k1 v1@a 101
			bookmark w 101
			added w k2 v2@b 102
			modified w k1 v3@b 103
			bookmark w 110`, Pass, ""},
		{"a streaming list, with a change before its end", "", twoKeys + `
			watch w initial
			added w k2 v2@b 102
			added w k1 v1@a 101
			modified w k1 v3@b 103
			bookmark w 103 end`, Pass, ""},
		{"a streaming list with a deletion before its end", "", twoKeys + `
			watch w initial
			added w k2 v2@b 102
			added w k1 v3@b 103
			delete k2
			deleted w k2 v2@b 104
			bookmark w 104 end`, Pass, ""},
		{"too early", "", twoKeys + `
			watch w from=100
			added w k1 v1@a 101
			bookmark w 102
			added w k2 v2@b 102`, Fail, "gave a bookmark of version 102 at 6.000s, and at 7.000s showed version 102 of k2"},
		{"nothing of it", "", twoKeys + `
			watch w from=101
			bookmark w 102`, Fail, `gave a bookmark of version 102 at 5.000s without having shown k2 = "v2"`},
		{"back", "", twoKeys + `
			watch w from=103
			bookmark w 110
			bookmark w 109`, Fail, "gave a bookmark of version 109 at 6.000s, when it was at version 110"},
		{"a streaming list lacks an object", "", twoKeys + `
			watch w initial
			added w k2 v2@b 102
			bookmark w 103 end`, Fail, "began with something other than the state of version 103: it lacks k1"},
		{"a streaming list with what was deleted", "", twoKeys + `
			delete k2
			create k3 v4@a 110
			watch x from=103
			deleted x k2 v2@b 105
			watch w initial
			added w k1 v3@b 103
			added w k2 v2@b 102
			added w k3 v4@a 110
			bookmark w 110 end`, Fail, `it has k2 = "v2" in version 102, after the deletion of k2 in version 105`},
		{"a streaming list from the past", "", twoKeys + `
			watch w initial
			added w k2 v2@b 102
			added w k1 v1@a 101
			bookmark w 102 end`, Fail, "began with the state of version 102, although version 103 had been acknowledged to writer at 3.500s"},
		{"a streaming list of any version", "", twoKeys + `
			watch w initial from=0
			added w k2 v2@b 102
			added w k1 v1@a 101
			bookmark w 102 end`, Pass, ""},
		{"a streaming list older than asked for", "", twoKeys + `
			watch w initial from=103
			added w k2 v2@b 102
			added w k1 v1@a 101
			bookmark w 102 end`, Fail, "from version 103, began with the state of version 102"},
		{"etcd has no streaming lists", facts.APIEtcd, `
			put k1 v1 101
			put k2 v2 102
			watch w initial
			bookmark w 101`, Pass, ""},
		{"no bookmark", "", twoKeys + "watch w from=102\nmodified w k1 v3@b 103", NotApplicable, ""},
	})
}

func TestWatchCompacted(t *testing.T) {
	const refused = "refused x from=90 status=410\n"
	tell(t, named("watch-compacted"), []telling{
		{"refused", "", twoKeys + refused, Pass, "1 was refused with 410, and 0 were accepted"},
		{"accepted, and all there", "", twoKeys + "refused x from=101 status=410\nwatch w from=100\nadded w k1 v1@a 101\nadded w k2 v2@b 102", Pass, ""},
		{"accepted with a gap", "", twoKeys + "refused x from=101 status=410\nwatch w from=100 through=node-2\nadded w k2 v2@b 102", Fail,
			`watch w of things by watcher through node-2, from version 100, left out k1 = "v1" in version 101`},
		{"etcd: up to which it said", facts.APIEtcd, `
			put k1 v1 101
			put k2 v2 102
			put k3 v3 103
			refused x from=50 status=410 compacted=102
			watch w from=101
			added w k3 v3 103
			bookmark w 103`, Fail, "left out k1"},
		{"nothing is known to be forgotten", "", twoKeys + "watch w from=100\nadded w k2 v2@b 102", NotApplicable, ""},
	})
}
