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
	if f := named("watch-alive").Judge(&facts.Matter{Run: broken}); f.Verdict != Inconclusive {
		t.Errorf("of a cluster that is not steady: %s %s", f.Verdict, f.Sentence)
	}
	starved := chronicle(t, facts.APIKubernetes, twoKeys+`
		watch w from=100
		later 8
		ended w awaited`)
	if f := named("watch-alive").Judge(&facts.Matter{Run: starved}); !f.Timed || f.From >= f.To {
		t.Errorf("it rests on no time: %+v", f)
	}
}
