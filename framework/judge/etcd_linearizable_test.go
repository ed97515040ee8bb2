package judge

import (
	"fmt"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/record"
)

func TestEtcdLinearizable(t *testing.T) {
	// watched makes the revisions of the record known: a history without lists and watches has no
	// state to compare a response with.
	const watched = `
		watch w from=100`
	tell(t, named("etcd-linearizable"), []telling{
		{"read what was put", facts.APIEtcd, `
			put k v1 101
			get k v1 101 header=101`, Pass, "1 acknowledged writes and 1 linearizable reads on 1 keys of etcd"},
		{"a read that misses an acknowledged put", facts.APIEtcd, `
			put k v1 101
			put k v2 102
			get k v1 101 header=102`, Fail, `get through node-1 returning "v1"`},
		{"a serializable read may be old", facts.APIEtcd, `
			put k v1 101
			put k v2 102
			get k v1 101 header=101 serializable
			get k v2 102`, Pass, "1 linearizable reads"},
		{"a put of unknown outcome that is seen later", facts.APIEtcd, `
			put k v1 101
			put k v2 unknown
			get k v1 101
			get k v2 102`, Pass, ""},
		{"a put of unknown outcome that is seen, and gone", facts.APIEtcd, `
			put k v1 101
			put k v2 unknown
			get k v2 102
			get k v1 101`, Fail, `returning "v1"`},
		{"a put that nobody saw is what was deleted", facts.APIEtcd, `
			get k
			put k v1 unknown
			delete k 102
			get k`, Pass, ""},
		{"deletes go by their revisions", facts.APIEtcd, `
			put k v1 101
			delete k 102
			put k v2 103
			delete k 104
			get k`, Pass, ""},
		{"deleted and still there", facts.APIEtcd, `
			put k v1 101
			delete k 102
			get k v1 101`, Fail, `returning "v1"`},
		{"compare-and-swap over a version that is gone", facts.APIEtcd, `
			put k v1 101
			put k v2 102
			update k v3 103 over=101
			get k v3 103`, Fail, `update through node-1 of "v3" replacing version 101`},

		{"a transaction on two keys", facts.APIEtcd, `
			put a a1 101
			put b b1 102
			update a a2 103 over=101 txn=t
			with update b b2 103 over=102 txn=t
			get a a2 103
			get b b2 103`, Pass, "4 acknowledged writes"},
		{"half of an acknowledged transaction", facts.APIEtcd, `
			put a a1 101
			put b b1 102
			update a a2 103 over=101 txn=t
			with update b b2 103 over=102 txn=t
			get a a2 103
			get b b1 102`, Fail, `returning "b1"`},
		{"half of a transaction of unknown outcome", facts.APIEtcd, `
			put a a1 101
			put b b1 102
			update a a2 over=101 unknown txn=t
			with update b b2 over=102 unknown txn=t
			get a a2 103
			get b b1 102`, Fail, `returning "b1"`},
		{"a transaction of unknown outcome, one half of which is not read", facts.APIEtcd, `
			put a a1 101
			put b b1 102
			update a a2 over=101 unknown txn=t
			with update b b2 over=102 unknown txn=t
			get b b1 102
			get a a2 103`, Pass, ""},
		{"a transaction of unknown outcome that took no effect", facts.APIEtcd, `
			put a a1 101
			put b b1 102
			update a a2 over=101 unknown txn=t
			with update b b2 over=102 unknown txn=t
			get a a1 101
			get b b1 102`, Pass, ""},

		{"two puts with one revision", facts.APIEtcd, `
			put a a1 101
			put b b1 101
			get a a1 101`, Fail, "were both acknowledged at revision 101"},
		{"a put and a deletion with one revision", facts.APIEtcd, `
			put a a1 101
			put b b1 102
			delete a 103
			put b b2 103
			get b b2 103`, Fail, "were both acknowledged at revision 103"},

		{"an answer that is not the state of its header", facts.APIEtcd, watched + `
			create a a1 101
			with put a a2 102
			with get a a1 101 header=102
			get a a2 102 header=102`, Fail, `returned "a1" with a header of revision 102`},
		{"an answer between two writes", facts.APIEtcd, watched + `
			create a a1 101
			with put a a2 102
			with get a a1 101 header=101
			get a a2 102 header=107`, Pass, "each of 2 answers is the state of the revision in its header"},
		{"a serializable answer that is not the state of its header", facts.APIEtcd, watched + `
			create a a1 101
			put a a2 102
			put a a3 103
			get a a1 101 header=102 serializable
			get a a3 103`, Fail, `returned "a1" with a header of revision 102`},
		{"an old serializable answer", facts.APIEtcd, watched + `
			create a a1 101
			put a a2 102
			put a a3 103
			get a a1 101 header=101 serializable
			get a a3 103`, Pass, ""},
		{"an answer from before a transaction that shows one half", facts.APIEtcd, watched + `
			create a a1 101
			create b b1 102
			update a a2 103 over=101 txn=t
			with update b b2 103 over=102 txn=t
			with get a a2 103 header=103
			with get b b1 102 header=103`, Fail, `of b through node-1`},
		{"a transaction that is refused although its condition holds", facts.APIEtcd, watched + `
			create a a1 101
			create b b1 102
			get a a1 101
			update a a2 over=101 refused txn=t header=102
			with update b b2 over=102 refused txn=t header=102`, Fail, "although its condition held on each of 2 keys"},
		{"a transaction that one of its keys refuses", facts.APIEtcd, watched + `
			create a a1 101
			create b b1 102
			put b b2 103
			get a a1 101
			update a a2 over=101 refused txn=t header=103
			with update b b3 over=102 refused txn=t header=103`, Pass, ""},
		{"a create that is refused of a key that is not there", facts.APIEtcd, watched + `
			create a a1 101
			delete a 102
			create a a2 refused header=102
			get a`, Fail, "was refused at revision 102"},

		{"no etcd traffic", facts.APIKubernetes, `
			create k v1 101
			get k v1 101`, NotApplicable, ""},
	})
}

// A key of a lease is of no collection: it is judged as the others are, but for the revision
// with which the revocation is answered, whether there is a key left or not.
func TestEtcdLeasedKeys(t *testing.T) {
	for _, tt := range []struct {
		name, history string
		want          Verdict
	}{
		{"read, and revoked", "put leased x 102\nget leased x 102\ndelete leased 103\nget leased", Pass},
		{"revoked when there was none left", "put leased x unknown\ndelete leased 101", Pass},
		{"put, and not there", "put leased x 102\nget leased", Fail},
		{"revoked, and still there", "put leased x 102\ndelete leased 103\nget leased x 102", Fail},
	} {
		run := chronicle(t, facts.APIEtcd, "put k v1 101\nget k v1 101\n"+tt.history)
		for i := range run.Ops {
			if op := &run.Ops[i].V; op.Key == "leased" {
				op.Collection = ""
			}
		}
		if f := named("etcd-linearizable").Judge(&facts.Case{Run: run}); f.Verdict != tt.want {
			t.Errorf("%s: %s (want %s): %s", tt.name, f.Verdict, tt.want, f.Sentence)
		}
	}
}

// An etcd that serves what was, through another member, to every client.
func TestEtcdStaleReads(t *testing.T) {
	s := newStory()
	for i := range 20 {
		f := float64(i)
		s.write(record.OpPut, "node-1", "k", fmt.Sprint("v", i), 100+i, 5+f, 5.5+f)
		s.last().API = facts.APIEtcd
		s.read("node-2", "k", "v0", 100, 5.6+f, 5.9+f)
		s.last().API, s.last().Consistency = facts.APIEtcd, "linearizable"
	}
	if f := named("etcd-linearizable").Judge(&facts.Case{Run: s.run}); f.Verdict != Fail {
		t.Errorf("%s: %s", f.Verdict, f.Sentence)
	}
}

// The header of a linearizable read is not older than what was shown before its call.
func TestRevisionOrderOfHeaders(t *testing.T) {
	tell(t, named("revision-order"), []telling{
		{"no older", facts.APIEtcd, `
			put a a1 101
			get b header=101
			get a a1 101 header=105`, Pass, ""},
		{"older than an acknowledged put", facts.APIEtcd, `
			put a a1 101
			get b header=100`, Fail, "get of b through node-1, called at 2.000s, has version 100, although version 101"},
		{"older than another header", facts.APIEtcd, `
			put a a1 101
			get b header=105
			get a a1 101 header=104`, Fail, "has version 104, although version 105"},
		{"a put at what a header had shown", facts.APIEtcd, `
			get b header=105
			put a a1 105`, Fail, "has version 105, although version 105"},
		{"a deletion at what a header had shown", facts.APIEtcd, `
			put a a1 101
			get b header=105
			delete a 105`, Fail, "has version 105, although version 105"},
		{"a deletion", facts.APIEtcd, `
			put a a1 101
			get b header=105
			delete a 106`, Pass, ""},
		{"a serializable read may be older", facts.APIEtcd, `
			put a a1 101
			get b header=100 serializable`, NotApplicable, ""},
		{"a refused transaction is older", facts.APIEtcd, `
			put a a1 101
			update b b1 over=90 refused header=99`, Fail, "has version 99"},
	})
}
