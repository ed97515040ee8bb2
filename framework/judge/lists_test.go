package judge

import (
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

func TestListSemantics(t *testing.T) {
	tell(t, named("list-semantics"), []telling{
		{"unset", "", twoKeys + "list unset = 103 k1:v3@b:103 k2:v2@b:102", Pass, ""},
		{"unset, beside a write", "", twoKeys + "list unset = 103 k1:v3@b:103 k2:v2@b:102\nwith update k1 v4@a 104 over=103", Pass, ""},
		{"any may be old", "", twoKeys + "list any = 101 k1:v1@a:101", Pass, ""},
		{"one group", "", twoKeys + "list unset group=b = 110 k1:v3@b:103 k2:v2@b:102", Pass, ""},
		{"not older than", "", twoKeys + "list not-older-than 102 = 102 k1:v1@a:101 k2:v2@b:102", Pass, ""},
		{"exact", "", twoKeys + "list exact 102 = 102 k1:v1@a:101 k2:v2@b:102", Pass, ""},
		{"exact of etcd comes beside its newest revision", facts.APIEtcd, "put k1 v1 101\nput k1 v2 102\nlist exact 101 = 102 k1:v1:101", Pass, ""},
		{"after a deletion of unknown version", "", twoKeys + "delete k2\nupdate k1 v4@a 105 over=103\nlist unset = 105 k1:v4@a:105", Pass, ""},
		{"nobody knows whether it was deleted", "", twoKeys + "delete k2 unknown\nlist unset = 110 k1:v3@b:103", Pass, ""},
		{"nobody knows whether it was written", "", twoKeys + "patch k2 v4@b unknown\nlist unset = 110 k1:v3@b:103 k2:v2@b:102", Pass, ""},
		{"an older version that lacks nothing", "", twoKeys + "list unset = 110 k1:v3@b:103 k2:v2@b:102\nlist unset = 105 k1:v3@b:103 k2:v2@b:102", Pass, ""},
		{"too old is an answer too", "", twoKeys + "list exact 50 = 410 0", NotApplicable, ""},
		{"unset, older than a write", "", twoKeys + "list unset = 102 k1:v1@a:101 k2:v2@b:102", Fail,
			"the list (unset) of things by lister through node-2 at 4.000s gave version 102, although version 103 had been acknowledged to writer at 3.500s"},
		{"unset, older than a read", "", twoKeys + `
			update k1 v4@a over=103 unknown
			get k1 v4@a 104
			list unset = 103 k1:v3@b:103 k2:v2@b:102`, Fail, `lacks k1 = "v4" in version 104 (update by writer, called at 4.000s, of unknown outcome), although version 104 had been returned to writer at 5.500s`},
		{"older than asked for", "", twoKeys + "list not-older-than 103 = 102 k1:v1@a:101 k2:v2@b:102", Fail, "(not-older-than 103) of things by lister through node-2 at 4.000s gave version 102"},
		{"newer than the exact version", "", twoKeys + "list exact 102 = 103 k1:v3@b:103 k2:v2@b:102", Fail, "gave version 103"},
		{"an object missing", "", twoKeys + "list unset = 103 k1:v3@b:103", Fail, `gave version 103, but is not its state: it lacks k2 = "v2" in version 102`},
		{"an object too many", "", twoKeys + "delete k2\nupdate k1 v4@a 105 over=103\nlist unset = 105 k1:v4@a:105 k2:v2@b:102", Fail, "after the deletion of k2 by version 104"},
		{"an older version of an object", "", twoKeys + "list unset = 103 k1:v1@a:101 k2:v2@b:102", Fail, `it has k1 = "v1" in version 101, instead of k1 = "v3" in version 103`},
		{"a value that no client wrote", "", twoKeys + "list unset = 103 k1:v9@b:103 k2:v2@b:102", Fail, "which no client wrote"},
		{"an object of another group", "", twoKeys + "list unset group=a = 103 k2:v2@b:102", Fail, "which is in group b"},
		{"an object that left the group", "", twoKeys + "list unset group=a = 103 k1:v1@a:101", Fail, `instead of k1 = "v3"`},
		{"twice", "", twoKeys + "list unset = 103 k1:v3@b:103 k1:v3@b:103 k2:v2@b:102", Fail, "has k1 after k1"},
		{"from the future", "", twoKeys + "list any = 102 k1:v3@b:103 k2:v2@b:102", Fail, "which came later"},
	})
}

func TestListSnapshot(t *testing.T) {
	tell(t, named("list-snapshot"), []telling{
		{"one version", "", twoKeys + "list unset = 103 k1:v3@b:103 / 103 k2:v2@b:102", Pass, ""},
		{"a write between the pages", "", twoKeys + "with update k2 v4@a 104 over=102\nlist any = 103 k1:v3@b:103 / 103 k2:v2@b:102", Pass, ""},
		{"etcd gives its newest revision with each page", facts.APIEtcd, "put k1 v1 101\nput k2 v2 102\nlist unset = 102 k1:v1:101 / 109 k2:v2:102", Pass, ""},
		{"it broke off", "", twoKeys + "create k3 v4@a 104\nlist unset = 104 k1:v3@b:103 / 104 k2:v2@b:102 / 410", Pass, ""},
		{"two versions", "", twoKeys + "list unset = 103 k1:v3@b:103 / 104 k2:v2@b:102", Fail, "in 2 pages by lister through node-2 at 4.000s gave version 103 on page 1 and 104 on page 2"},
		{"an object of a later version", "", twoKeys + "update k2 v4@a 104 over=102\nlist exact 103 = 103 k1:v3@b:103 / 103 k2:v4@a:104", Fail, "which came later"},
		{"an object on two pages", "", twoKeys + "list unset = 103 k1:v3@b:103 / 103 k1:v3@b:103 k2:v2@b:102", Fail, "has k1 after k1"},
		{"out of order", "", twoKeys + "list unset = 103 k2:v2@b:102 / 103 k1:v3@b:103", Fail, "has k1 after k2"},
		{"an object lost between pages", "", twoKeys + "create k3 v4@a 104\nlist unset = 104 k1:v3@b:103 / 104 k3:v4@a:104", Fail, "it lacks k2"},
		{"lost before it broke off", "", twoKeys + "create k3 v4@a 104\nlist unset = 104 k1:v3@b:103 / 104 k3:v4@a:104 / 410", Fail, "it lacks k2"},
		{"one page", "", twoKeys + "list unset = 103 k1:v3@b:103 k2:v2@b:102", NotApplicable, ""},
	})
}

// A successful response that is not a list breaks the guarantee; no response does not.
func TestListOfSomethingElse(t *testing.T) {
	for _, tt := range []struct {
		name, other, problem string
		want                 Verdict
	}{
		{"the page of a balancer", "status 200, but no list: <html>sorry</html>", "", Fail},
		{"it broke off", "", "GET /api: status 200, but the response was cut short: unexpected EOF", NotApplicable},
		{"a record of before", "", "status 200, but no list: {}", NotApplicable},
	} {
		s := newStory().list("l", "", 15, 15.1)
		l := &s.run.Lists[0].V
		l.Outcome, l.Status, l.Other, l.Error = record.Unknown, 200, tt.other, tt.problem+tt.other
		f := named("list-semantics").Judge(&facts.Case{Run: s.run})
		if f.Verdict != tt.want || tt.want == Fail && !strings.Contains(f.Sentence, "was answered with something else: status 200, but no list: <html>") {
			t.Errorf("%s: %s: %s", tt.name, f.Verdict, f.Sentence)
		}
	}
}
