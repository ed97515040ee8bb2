package judge

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// endList is the list of the collection "s" through an entrance once the traffic has stopped.
func (s *story) endList(entrance string, from, to float64, keys ...string) *story {
	l := record.List{Client: "final/" + entrance, Entrance: entrance, API: facts.APIKubernetes, Collection: "s", Match: record.MatchUnset, Purpose: facts.PurposeFinalRead,
		Call: sec(from), Return: sec(to), Outcome: record.OK, Pages: []record.Page{{Call: sec(from), Return: sec(to), Revision: "99", Items: len(keys), Remaining: -1}}}
	for _, key := range keys {
		l.Items = append(l.Items, record.Item{Key: key, Value: "v-" + key, Revision: "1" + key[1:]})
	}
	return add(s, &s.run.Lists, l)
}

// The elements of a set, each created once, must all be in the lists at the end.
func TestNoLostElement(t *testing.T) {
	set := func() *story {
		s := newStory()
		for i, key := range []string{"e1", "e2", "e3"} {
			f := float64(i)
			s.write(create, "node-1", key, "v-"+key, 11+i, f+1, f+1.5)
			s.last().Collection = "s"
		}
		return s
	}
	unknown := func() *story {
		s := set().write(create, "node-2", "e4", "v-e4", 0, 5, 6).outcome(record.Unknown)
		s.last().Collection = "s"
		return s
	}
	ruled(t, named("no-lost-write"), []ruling{
		{name: "all there", want: Pass, says: "3 keys, 6 reads, 3 acknowledged writes", story: func() *story {
			return set().endList("node-1", 50, 51, "e1", "e2", "e3").endList("node-2", 50, 51, "e1", "e2", "e3")
		}},
		{name: "one is lost", want: Fail, says: `c-node-1's create through node-1 of "v-e2" of e2, acknowledged at 2.500s, is not in the final list through node-1 (at 50.000s), which returned nothing`,
			took: "1 of 3 final reads", story: func() *story { return set().endList("node-1", 50, 51, "e1", "e3") }},
		{name: "one is lost through one API server", want: Fail, says: "in the final list through node-2", story: func() *story {
			return set().endList("node-1", 50, 51, "e1", "e2", "e3").endList("node-2", 50, 51, "e1", "e2")
		}},
		{name: "one of unknown outcome is not there", want: Pass, story: func() *story { return unknown().endList("node-1", 50, 51, "e1", "e2", "e3") }},
		{name: "one of unknown outcome is there", want: Pass, story: func() *story { return unknown().endList("node-1", 50, 51, "e1", "e2", "e3", "e4") }},
		{name: "no list was answered", want: Inconclusive, says: "of 3 keys, 3 could not be read at the end", story: func() *story {
			s := set().endList("node-1", 50, 51)
			s.run.Lists[0].V.Outcome, s.run.Lists[0].V.Pages = record.Unknown, nil
			return s
		}},
		{name: "no list was answered through one API server", want: Inconclusive, says: "of 3 keys, 3 could not be read at the end of the run through node-1,", story: func() *story {
			s := set().endList("node-1", 49, 50).endList("node-2", 50, 51, "e1", "e2", "e3")
			s.run.Lists[0].V.Outcome, s.run.Lists[0].V.Pages = record.Unknown, nil
			return s
		}},
		{name: "no list was answered through one API server, whose node was replaced under its name", want: Inconclusive, says: "of 3 keys, 3 could not be read at the end of the run through node-2,", story: func() *story {
			s := replacedUnderItsName(set().changed("", record.NodeRemoved, "node-2", "10.77.0.12", 20, 22)).endList("node-2", 49, 50).endList("node-1", 50, 51, "e1", "e2", "e3")
			s.run.Lists[0].V.Outcome, s.run.Lists[0].V.Pages = record.Unknown, nil
			return s
		}},
		{name: "no list was answered through one API server, whose node has left", want: Pass, story: func() *story {
			s := set().changed("", record.NodeRemoved, "node-2", "10.77.0.12", 20, 22).endList("node-2", 49, 50).endList("node-1", 50, 51, "e1", "e2", "e3")
			s.run.Lists[0].V.Outcome, s.run.Lists[0].V.Pages = record.Unknown, nil
			return s
		}},
		{name: "a list in time", want: Pass, story: func() *story {
			s := set().endList("node-1", 49, 50).endList("node-1", 50, 51, "e1", "e2", "e3").endList("node-2", 50, 51, "e1", "e2", "e3")
			s.run.Lists[0].V.Outcome, s.run.Lists[0].V.Pages = record.Unknown, nil
			return s
		}},
	})
	s := set().read("node-2", "e1", "v-e1", 11, 45, 46)
	s.last().Collection = "s"
	if f := named("linearizable").Judge(&facts.Case{Run: s.endList("node-1", 50, 51, "e1", "e3").run}); f.Verdict != Fail {
		t.Errorf("linearizable: %s: %s", f.Verdict, f.Sentence)
	}
}

// The last write of a key hides what was lost before, so the key is read before, too.
func TestLostBeforeTheFinalWrite(t *testing.T) {
	end := func(s *story) *story {
		s.write(update, "node-1", "k", "end", 30, 52, 53).purpose(facts.PurposeFinalWrite)
		return final(s.read("node-2", "k", "end", 30, 54, 55))
	}
	ruled(t, named("no-lost-write"), []ruling{
		{name: "there", want: Pass, story: func() *story { return end(final(two().read("node-2", "k", "v2", 2, 50, 51))) }},
		{name: "lost", want: Fail, says: `is not in the final read through b (at 50.000s), which returned "v1"`, story: func() *story { return end(final(two().read("b", "k", "v1", 1, 50, 51))) }},
		{name: "not answered before", want: Inconclusive, says: "1 could not be read", story: func() *story {
			return end(final(two().read("b", "k", "", 0, 50, 51).outcome(record.Unknown)))
		}},
		{name: "not answered before through one API server", want: Inconclusive, says: "of 1 key, 1 could not be read at the end of the run through b,", story: func() *story {
			s := end(final(final(two().read("b", "k", "", 0, 50, 51).outcome(record.Unknown)).read("node-2", "k", "v2", 2, 50, 51)))
			return final(s.read("b", "k", "end", 30, 54, 55))
		}},
		{name: "not answered after through one API server", want: Inconclusive, says: "through c,", story: func() *story {
			s := end(final(final(two().read("c", "k", "v2", 2, 50, 51)).read("node-2", "k", "v2", 2, 50, 51)))
			return final(s.read("c", "k", "", 0, 54, 55).outcome(record.Unknown))
		}},
		{name: "answered at the second try", want: Pass, story: func() *story {
			return end(final(final(two().read("node-2", "k", "", 0, 50, 51).outcome(record.Unknown)).read("node-2", "k", "v2", 2, 51, 51.5)))
		}},
		{name: "a record from before it was read", want: Pass, story: func() *story { return end(two()) }},
	})
}
