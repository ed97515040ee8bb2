package judge

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

func TestWatchAlive(t *testing.T) {
	tell(t, named("watch-alive"), []telling{
		{"it shows the last change", "", twoKeys + `
			watch w from=100
			added w k1 v1@a 101
			added w k2 v2@b 102
			modified w k1 v3@b 103
			later 8
			ended w awaited`, Pass, "1 watches"},
		{"a bookmark stands for it", "", twoKeys + `
			watch w from=100 key=k2
			bookmark w 103
			later 8
			ended w awaited`, Pass, ""},
		{"the state has it", "", twoKeys + `
			watch w initial
			added w k1 v3@b 103
			added w k2 v2@b 102
			bookmark w 103 end
			later 8
			ended w awaited`, Pass, ""},
		{"it began after it", "", twoKeys + `
			watch w from=103
			later 8
			ended w awaited`, Pass, ""},
		{"of another group", "", twoKeys + `
			watch w from=102 group=a
			deleted w k1 v3@b 103
			create k3 v4@b 104
			later 8
			ended w awaited`, Pass, ""},
		{"not for long", "", twoKeys + `
			watch w from=100
			added w k1 v1@a 101
			later 2
			ended w awaited`, Pass, ""},
		{"not acknowledged", "", `
			create k1 v1@a 101
			watch w from=101
			update k1 v2@a unknown over=101
			later 8
			ended w awaited`, Pass, ""},
		{"silent from the beginning", "", twoKeys + `
			watch w from=100
			later 8
			ended w awaited`, Fail, "A watch must not fall silent: watch w of things by watcher through node-1 did not show k1 = \"v3\" in version 103 (update by writer, acknowledged"},
		{"silent before the last change", "", twoKeys + `
			watch w from=100
			added w k1 v1@a 101
			added w k2 v2@b 102
			later 8
			ended w awaited`, Fail, "waited for during 11s, more than 5s"},
		{"silent after a bookmark", "", twoKeys + `
			watch w from=100
			bookmark w 102
			later 8
			ended w awaited`, Fail, "version 103"},
		{"in etcd", facts.APIEtcd, `
			put k1 v1 101
			watch w from=102
			put k1 v2 102
			later 8
			ended w awaited`, Fail, "version 102"},
		{"accepted and ended each time", "", twoKeys + `
			watch w from=100
			ended w
			watch x from=100 resumes=w
			ended x
			watch y from=100 resumes=x
			ended y
			watch z from=100 resumes=y
			ended z awaited`, Fail, "watch z of things by watcher through node-1 did not show k1 = \"v3\" in version 103 (update by writer, acknowledged at 3.500s), nor did the watches that it continued (3), though the client waited for it during 7s, more than 5s"},
		{"started again each time", "", twoKeys + `
			watch w
			ended w
			watch x initial
			ended x
			watch y
			ended y
			watch z
			ended z awaited`, Fail, "nor did the watches that it continued (3)"},
		{"ended each time, and the third one shows it", "", twoKeys + `
			watch w from=100
			ended w
			watch x from=100 resumes=w
			ended x
			watch y from=100 resumes=x
			modified y k1 v3@b 103
			ended y
			watch z from=103 resumes=y
			ended z awaited`, Pass, ""},
		{"ended each time, and the client listed it", "", twoKeys + `
			watch w from=100
			ended w
			watch x from=100 resumes=w
			ended x
			list unset = 103 k1:v3@b:103 k2:v2@b:102
			watch y from=103
			later 8
			ended y awaited`, Pass, ""},
		{"no watch was to be had for most of the time", "", twoKeys + `
			watch w from=100
			later 4
			ended w
			with refused x from=100 status=503 resumes=w
			watch y from=100 resumes=w
			ended y awaited`, Pass, ""},
		{"it did something else in between", "", twoKeys + `
			watch w from=100
			ended w
			later 5
			watch y from=100 resumes=w
			ended y awaited`, Pass, ""},
		{"each of another part", "", twoKeys + `
			watch w from=100 key=k1
			later 4
			ended w
			watch y from=100
			later 3
			ended y awaited`, Pass, ""},
		{"a state does not show a deletion", "", twoKeys + `
			delete k2 104
			watch w
			added w k1 v3@b 103
			later 8
			ended w awaited`, Pass, ""},
		{"the next change in etcd is after it", facts.APIEtcd, `
			put k1 v1 101
			watch w
			later 8
			ended w awaited`, Pass, ""},
		{"what is written afterwards does not count", facts.APIEtcd, `
			put k1 v1 101
			watch w from=102
			put k1 v2 102
			modified w k1 v2 102
			later 8
			ended w awaited
			delete k1 103`, Pass, ""},
		{"nor does it hide what was written before", facts.APIEtcd, `
			put k1 v1 101
			watch w from=102
			put k1 v2 102
			later 8
			ended w awaited
			delete k1 103`, Fail, "version 102"},
		{"ended by itself", "", twoKeys + `
			watch w from=100
			later 8
			ended w`, NotApplicable, "no watch that was open at the end"},
	})
	broken := chronicle(t, facts.APIKubernetes, twoKeys+`
		watch w from=100
		later 8
		ended w awaited`)
	broken.Steadies = append(broken.Steadies, record.Timed[record.Steady]{V: record.Steady{Phase: "after", Problems: []string{"no leader"}}})
	if f := named("watch-alive").Judge(&facts.Case{Run: broken}); f.Verdict != Inconclusive {
		t.Errorf("of a cluster that is not steady: %s %s", f.Verdict, f.Sentence)
	}
	starved := chronicle(t, facts.APIKubernetes, twoKeys+`
		watch w from=100
		later 8
		ended w awaited`)
	if f := named("watch-alive").Judge(&facts.Case{Run: starved}); !f.Timed || f.From >= f.To {
		t.Errorf("it rests on no time: %+v", f)
	}
}

// A client may have been between two watches when its time was over: that it watched after the
// final write shows that it waited.
func TestWatchAliveBetweenTwoWatches(t *testing.T) {
	for _, tt := range []struct {
		name, purpose string
		want          Verdict
	}{
		{"after the final write", facts.PurposeFinalWrite, Fail},
		{"during the traffic", "", NotApplicable},
	} {
		run := chronicle(t, facts.APIKubernetes, twoKeys+`
			watch w from=102
			later 3
			ended w
			watch x from=102 resumes=w
			later 3
			ended x`)
		run.Ops[len(run.Ops)-1].V.Purpose = tt.purpose
		if f := named("watch-alive").Judge(&facts.Case{Run: run}); f.Verdict != tt.want {
			t.Errorf("%s: %s: %s", tt.name, f.Verdict, f.Sentence)
		}
	}
}
