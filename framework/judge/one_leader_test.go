package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/judges"
	"github.com/holdfast-ha/holdfast/framework/record"
)

func TestOneLeaderPerTerm(t *testing.T) {
	// Lines are a node, the leader that its member names, its term, and the seconds in
	// which it does, once each; with a number after them it has applied no more than that.
	// What is committed grows with every answer.
	reports := func(lines ...string) *story {
		s := newStory()
		applied := map[int]uint64{} // by answer
		for _, l := range lines {
			var node, leader string
			var term, limit uint64
			var from, to int
			if n, err := fmt.Sscan(l, &node, &leader, &term, &from, &to, &limit); n < 5 {
				t.Fatal(err)
			}
			for i := from; i <= to; i++ {
				applied[len(s.run.Etcd)] = limit
				s.at(float64(i)).etcd(node, leader, term)
			}
		}
		for i := range s.run.Etcd {
			e := &s.run.Etcd[i].V
			if e.RaftIndex = 100 + uint64(s.run.Etcd[i].At/sec(1)); applied[i] > 0 {
				e.Applied = min(e.RaftIndex, applied[i])
			}
		}
		slices.SortStableFunc(s.run.Etcd, func(a, b record.Timed[record.EtcdStatus]) int { return cmp.Compare(a.At, b.At) })
		return s
	}
	const everything = "999"
	for _, tt := range []struct {
		name string
		s    *story
		want Verdict
		says string
	}{
		{"one term", reports("node-1 m1 2 0 9", "node-2 m1 2 0 9"), Pass, "throughout, in a single term"},
		{"an election", reports("node-1 m1 2 0 9", "node-2 m1 2 0 9", "node-2 m3 3 10 19", "node-3 m3 3 10 19"), Pass, "in each of 2 terms"},
		{"new leader with the old term at first", reports("node-1 m1 2 0 9", "node-3 m3 2 10 10", "node-3 m3 3 11 19"), Pass, ""},
		{"returned follower with the old term", reports("node-1 m1 2 0 9", "node-3 m3 3 10 19", "node-1 m3 2 20 29"), Pass, ""},
		// A member that was cut off does not know that another one leads.
		{"the leader of an old term is still sure of it", reports("node-1 m1 2 0 19", "node-3 m3 3 10 19"), Pass, "in each of 2 terms"},
		{"and is seen for the first time then", reports("node-3 m3 3 10 19", "node-1 m1 2 12 19"), Pass, "in each of 2 terms"},
		{"new leader that has committed and not applied it", reports("node-1 m1 2 0 9 "+everything, "node-3 m3 2 10 14 110", "node-3 m3 3 15 19 "+everything), Pass, ""},
		{"new leader that applies what was left of the old term", reports("node-1 m1 2 0 9 "+everything,
			"node-3 m3 2 10 10 105", "node-3 m3 2 11 11 107", "node-3 m3 2 12 12 110", "node-3 m3 3 13 19 "+everything), Pass, ""},
		{"one after the other", reports("node-1 m1 2 0 9", "node-2 m2 2 10 19"), Fail,
			"in term 2 the member on node-1 led (0.000s to 9.000s), and so did the member on node-2 (10.000s to 11.000s)"},
		{"two at once", reports("node-1 m1 2 0 9", "node-2 m2 2 0 9"), Fail, "in term 2 the member on node-1 led"},
		{"two at once, in a later term", reports("node-1 m1 2 0 9", "node-1 m1 3 10 19", "node-2 m2 3 10 19"), Fail, "in term 3 the member on node-1 led"},
		{"two that have applied what they committed", reports("node-1 m1 2 0 9 "+everything, "node-2 m2 2 10 19 "+everything), Fail, "one leader per term"},
		{"two, one of which applies it late", reports("node-1 m1 2 0 9 "+everything, "node-2 m2 2 10 13 110", "node-2 m2 2 14 14 111"), Fail, "(10.000s to 14.000s)"},
		{"seen once", reports("node-1 m1 2 0 0"), Inconclusive, ""},
		{"no leader asked", reports("node-2 m1 2 0 9"), Inconclusive, ""},
		{"never asked", newStory(), NotApplicable, "no status"},
	} {
		f := judges.JudgeOneLeaderPerTerm(&facts.Case{Run: tt.s.run})
		if f.Verdict != tt.want || !strings.Contains(f.Sentence, tt.says) {
			t.Errorf("%s: %s, %s", tt.name, f.Verdict, f.Sentence)
		}
	}
}
