package judge

import (
	"fmt"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func TestEtcdLinearizable(t *testing.T) {
	// watched makes the record one whose revisions are known: of a history without lists and
	// watches there is no state to hold an answer against.
	const watched = `
		watch w from=100`
	tell(t, etcdLinearizable(), []telling{
		{"read what was put", apiEtcd, `
			put k v1 101
			get k v1 101 header=101`, Pass, "1 acknowledged writes and 1 linearizable reads on 1 keys of etcd"},
		{"a read that misses an acknowledged put", apiEtcd, `
			put k v1 101
			put k v2 102
			get k v1 101 header=102`, Fail, `get through node-1 returning "v1"`},
		{"a serializable read may be old", apiEtcd, `
			put k v1 101
			put k v2 102
			get k v1 101 header=101 serializable
			get k v2 102`, Pass, "1 linearizable reads"},
		{"a put of unknown outcome that is seen later", apiEtcd, `
			put k v1 101
			put k v2 unknown
			get k v1 101
			get k v2 102`, Pass, ""},
		{"a put of unknown outcome that is seen, and gone", apiEtcd, `
			put k v1 101
			put k v2 unknown
			get k v2 102
			get k v1 101`, Fail, `returning "v1"`},
		{"a put that nobody saw is what was deleted", apiEtcd, `
			get k
			put k v1 unknown
			delete k 102
			get k`, Pass, ""},
		{"deletes go by their revisions", apiEtcd, `
			put k v1 101
			delete k 102
			put k v2 103
			delete k 104
			get k`, Pass, ""},
		{"deleted and still there", apiEtcd, `
			put k v1 101
			delete k 102
			get k v1 101`, Fail, `returning "v1"`},
		{"compare-and-swap over a version that is gone", apiEtcd, `
			put k v1 101
			put k v2 102
			update k v3 103 over=101
			get k v3 103`, Fail, `update through node-1 of "v3" over version 101`},

		{"a transaction on two keys", apiEtcd, `
			put a a1 101
			put b b1 102
			update a a2 103 over=101 txn=t
			with update b b2 103 over=102 txn=t
			get a a2 103
			get b b2 103`, Pass, "4 acknowledged writes"},
		{"half of an acknowledged transaction", apiEtcd, `
			put a a1 101
			put b b1 102
			update a a2 103 over=101 txn=t
			with update b b2 103 over=102 txn=t
			get a a2 103
			get b b1 102`, Fail, `returning "b1"`},
		{"half of a transaction of unknown outcome", apiEtcd, `
			put a a1 101
			put b b1 102
			update a a2 over=101 unknown txn=t
			with update b b2 over=102 unknown txn=t
			get a a2 103
			get b b1 102`, Fail, `returning "b1"`},
		{"a transaction of unknown outcome, one half of which is not read", apiEtcd, `
			put a a1 101
			put b b1 102
			update a a2 over=101 unknown txn=t
			with update b b2 over=102 unknown txn=t
			get b b1 102
			get a a2 103`, Pass, ""},
		{"a transaction of unknown outcome that took no effect", apiEtcd, `
			put a a1 101
			put b b1 102
			update a a2 over=101 unknown txn=t
			with update b b2 over=102 unknown txn=t
			get a a1 101
			get b b1 102`, Pass, ""},

		{"two puts with one revision", apiEtcd, `
			put a a1 101
			put b b1 101
			get a a1 101`, Fail, "were both acknowledged at revision 101"},
		{"revoking a lease that has no keys left", apiEtcd, `
			put a a1 101
			delete b 101
			get a a1 101`, Pass, ""},

		{"an answer that is not the state of its header", apiEtcd, watched + `
			create a a1 101
			with put a a2 102
			with get a a1 101 header=102
			get a a2 102 header=102`, Fail, `returned "a1" with a header of revision 102`},
		{"an answer between two writes", apiEtcd, watched + `
			create a a1 101
			with put a a2 102
			with get a a1 101 header=101
			get a a2 102 header=107`, Pass, "each of 2 answers is the state of the revision in its header"},
		{"a serializable answer that is not the state of its header", apiEtcd, watched + `
			create a a1 101
			put a a2 102
			put a a3 103
			get a a1 101 header=102 serializable
			get a a3 103`, Fail, `returned "a1" with a header of revision 102`},
		{"an old serializable answer", apiEtcd, watched + `
			create a a1 101
			put a a2 102
			put a a3 103
			get a a1 101 header=101 serializable
			get a a3 103`, Pass, ""},
		{"an answer from before a transaction that shows one half", apiEtcd, watched + `
			create a a1 101
			create b b1 102
			update a a2 103 over=101 txn=t
			with update b b2 103 over=102 txn=t
			with get a a2 103 header=103
			with get b b1 102 header=103`, Fail, `of b through node-1`},
		{"a transaction that is refused although its condition holds", apiEtcd, watched + `
			create a a1 101
			create b b1 102
			get a a1 101
			update a a2 over=101 refused txn=t header=102
			with update b b2 over=102 refused txn=t header=102`, Fail, "although its condition held on each of 2 keys"},
		{"a transaction that one of its keys refuses", apiEtcd, watched + `
			create a a1 101
			create b b1 102
			put b b2 103
			get a a1 101
			update a a2 over=101 refused txn=t header=103
			with update b b3 over=102 refused txn=t header=103`, Pass, ""},
		{"a create that is refused of a key that is not there", apiEtcd, watched + `
			create a a1 101
			delete a 102
			create a a2 refused header=102
			get a`, Fail, "was refused at revision 102"},

		{"no etcd traffic", apiKubernetes, `
			create k v1 101
			get k v1 101`, NotApplicable, ""},
	})
}

// An etcd that serves what was, through another member, to every client.
func TestEtcdStaleReads(t *testing.T) {
	s := newStory()
	for i := range 20 {
		f := float64(i)
		s.write(record.OpPut, "node-1", "k", fmt.Sprint("v", i), 100+i, 5+f, 5.5+f)
		s.last().API = apiEtcd
		s.read("node-2", "k", "v0", 100, 5.6+f, 5.9+f)
		s.last().API, s.last().Consistency = apiEtcd, "linearizable"
	}
	if f := etcdLinearizable().judge(&matter{run: s.run}); f.verdict != Fail {
		t.Errorf("%s: %s", f.verdict, f.sentence)
	}
}

// The header of a linearizable read is no older than what was shown before its call.
func TestRevisionOrderOfHeaders(t *testing.T) {
	tell(t, revisionOrder(), []telling{
		{"no older", apiEtcd, `
			put a a1 101
			get b header=101
			get a a1 101 header=105`, Pass, ""},
		{"older than an acknowledged put", apiEtcd, `
			put a a1 101
			get b header=100`, Fail, "get of b through node-1, called at 2.000s, has version 100, although version 101"},
		{"older than another header", apiEtcd, `
			put a a1 101
			get b header=105
			get a a1 101 header=104`, Fail, "has version 104, although version 105"},
		{"a put at what a header had shown", apiEtcd, `
			get b header=105
			put a a1 105`, Fail, "has version 105, although version 105"},
		{"a serializable read may be older", apiEtcd, `
			put a a1 101
			get b header=100 serializable`, NotApplicable, ""},
		{"a refused transaction is older", apiEtcd, `
			put a a1 101
			update b b1 over=90 refused header=99`, Fail, "has version 99"},
	})
}
