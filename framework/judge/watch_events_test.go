package judge

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
)

// The tables of what one event of a watch may say. Those of which events a watch shows
// are in watches_test.go.

func TestWatchFilter(t *testing.T) {
	tell(t, named("watch-filter"), []telling{
		{"leaves and enters", "", twoKeys + `
			update k1 v4@a 104 over=103
			watch w from=100 group=a
			added w k1 v1@a 101
			deleted w k1 v1@a 103
			added w k1 v4@a 104`, Pass, ""},
		{"one name", "", twoKeys + "watch w from=100 key=k2\nadded w k2 v2@b 102", Pass, ""},
		{"another name", "", twoKeys + "watch w from=100 key=k2\nadded w k1 v1@a 101", Fail, "which has another name"},
		{"another group", "", twoKeys + "watch w from=100 group=a\nadded w k2 v2@b 102", Fail, "which is in group b"},
		{"never was in the group", "", twoKeys + "watch w from=100 group=a\nadded w k2 v2 102", Fail, "it was not in the group, nor did it enter or leave it"},
		{"leaves as modified", "", twoKeys + `
			watch w from=100 group=a
			added w k1 v1@a 101
			modified w k1 v3 103`, Fail, "it left the group then, which comes as deleted"},
		{"enters as modified", "", twoKeys + `
			watch w from=100 group=b
			added w k2 v2@b 102
			modified w k1 v3@b 103`, Fail, "it entered the group then, which comes as added"},
		{"what it was before is not known", "", twoKeys + `
			patch k1 v4@a unknown
			patch k1 v5@a 105
			watch w from=103 group=a
			modified w k1 v5@a 105`, Pass, ""},
		{"no filter", "", twoKeys + "watch w from=100\nadded w k1 v1@a 101", NotApplicable, ""},
	})
}

func TestWatchFlags(t *testing.T) {
	tell(t, named("watch-flags"), []telling{
		{"right", "", twoKeys + `
			delete k2
			watch w from=100
			added w k1 v1@a 101
			added w k2 v2@b 102
			modified w k1 v3@b 103
			deleted w k2 v2@b 104
			create k2 v5@a 105
			added w k2 v5@a 105`, Pass, ""},
		{"created as modified", "", twoKeys + "watch w from=101\nmodified w k2 v2@b 102", Fail, "but the key did not exist before"},
		{"modified as added", "", twoKeys + "watch w from=102\nadded w k1 v3@b 103", Fail, "but the key existed before and after"},
		{"modified as deleted", "", twoKeys + "watch w from=102\ndeleted w k1 v1@a 103", Fail, "but the key existed before and after"},
		{"nobody knows whether it was there", "", twoKeys + `
			delete k2 unknown
			patch k2 v4@b 110
			watch w from=103
			added w k2 v4@b 110`, Pass, ""},
		{"etcd contradicts itself", facts.APIEtcd, `
			put k1 v1 101
			watch w from=101
			added w k1 v1 101 created=90 version=4`, Fail, "with create revision 90 and version 4 of the key"},
		{"etcd miscounts", facts.APIEtcd, `
			create k1 v1 101
			update k1 v2 102 over=101
			update k1 v3 103 over=102
			watch w from=103
			modified w k1 v3 103 created=102 version=2`, Fail, "instead of 101 and 3"},
		{"etcd counts", facts.APIEtcd, `
			create k1 v1 101
			update k1 v2 102 over=101
			delete k1 103
			create k1 v3 104
			watch w from=102
			modified w k1 v2 102 created=101 version=2
			deleted w k1 _ 103
			added w k1 v3 104 created=104 version=1`, Pass, ""},
	})
}

func TestWatchContent(t *testing.T) {
	tell(t, named("watch-content"), []telling{
		{"as written", "", twoKeys + "delete k2\nwatch w from=102\nmodified w k1 v3@b 103\ndeleted w k2 v2@b 104", Pass, ""},
		{"from before the record", "", twoKeys + "watch w from=50\nadded w k7 old@a 60\ndeleted w k7 old@a 61", Pass, ""},
		{"of unknown outcome", "", twoKeys + "update k1 v4@a over=103 unknown\nwatch w from=103\nmodified w k1 v4@a 104", Pass, ""},
		{"no client wrote it", "", twoKeys + "watch w from=102\nmodified w k1 v9@b 103", Fail, "which no client wrote"},
		{"refused", "", twoKeys + "update k1 v4@a over=101 refused\nwatch w from=103\nmodified w k1 v4@a 104", Fail, "of a write that was refused"},
		{"the value of another version", "", twoKeys + "watch w from=102\nmodified w k1 v1@a 103", Fail, "but the write of that value made version 101"},
		{"one value, two versions", "", twoKeys + `
			update k1 v4@a over=103 unknown
			watch w from=103
			watch x from=103
			modified w k1 v4@a 104
			modified x k1 v4@a 105`, Fail, "but that value was also seen in version 104"},
		{"another group", "", twoKeys + "watch w from=102\nmodified w k1 v3@a 103", Fail, `in group "a", but it was written to group "b"`},
		{"another collection's key", "", twoKeys + "watch w from=103\nadded w zz v8@a 104", Fail, "which no client wrote"},
		{"no client deleted it", "", twoKeys + "watch w from=103\ndeleted w k2 v2@b 104", Fail, "but no client can have deleted it then"},
		{"no client deleted it so early", "", twoKeys + "delete k2\nwatch w from=100\ndeleted w k2 v2@b 103", Fail, "but no client can have deleted it then"},
		{"a key that no client wrote", "", twoKeys + "watch w from=103\ndeleted w zz v8@a 104", Fail, "of a key that no client wrote"},
		{"deleted with another value", "", twoKeys + "delete k1 over=103\nwatch w from=103\ndeleted w k1 v1@a 104", Fail, `but it was "v3" before`},
		{"left the group unseen by anybody else", "", twoKeys + "patch k1 v4@a unknown\nwatch w from=103 group=b\ndeleted w k1 v3@b 104", Pass, ""},
	})
}

func TestWatchAtomic(t *testing.T) {
	const transaction = `
		put k1 v1 101 txn=t
		with put k2 v2 101 txn=t
		put k3 v3 102
		watch w from=101
	`
	tell(t, named("watch-atomic"), []telling{
		{"together", facts.APIEtcd, transaction + "added w k1 v1 101 batch=1\nadded w k2 v2 101 batch=1\nadded w k3 v3 102 batch=2", Pass, ""},
		{"in two responses", facts.APIEtcd, transaction + "added w k1 v1 101 batch=1\nadded w k2 v2 101 batch=2", Fail, "showed version 101 of k1 in response 1, and of k2 in response 2"},
		{"a half", facts.APIEtcd, transaction + "added w k1 v1 101 batch=1\nadded w k3 v3 102 batch=1", Fail, `but not k2 = "v2" in version 101`},
		{"a half was asked for", facts.APIEtcd, "put k1 v1 101 txn=t\nwith put k2 v2 101 txn=t\nwatch w from=101 key=k2\nadded w k2 v2 101 batch=1", Pass, ""},
		{"no etcd", "", twoKeys + "watch w from=100\nadded w k1 v1@a 101", NotApplicable, ""},
	})
}

func TestWatchPrevious(t *testing.T) {
	const writes = `
		create k1 v1 101
		update k1 v2 102 over=101
		watch w from=101 previous
		added w k1 v1 101
	`
	tell(t, named("watch-previous"), []telling{
		{"right", facts.APIEtcd, writes + "modified w k1 v2 102 was=v1/101", Pass, ""},
		{"missing proves nothing", facts.APIEtcd, writes + "modified w k1 v2 102", Pass, ""},
		{"another value", facts.APIEtcd, writes + "modified w k1 v2 102 was=v9/101", Fail, `and before it "v9" of version 101, which no client wrote`},
		{"another version", facts.APIEtcd, writes + "modified w k1 v2 102 was=v1/100", Fail, "but the write of that value made version 101"},
		{"there was nothing", facts.APIEtcd, "create k1 v1 101\ndelete k1 102\ncreate k1 v3 103\nwatch w from=103 previous\nadded w k1 v3 103 was=v1/101", Fail, "but the key did not exist"},
		{"not the one before", facts.APIEtcd, writes + "update k1 v3 103 over=102\nmodified w k1 v3 103 was=v1/101", Fail, `instead of k1 = "v2" in version 102`},
		{"nobody asked", facts.APIEtcd, "put k1 v1 101\nwatch w from=101\nadded w k1 v1 101", NotApplicable, ""},
	})
}
