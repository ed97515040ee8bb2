package judge

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
)

// What a quorum list shows of a key, or does not show, is a read of it.
func TestListsAreReads(t *testing.T) {
	const written = `
		create k1 v1@a 101
		create k2 v2@b 102
		get k1 v1 101`
	tell(t, named("linearizable"), []telling{
		{"both keys", "", written + `
			list unset = 102 k1:v1@a:101 k2:v2@b:102`, Pass, "2 acknowledged writes, 1 quorum reads and 1 lists on 2 keys"},
		{"a list after a delete", "", written + `
			delete k2
			later 30
			list unset = 102 k1:v1@a:101 k2:v2@b:102`, Fail, `list through node-2 returning "v2"`},
		{"a list in pages after a delete", "", written + `
			delete k2
			list unset = 102 k1:v1@a:101 / 102 k2:v2@b:102`, Fail, `list through node-2 returning "v2"`},
		{"a list of its group after a delete", "", written + `
			delete k2
			list unset group=b = 102 k2:v2@b:102`, Fail, `list through node-2 returning "v2"`},
		{"a list next to a delete", "", written + `
			delete k2
			with list unset = 102 k1:v1@a:101 k2:v2@b:102`, Pass, ""},
		{"a delete of unknown outcome", "", written + `
			delete k2 unknown
			list unset = 102 k1:v1@a:101 k2:v2@b:102
			list unset = 102 k1:v1@a:101`, Pass, ""},
		{"a list that lacks a key", "", written + `
			list unset = 102 k1:v1@a:101`, Fail, "list through node-2 returning nothing"},
		{"a list of another group lacks it", "", written + `
			list unset group=a = 102 k1:v1@a:101`, Pass, ""},
		{"a list of any state", "", written + `
			delete k2
			list any = 102 k1:v1@a:101 k2:v2@b:102
			list not-older-than 101 = 102 k1:v1@a:101 k2:v2@b:102
			list exact 102 = 102 k1:v1@a:101 k2:v2@b:102`, Pass, ""},
		{"a list shows what a get no longer does", "", written + `
			patch k1 v3@a unknown
			list unset = 103 k1:v3@a:103 k2:v2@b:102
			get k1 v1 101`, Fail, `get through node-1 returning "v1"`},
		{"a streaming list after a delete", "", written + `
			delete k2
			watch w initial
			added w k1 v1@a 101
			added w k2 v2@b 102
			bookmark w 102 end`, Fail, `streaming list through node-1 returning "v2"`},
		{"a streaming list of the newest state", "", written + `
			delete k2
			watch w initial
			added w k1 v1@a 101
			bookmark w 103 end`, Pass, "1 lists"},
		{"a streaming list from a version", "", written + `
			delete k2
			watch w initial from=102
			added w k1 v1@a 101
			added w k2 v2@b 102
			bookmark w 102 end`, Pass, ""},
		{"a streaming list that has not ended", "", written + `
			watch w initial
			added w k1 v1@a 101`, Pass, ""},
	})
	tell(t, named("etcd-linearizable"), []telling{
		{"a range after a delete", facts.APIEtcd, written + `
			delete k2 103
			list unset = 103 k1:v1@a:101 k2:v2@b:102`, Fail, `list through node-2 returning "v2"`},
		{"a serializable range after a delete", facts.APIEtcd, written + `
			delete k2 103
			list any = 102 k1:v1@a:101 k2:v2@b:102
			list unset = 103 k1:v1@a:101`, Pass, ""},
	})
}

// A deletion acknowledged before the call bounds a list whose version alone does not: no client
// received the version of the deletion.
func TestDeletionsBoundLists(t *testing.T) {
	const gone = `
		create k1 v1@a 101
		create k2 v2@b 102
		delete k2`
	tell(t, named("list-semantics"), []telling{
		{"a list without it", "", gone + `
			list unset = 103 k1:v1@a:101`, Pass, ""},
		{"a list that still has it", "", gone + `
			list unset = 102 k1:v1@a:101 k2:v2@b:102`, Fail, `has k2 = "v2", the deletion of which had been acknowledged to writer at 3.500s`},
		{"a list that was called before", "", gone + `
			with list unset = 102 k1:v1@a:101 k2:v2@b:102`, Pass, ""},
		{"created again by a write of unknown outcome", "", `
			create k2 v2@b unknown
			delete k2
			list unset = 105 k2:v2@b:105`, Pass, ""},
		{"what the deletion found there", "", `
			create k1 v1@a 101
			create k2 v2@b unknown
			update k1 v3@a 103 over=101
			get k2 v2 102
			delete k2
			list unset = 103 k1:v3@a:103 k2:v2@b:102`, Fail, "the deletion of which"},
		{"any state", "", gone + `
			list any = 102 k1:v1@a:101 k2:v2@b:102`, Pass, ""},
	})
	tell(t, named("watch-bookmark"), []telling{
		{"a streaming list that still has it", "", gone + `
			watch w initial
			added w k1 v1@a 101
			added w k2 v2@b 102
			bookmark w 102 end`, Fail, `began with k2 = "v2", the deletion of which had been acknowledged`},
		{"a streaming list without it", "", gone + `
			watch w initial
			added w k1 v1@a 101
			bookmark w 103 end`, Pass, ""},
		{"a streaming list from a version", "", gone + `
			watch w initial from=102
			added w k1 v1@a 101
			added w k2 v2@b 102
			bookmark w 102 end`, Pass, ""},
	})
}
