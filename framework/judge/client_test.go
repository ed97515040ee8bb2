package judge

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/judges"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// ruled runs the table of a judge of every run. A failure must come with a picture
// that marks what is wrong.
func ruled(t *testing.T, d judges.Definition, cases []ruling) {
	t.Helper()
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			f := d.Judge(&facts.Case{Run: tt.story().run})
			if f.Verdict != tt.want || !strings.Contains(f.Sentence, tt.says) || tt.took != "" && f.Measured != tt.took {
				t.Errorf("verdict %q (want %q), measured %q (want %q)\nsentence: %s\nwant:     %s",
					f.Verdict, tt.want, f.Measured, tt.took, f.Sentence, tt.says)
			}
			if f.Verdict == Fail && (f.Exhibit == nil || len(f.Exhibit.Spans) < 2 || len(f.Evidence) < 2 || f.Measured == "") {
				t.Errorf("a failure without a picture, evidence or value: %+v", f)
			}
			t.Log(f.Verdict, "-", f.Sentence)
		})
	}
}

// by gives the last operation to another client.
func (s *story) by(client string) *story { s.last().Client = client; return s }

// list is an answered quorum list of collection c; items are key, value, revision.
func (s *story) list(client string, rev string, from, to float64, items ...[3]string) *story {
	l := record.List{Client: client, Entrance: "node-1", API: facts.APIKubernetes, Collection: "c", Match: record.MatchUnset, Outcome: record.OK,
		Call: sec(from), Return: sec(to), Pages: []record.Page{{Call: sec(from), Return: sec(to), Revision: rev, Items: len(items)}}}
	for _, i := range items {
		l.Items = append(l.Items, record.Item{Key: i[0], Value: i[1], Revision: i[2]})
	}
	return add(s, &s.run.Lists, l)
}

func one() *story { return newStory().write(create, "a", "k", "v1", 1, 1, 2) }

func two() *story { return one().write(update, "a", "k", "v2", 2, 3, 4).over(1) }

func final(s *story) *story { return s.purpose("final-read").by("final") }

func TestNoLostWrite(t *testing.T) {
	ruled(t, named("no-lost-write"), []ruling{
		{name: "there", want: Pass, says: "every key had its last acknowledged write, or what may have come after it (1 key, 1 read, 2 acknowledged writes in all)", took: "2 writes, 1 reads",
			story: func() *story { return final(two().read("b", "k", "v2", 2, 50, 51)) }},
		{name: "gone", want: Fail, says: `c-a's update through a of "v2" replacing version 1 of k, acknowledged at 4.000s, is not in the final read through b (at 50.000s), which returned nothing`, took: "1 of 1 final reads",
			story: func() *story { return final(two().read("b", "k", "", 0, 50, 51)) }},
		{name: "undone", want: Fail, says: `which returned "v1"`, story: func() *story { return final(two().read("b", "k", "v1", 1, 50, 51)) }},
		{name: "undone, without versions", want: Fail, says: `which returned "v1"`, story: func() *story {
			return final(newStory().write(create, "a", "k", "v1", 0, 1, 2).write(record.OpPatch, "a", "k", "v2", 0, 3, 4).read("b", "k", "v1", 0, 50, 51))
		}},
		{name: "a delete undone", want: Fail, says: "c-a's delete through a of k", story: func() *story {
			return final(one().write(remove, "a", "k", "", 0, 3, 4).read("b", "k", "v1", 1, 50, 51))
		}},
		{name: "on one server only", want: Fail, took: "1 of 2 final reads", says: "final read through c", story: func() *story {
			return final(final(two().read("b", "k", "v2", 2, 50, 51)).read("c", "k", "v1", 1, 50, 51))
		}},
		{name: "overwritten by an unknown write", want: Pass, story: func() *story {
			s := two().write(record.OpPatch, "c", "k", "v3", 0, 3, 4).outcome(record.Unknown)
			return final(s.read("b", "k", "v3", 3, 50, 51))
		}},
		{name: "an earlier write of unknown outcome came late", want: Pass, story: func() *story {
			s := newStory().write(record.OpPatch, "c", "k", "v0", 0, 0.1, 0.2).outcome(record.Unknown)
			return final(s.write(create, "a", "k", "v1", 0, 1, 2).read("b", "k", "v0", 0, 50, 51))
		}},
		{name: "perhaps deleted", want: Pass, story: func() *story {
			return final(two().write(remove, "c", "k", "", 0, 3, 3.5).outcome(record.Unknown).read("b", "k", "", 0, 50, 51))
		}},
		{name: "deleted before", want: Fail, story: func() *story {
			return final(one().write(remove, "a", "k", "", 0, 2.1, 2.2).write(create, "a", "k", "v2", 3, 3, 4).read("b", "k", "", 0, 50, 51))
		}},
		{name: "from before the record", want: Pass, story: func() *story {
			return final(newStory().write(update, "a", "k", "v1", 0, 1, 2).read("b", "k", "v0", 0, 50, 51))
		}},
		{name: "concurrent writes", want: Pass, story: func() *story {
			s := newStory().write(record.OpPatch, "a", "k", "v1", 2, 1, 3).write(record.OpPatch, "b", "k", "v2", 1, 2, 4)
			return final(s.read("b", "k", "v1", 2, 50, 51))
		}},
		{name: "no answer", want: Inconclusive, says: "of 1 key, 1 could not be read at the end", story: func() *story {
			return final(two().read("b", "k", "", 0, 50, 51).outcome(record.Unknown))
		}},
		{name: "no answer through one API server", want: Inconclusive, says: "of 1 key, 1 could not be read at the end of the run through node-3,", story: func() *story {
			return final(final(two().read("node-2", "k", "v2", 2, 50, 51)).read("node-3", "k", "", 0, 50, 51).outcome(record.Unknown))
		}},
		{name: "one API server was so slow that it was asked for one of two keys", want: Inconclusive, says: "of 2 keys, 2 could not be read at the end of the run through node-3,", story: func() *story {
			s := final(final(two().read("node-2", "j", "", 0, 50, 51)).read("node-2", "k", "v2", 2, 50, 51))
			return final(s.read("node-3", "j", "", 0, 50, 58).outcome(record.Unknown))
		}},
		{name: "a page instead of the object through one API server", want: Inconclusive, says: "could not be read at the end of the run through node-3,", story: func() *story {
			return final(final(two().read("node-2", "k", "v2", 2, 50, 51)).read("node-3", "k", record.OtherObject+"status 200, but no ConfigMap k: {}", 0, 50, 51))
		}},
		{name: "an answer through each at the second try", want: Pass, story: func() *story {
			s := final(final(two().read("node-2", "k", "v2", 2, 50, 51)).read("node-3", "k", "", 0, 50, 51).outcome(record.Unknown))
			return final(s.read("node-3", "k", "v2", 2, 51, 52))
		}},
		{name: "no answer through a node that has left", want: Pass, story: func() *story {
			s := final(final(two().read("node-2", "k", "v2", 2, 50, 51)).read("node-3", "k", "", 0, 50, 51).outcome(record.Unknown))
			return s.changed("", record.NodeRemoved, "node-3", "10.77.0.13", 20, 30)
		}},
		{name: "no final reads", want: NotApplicable, story: two},
		{name: "nothing written", want: NotApplicable, story: func() *story { return final(newStory().read("b", "k", "", 0, 50, 51)) }},
	})
}

// missed adds two updates that replace version 1 of k at the same time, both refused.
func missed(s *story, first, second record.Refusal) *story {
	return s.write(update, "a", "k", "v2", 0, 3, 4).over(1).refused(first).write(update, "b", "k", "v3", 0, 3, 4).over(1).refused(second)
}

func TestOneWinner(t *testing.T) {
	rival := func() *story { return two().write(update, "b", "k", "v3", 3, 3.5, 5).over(1) }
	ruled(t, named("one-winner"), []ruling{
		{name: "one", want: Pass, says: "For each of 1 version (0 contended for), exactly one write succeeded", story: two},
		{name: "two", want: Fail, says: `2 writes replacing version 1 of k succeeded: c-a's update through a of "v2" replacing version 1 (3.000s to 4.000s) and c-b's update`, took: "2 winners", story: rival},
		{name: "long after each other", want: Fail, story: func() *story { return two().write(update, "b", "k", "v3", 3, 30, 31).over(1) }},
		{name: "an update and a delete", want: Fail, story: func() *story { return two().write(remove, "b", "k", "", 0, 3, 4).over(1) }},
		{name: "one refused", want: Pass, says: "(1 contended for)", story: func() *story { return rival().refused(record.RefusedVersion) }},
		{name: "one refused by no API server", want: Pass, says: "(0 contended for)", story: func() *story { return rival().outcome(record.Refused) }},
		{name: "one unknown and never seen", want: Pass, story: func() *story { return rival().outcome(record.Unknown) }},
		{name: "one unknown and seen", want: Fail, story: func() *story { return rival().outcome(record.Unknown).read("a", "k", "v3", 3, 6, 7) }},
		{name: "one unknown, and seen by a read of any state", want: Pass, story: func() *story {
			s := rival().outcome(record.Unknown).read("a", "k", "v3", 3, 6, 7)
			s.last().Consistency = "any"
			return s
		}},
		{name: "an update that changed nothing", want: Pass, story: func() *story { return two().write(update, "b", "k", "v1", 1, 2.1, 2.2).over(1) }},
		{name: "one version on two keys", want: Pass, story: func() *story { return two().write(update, "b", "j", "v3", 3, 3, 4).over(1) }},
		{name: "etcd's version 0 stands for none", want: NotApplicable, story: func() *story {
			s := newStory().write(record.OpPut, "a", "k", "v1", 1, 1, 2).over(0).write(record.OpPut, "a", "k", "v2", 3, 5, 6).over(0)
			s.run.Ops[0].V.API, s.run.Ops[1].V.API = facts.APIEtcd, facts.APIEtcd
			return s
		}},
		{name: "none compares", want: NotApplicable, story: one},
		{name: "one after the other is no contest", want: Pass, says: "(0 contended for)", story: func() *story {
			return two().write(update, "b", "k", "v3", 0, 6, 7).over(1).refused(record.RefusedVersion)
		}},

		{name: "none won", want: Fail, says: `none of 2 writes replacing version 1 of k succeeded, all of them were answered, and nothing else changed the key`, took: "no winner", story: func() *story {
			return one().write(update, "a", "k", "v2", 0, 3, 4).over(1).refused(record.RefusedVersion).write(update, "b", "k", "v3", 0, 3, 4).over(1).refused(record.RefusedVersion)
		}},
		{name: "none won, all of them refused as if the key did not exist", want: Fail, says: "none of 2 writes replacing version 1 of k succeeded", took: "no winner", story: func() *story { return missed(one(), record.RefusedAbsent, record.RefusedAbsent) }},
		{name: "none won, one refused as if the key did not exist", want: Fail, says: "none of 2 writes replacing version 1 of k succeeded", story: func() *story { return missed(one(), record.RefusedAbsent, record.RefusedVersion) }},
		{name: "none won, and the key had been deleted", want: Pass, story: func() *story {
			return missed(one().write(remove, "c", "k", "", 0, 2.1, 2.9), record.RefusedAbsent, record.RefusedAbsent)
		}},
		{name: "none won, and the key may have been deleted", want: Pass, story: func() *story {
			return missed(one().write(remove, "c", "k", "", 0, 2.1, 2.9).outcome(record.Unknown), record.RefusedAbsent, record.RefusedAbsent)
		}},
		{name: "none won, and a delete had been refused", want: Fail, story: func() *story {
			return missed(one().write(remove, "c", "k", "", 0, 2.1, 2.9).outcome(record.Refused), record.RefusedAbsent, record.RefusedAbsent)
		}},
		{name: "none won, and the key was made at the same time", want: Pass, story: func() *story {
			return missed(newStory().write(create, "a", "k", "v1", 1, 1, 3.5), record.RefusedAbsent, record.RefusedAbsent)
		}},
		{name: "none won, one of unknown outcome", want: Pass, story: func() *story {
			return one().write(update, "a", "k", "v2", 0, 3, 4).over(1).outcome(record.Unknown).write(update, "b", "k", "v3", 0, 3, 4).over(1).refused(record.RefusedVersion)
		}},
		{name: "none won, one turned away", want: Pass, story: func() *story {
			return one().write(update, "a", "k", "v2", 0, 3, 4).over(1).outcome(record.Refused).write(update, "b", "k", "v3", 0, 3, 4).over(1).refused(record.RefusedVersion)
		}},
		{name: "none won against a patch", want: Pass, story: func() *story {
			return one().write(record.OpPatch, "a", "k", "v2", 2, 3, 4).write(update, "b", "k", "v3", 0, 3, 4).over(1).refused(record.RefusedVersion)
		}},
		{name: "none won against a delete", want: Pass, story: func() *story {
			return one().write(remove, "a", "k", "", 0, 3, 4).write(update, "b", "k", "v3", 0, 3, 4).over(1).refused(record.RefusedVersion)
		}},
		{name: "none won, a delete was before", want: Fail, story: func() *story {
			s := newStory().write(remove, "a", "k", "", 0, 0.1, 0.2).write(create, "a", "k", "v1", 1, 1, 2)
			return s.write(update, "b", "k", "v3", 0, 3, 4).over(1).refused(record.RefusedVersion)
		}},
		{name: "none won against an earlier write of unknown outcome", want: Pass, story: func() *story {
			s := newStory().write(record.OpPatch, "a", "k", "v0", 0, 0.1, 0.2).outcome(record.Unknown).write(create, "a", "k", "v1", 1, 1, 2)
			return s.write(update, "b", "k", "v3", 0, 3, 4).over(1).refused(record.RefusedVersion)
		}},
		{name: "none won over a version that is not shown to have been there", want: Pass, story: func() *story {
			return one().write(update, "b", "k", "v3", 0, 3, 4).over(9).refused(record.RefusedVersion)
		}},
	})
}

func TestReadYourWrites(t *testing.T) {
	ruled(t, named("read-your-writes"), []ruling{
		{name: "its own", want: Pass, says: "In 1 quorum read, each of 1 client", story: func() *story { return two().read("a", "k", "v2", 2, 5, 6) }},
		{name: "older", want: Fail, says: `c-a's get through a returning "v1" of k, called at 5.000s, is older than its own update through a of "v2" replacing version 1, acknowledged at 4.000s`, took: "1 of 1 reads",
			story: func() *story { return two().read("a", "k", "v1", 1, 5, 6) }},
		{name: "through another server", want: Fail, says: "c-a's get through b", story: func() *story { return two().read("b", "k", "v1", 1, 5, 6).by("c-a") }},
		{name: "gone", want: Fail, says: "returning nothing", story: func() *story { return two().read("a", "k", "", 0, 5, 6) }},
		{name: "its delete undone", want: Fail, story: func() *story {
			return one().write(remove, "a", "k", "", 0, 3, 4).read("a", "k", "v1", 1, 5, 6)
		}},
		{name: "newer, of another", want: Pass, story: func() *story {
			return two().write(record.OpPatch, "b", "k", "v3", 3, 4.1, 4.2).read("a", "k", "v3", 3, 5, 6)
		}},
		{name: "perhaps deleted by another", want: Pass, story: func() *story {
			return two().write(remove, "b", "k", "", 0, 4.1, 4.2).outcome(record.Unknown).read("a", "k", "", 0, 5, 6)
		}},
		{name: "before the acknowledgement", want: NotApplicable, story: func() *story { return one().read("a", "k", "", 0, 1.5, 3) }},
		{name: "of unknown outcome", want: NotApplicable, story: func() *story { return one().outcome(record.Unknown).read("a", "k", "", 0, 3, 4) }},
		{name: "of any state", want: NotApplicable, story: func() *story {
			s := one().read("a", "k", "", 0, 3, 4)
			s.last().Consistency = "any"
			return s
		}},
		{name: "another's write", want: NotApplicable, story: func() *story { return one().read("b", "k", "", 0, 3, 4) }},
		{name: "a key that others change too", want: NotApplicable, story: func() *story {
			s := one().read("a", "k", "", 0, 3, 4)
			add(s, &s.run.Ops, record.Op{API: facts.APIKubernetes, Type: create, Collection: "c", Key: "x", Outcome: record.Refused})
			return s
		}},
	})
}

func TestMonotonicReads(t *testing.T) {
	seen := func() *story { return two().read("b", "k", "v2", 2, 5, 6) }
	ruled(t, named("monotonic-reads"), []ruling{
		{name: "the same again", want: Pass, says: "In 1 repeated quorum read, each of 1 client", story: func() *story { return seen().read("b", "k", "v2", 2, 7, 8) }},
		{name: "back", want: Fail, says: `c-b's get through b returning "v1" at version 1 of k, called at 7.000s, is older than what its get through b returning "v2" at version 2 showed, which had ended at 6.000s`, took: "1 of 1 reads",
			story: func() *story { return seen().read("b", "k", "v1", 1, 7, 8) }},
		{name: "back through another server", want: Fail, says: "get through c", story: func() *story { return seen().read("c", "k", "v1", 1, 7, 8).by("c-b") }},
		{name: "back long after", want: Fail, took: "1 of 2 reads", story: func() *story { return seen().read("b", "k", "v2", 2, 7, 8).read("b", "k", "v1", 1, 9, 10) }},
		{name: "another client", want: NotApplicable, story: func() *story { return seen().read("c", "k", "v1", 1, 7, 8) }},
		{name: "at the same time", want: NotApplicable, story: func() *story { return seen().read("b", "k", "v1", 1, 5.5, 8) }},
		{name: "any state", want: NotApplicable, story: func() *story {
			s := seen().read("b", "k", "v1", 1, 7, 8)
			s.last().Consistency = "any"
			return s
		}},
		{name: "gone without a delete", want: Fail, says: "returning nothing", story: func() *story { return seen().read("b", "k", "", 0, 7, 8) }},
		{name: "gone, perhaps deleted", want: Pass, story: func() *story {
			return seen().write(remove, "c", "k", "", 0, 4, 5).outcome(record.Unknown).read("b", "k", "", 0, 7, 8)
		}},
		{name: "back from nothing", want: Fail, says: `is older than what its get through b returning nothing showed`, story: func() *story {
			return one().write(remove, "c", "k", "", 0, 2, 5).read("b", "k", "", 0, 5, 6).read("b", "k", "v1", 1, 7, 8)
		}},
		{name: "created after nothing", want: Pass, story: func() *story {
			return newStory().read("b", "k", "", 0, 1, 2).write(create, "a", "k", "v1", 1, 1, 5).read("b", "k", "v1", 1, 7, 8)
		}},
		{name: "a list after a read", want: Fail, says: "is older than what its", story: func() *story {
			return seen().list("c-b", "2", 7, 8, [3]string{"k", "v1", "1"})
		}},
		{name: "a read after a list", want: Fail, story: func() *story {
			return two().list("c-b", "2", 5, 6, [3]string{"k", "v2", "2"}).read("b", "k", "v1", 1, 7, 8)
		}},
		{name: "lists in order", want: Pass, story: func() *story {
			return two().list("c-b", "1", 1.5, 2.5, [3]string{"k", "v1", "1"}).list("c-b", "2", 5, 6, [3]string{"k", "v2", "2"})
		}},
	})
}

func TestRevisionOrder(t *testing.T) {
	ruled(t, named("revision-order"), []ruling{
		{name: "in order", want: Pass, says: "follow real time over all keys (1 version)", story: two},
		{name: "two keys", want: Fail, says: `c-b's create of j through b, called at 5.000s, has version 2, although version 2 had been shown at 4.000s by c-a's update of k through a`, took: "1 of 2 versions",
			story: func() *story { return two().write(create, "b", "j", "w", 2, 5, 6) }},
		{name: "back to an old one", want: Fail, story: func() *story { return two().write(create, "b", "j", "w", 1, 5, 6) }},
		{name: "at the same time", want: Pass, story: func() *story { return two().write(create, "b", "j", "w", 1, 1.5, 6) }},
		{name: "a kind that may be in another store", want: Pass, story: func() *story { return two().write(create, "b", "deployments/j", "3 replicas", 1, 5, 6) }},
		{name: "two of that kind", want: Fail, story: func() *story {
			return two().write(create, "b", "deployments/j", "3 replicas", 1, 5, 6).write(create, "b", "deployments/k", "3 replicas", 1, 7, 8)
		}},
		{name: "an update that changes nothing", want: Pass, story: func() *story {
			return two().write(create, "b", "j", "w", 3, 5, 6).write(update, "b", "k", "v2", 2, 7, 8).over(2)
		}},
		{name: "a patch that may change nothing", want: Pass, story: func() *story {
			s := newStory().write(record.OpPatch, "a", "k", "v1", 0, 1, 2).outcome(record.Unknown).write(create, "b", "j", "w", 9, 3, 4)
			return s.write(record.OpPatch, "a", "k", "v1", 8, 5, 6).write(create, "b", "i", "w", 10, 7, 8)
		}},
		{name: "after a read", want: Fail, says: "by c-b's get of k", story: func() *story { return newStory().read("b", "k", "v1", 7, 1, 2).write(create, "a", "j", "w", 7, 3, 4) }},
		{name: "after a bookmark", want: Fail, says: "by the bookmark event of watch w", story: func() *story {
			s := newStory()
			add(s, &s.run.Watches, record.Watch{ID: "w", API: facts.APIKubernetes})
			add(s, &s.run.Events, record.Event{Watch: "w", Type: record.EventBookmark, Revision: "7", Seen: sec(2)})
			return s.write(create, "a", "j", "w", 6, 3, 4)
		}},
		{name: "a list after a write", want: Pass, story: func() *story { return two().list("l", "2", 5, 6) }},
		{name: "an old list", want: Fail, says: "l's list of c through node-1, called at 5.000s, has version 1, although version 2", story: func() *story { return two().list("l", "1", 5, 6) }},
		{name: "a list of any state", want: Pass, story: func() *story {
			s := two().list("l", "1", 5, 6)
			s.run.Lists[0].V.Match = record.MatchAny
			return s
		}},
		{name: "a write after a list", want: Fail, story: func() *story { return newStory().list("l", "5", 1, 2).write(create, "a", "k", "v", 5, 3, 4) }},
		{name: "etcd's versions are apart", want: NotApplicable, story: func() *story {
			s := one().write(record.OpPut, "a", "/k", "v", 1, 3, 4)
			s.last().API = facts.APIEtcd
			return s
		}},
		{name: "etcd's delete of nothing", want: Pass, story: func() *story {
			s := newStory().write(record.OpPut, "a", "/k", "v", 7, 1, 2).write(remove, "a", "/j", "", 7, 3, 4)
			s.run.Ops[0].V.API, s.run.Ops[1].V.API = facts.APIEtcd, facts.APIEtcd
			return s
		}},
		{name: "not answered", want: NotApplicable, story: func() *story { return two().outcome(record.Unknown) }},
		{name: "no versions", want: NotApplicable, story: func() *story { return newStory().write(create, "a", "k", "v", 0, 1, 2) }},
	})
}

// Where clients could have read and written etcd itself and did not, a pass says so.
func TestOnlyVersions(t *testing.T) {
	const says = "Only versions were compared"
	for _, tt := range []struct {
		name  string
		story *story
		want  bool
	}{
		{"no operation of etcd", two(), true},
		{"none, and no access to its members", two().change(func(r *record.Run) { r.Meta.NoAccess = []record.Access{record.EtcdMembers} }), false},
		{"a serializable read alone", two().read("node-1", "/j", "w", 0, 7, 8).change(func(r *record.Run) {
			op := &r.Ops[len(r.Ops)-1].V
			op.API, op.Consistency = facts.APIEtcd, "serializable"
		}), true},
		{"a put", two().write(record.OpPut, "node-1", "/j", "w", 3, 7, 8).change(func(r *record.Run) { r.Ops[len(r.Ops)-1].V.API = facts.APIEtcd }), false},
	} {
		f := named("revision-order").Judge(&facts.Case{Run: tt.story.run})
		if f.Verdict != Pass || strings.Contains(f.Sentence, says) != tt.want {
			t.Errorf("%s: %s: %s", tt.name, f.Verdict, f.Sentence)
		}
	}
	broken := two().write(create, "b", "j", "w", 2, 5, 6)
	if f := named("revision-order").Judge(&facts.Case{Run: broken.run}); f.Verdict != Fail || strings.Contains(f.Sentence, says) {
		t.Errorf("%s: %s", f.Verdict, f.Sentence)
	}
}

// A quorum read of a key is not older than what a watch had shown of it, whatever the client
// that wrote it learned.
func TestRevisionOrderOfOneKey(t *testing.T) {
	const shown = `
		create k1 v1@a 101
		create k2 v1@a 102
		patch k1 v2@a unknown
		watch w from=102
		modified w k1 v2@a 103`
	tell(t, named("revision-order"), []telling{
		{"as a watch had shown it", "", shown + `
			get k1 v2 103`, Pass, ""},
		{"older than a watch had shown it", "", shown + `
			get k1 v1 101`, Fail, "get of k1 through node-1, called at 6.000s, has version 101, although version 103 had been shown at 5.000s by the modified event of watch w"},
		{"next to the event", "", shown + `
			with get k1 v1 101`, Pass, ""},
		{"another key", "", shown + `
			get k2 v1 102`, Pass, ""},
		{"deleted, as a watch had shown", "", shown + `
			delete k1 unknown
			deleted w k1 v2@a 104
			get k1 v2 103`, Fail, "by the deleted event of watch w"},
		{"not there", "", shown + `
			delete k1 unknown
			deleted w k1 v2@a 104
			get k1`, Pass, ""},
		{"older than another client's read of any state", "", `
			create k1 v1@a 101
			create k1 v2@a unknown
			list any = 103 k1:v2@a:103
			get k1 v1 101`, Fail, "by lister's list of things"},
	})
	tell(t, named("revision-order"), []telling{
		{"a serializable read may be older", facts.APIEtcd, shown + `
			get k1 v1 101 serializable`, Pass, ""},
		{"a linearizable one may not", facts.APIEtcd, shown + `
			get k1 v1 101`, Fail, "has version 101"},
	})
}

// No judge of every run accuses what a store's own clients saw, and where something
// is changed each of them finds some of it.
func TestClientsOfALegalStore(t *testing.T) {
	found := map[string]int{}
	for seed := range 150 {
		rng := rand.New(rand.NewPCG(uint64(seed), 11))
		w := live(rng, 6, 3, 300, float64(rng.IntN(3))*0.05)
		for _, spoiled := range []bool{false, true} {
			if spoiled {
				w.spoil()
			}
			run := w.run(true)
			for i := range run.Ops[len(run.Ops)*9/10:] {
				if op := &run.Ops[len(run.Ops)*9/10+i].V; op.Type == record.OpGet && op.Outcome == record.OK {
					op.Purpose, op.Entrance = facts.PurposeFinalRead, "node-1" // each key must be read through each entrance
				}
			}
			for _, d := range []judges.Definition{named("linearizable"), named("no-lost-write"), named("one-winner"), named("read-your-writes"), named("monotonic-reads"), named("revision-order")} {
				f := d.Judge(&facts.Case{Run: run})
				if f.Verdict == Fail {
					found[d.Name]++
				}
				if !spoiled && f.Verdict == Fail || f.Verdict == Inconclusive {
					t.Fatalf("seed %d, spoiled %v: %s is %s: %s", seed, spoiled, d.Name, f.Verdict, f.Sentence)
				}
			}
		}
	}
	t.Log(found)
	for _, name := range []string{"linearizable", "read-your-writes", "monotonic-reads", "revision-order"} {
		if found[name] == 0 {
			t.Errorf("%s found nothing in %v", name, found)
		}
	}
}
