package judge

import (
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// A message without a version is wrong itself, and does not let its watch off.
func TestMessagesWithoutVersion(t *testing.T) {
	const zero = `
		create k1 v1@a 101
		update k1 v2@a 102 over=101
		watch w1 from=100
		added w1 k1 v1@a 101
		bookmark w1 0`
	tell(t, named("watch-content"), []telling{
		{"a bookmark of version 0", "", zero, Fail, `in version "0", which is not a version`},
		{"an event without a version", "", `
			create k1 v1@a 101
			watch w from=100
			added w k1 v1@a`, Fail, `in version "", which is not a version`},
		{"a bookmark of a version", "", `
			create k1 v1@a 101
			watch w1 from=100
			added w1 k1 v1@a 101
			bookmark w1 101`, Pass, ""},
	})
	tell(t, named("watch-unique"), []telling{
		{"twice, beside a bookmark of version 0", "", zero + `
			modified w1 k1 v2@a 102
			modified w1 k1 v2@a 102`, Fail, "again at"},
		{"once, beside a bookmark of version 0", "", zero + `
			modified w1 k1 v2@a 102`, Pass, ""},
	})
	tell(t, named("list-semantics"), []telling{
		{"a list of version 0", "", `
			create k1 v1@a 101
			list unset = 0 k1:v1@a:101`, Fail, `gave version "0", which is not a version`},
		{"a list of a version", "", `
			create k1 v1@a 101
			list unset = 101 k1:v1@a:101`, Pass, ""},
	})
}

// A read that returned another object is not a read from before the record.
func TestAnotherObject(t *testing.T) {
	for _, other := range []string{"k", "status 200, but no ConfigMap j: <html>sorry</html>"} {
		s := one().read("b", "k", "v1", 1, 3, 4).read("b", "j", record.OtherObject+other, 0, 5, 6)
		if f := named("linearizable").Judge(&facts.Case{Run: s.run}); f.Verdict != Fail {
			t.Errorf("%s: %s: %s", other, f.Verdict, f.Sentence)
		}
		if reads := facts.ReadsThrough(s.run, "b", 0, sec(60)); len(reads) != 2 || reads[0].Outcome != record.OK || reads[1].Outcome != record.Unknown {
			t.Errorf("%s: %+v", other, reads)
		}
	}
}

// A write that was answered with success and another object is not simply one of unknown outcome.
func TestResponseOfAnotherObject(t *testing.T) {
	for _, tt := range []struct {
		problem string
		want    Verdict
	}{
		{"status 200, but no ConfigMap k: <html>sorry</html>", Fail},
		{"status 201, but no ConfigMap k: ", Fail},
		{"PUT https://b/k: status 200, but the response was cut short: unexpected EOF", Pass},
		{"status 504 (Timeout): request did not complete", Pass},
		{"timed out", Pass},
	} {
		s := one().read("b", "k", "v1", 1, 3, 4).write(update, "b", "k", "v2", 0, 5, 6).outcome(record.Unknown)
		s.last().Error = tt.problem
		f := named("linearizable").Judge(&facts.Case{Run: s.read("b", "k", "v1", 1, 7, 8).run})
		if f.Verdict != tt.want || f.Verdict == Fail && !strings.Contains(f.Sentence, `c-b's response to a write through b returning "another object: `+tt.problem) {
			t.Errorf("%s: %s (want %s): %s", tt.problem, f.Verdict, tt.want, f.Sentence)
		}
	}
}

// Members of two clusters at the same time are a violation; one cluster after another is not.
func TestMembersOfTwoClusters(t *testing.T) {
	story := func(clusters ...string) *story {
		s := newStory()
		for i, c := range clusters {
			node := []string{"node-1", "node-2"}[i%2]
			s.at(float64(10+i)).etcd(node, "m1", 2)
			s.run.Etcd[len(s.run.Etcd)-1].V.Cluster = c
		}
		return s
	}
	for _, tt := range []struct {
		name     string
		clusters []string
		want     Verdict
	}{
		{"one", []string{"c1", "c1", "c1", "c1"}, Inconclusive},
		{"two at the same time", []string{"c1", "c2", "c1", "c2"}, Fail},
		{"one after the other", []string{"c1", "c1", "c2", "c2"}, Inconclusive},
		{"one after the other, seen in between", []string{"c1", "c1", "c2", "c1", "c2", "c2"}, Fail},
		{"changing", []string{"c1", "c1", "c2", "c2", "c2"}, Inconclusive},
	} {
		if f := named("etcd-hashes").Judge(&facts.Case{Run: story(tt.clusters...).run}); f.Verdict != tt.want {
			t.Errorf("%s: %s (want %s): %s", tt.name, f.Verdict, tt.want, f.Sentence)
		}
	}
}
