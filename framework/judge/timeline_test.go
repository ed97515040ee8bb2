package judge

import (
	"fmt"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
)

// What a timeline knows of a key in a version, and where it says that it does not.
func TestTimeline(t *testing.T) {
	for _, tt := range []struct {
		name, api, history string
		version            uint64
		want               string // KEY k1: its value, "absent" or "unknown"
	}{
		{"before its creation", "", "create k1 v1 101", 100, "absent"},
		{"created", "", "create k1 v1 101", 101, "v1"},
		{"what was there before is not known", "", "update k1 v1 101", 100, "unknown"},
		{"nothing is known", "", "create k1 v1 unknown", 101, "unknown"},
		{"a write that nobody saw", "", "create k1 v1 101\npatch k1 v2 unknown", 110, "unknown"},
		{"a write that nobody saw, before its call", "", "create k1 v1 101\ncreate k2 x 105\npatch k1 v2 unknown", 105, "v1"},
		{"a compare-and-swap proves that it was not", "", "create k1 v1 101\nupdate k1 v2 over=101 unknown\nupdate k1 v3 105 over=101", 104, "v1"},
		{"a compare-and-swap of a version that is gone", "", "create k1 v1 101\nupdate k1 v2 102 over=101\nupdate k1 v3 over=101 unknown", 110, "v2"},
		{"a patch may be between others", "", "create k1 v1 101\npatch k1 v2 unknown\npatch k1 v3 105", 104, "unknown"},
		{"nor is it known any more after it", "", "create k1 v1 101\npatch k1 v2 unknown\npatch k1 v3 105", 106, "unknown"},
		{"a creation over what is there", "", "create k1 v1 101\ncreate k1 v2 unknown", 110, "v1"},
		{"a patch of what is not there", "", "create k1 v1 101\ncreate k2 x 102\ndelete k1 over=101\ncreate k2 y 105\npatch k1 v2 unknown", 110, "absent"},
		{"a read tells the version", "", "create k1 v1 101\npatch k1 v2 unknown\nget k1 v2 104", 104, "v2"},
		{"a list tells it", "", "create k1 v1 101\npatch k1 v2 unknown\nlist unset = 110 k1:v2:104", 110, "v2"},
		{"an event tells it", "", "create k1 v1 101\npatch k1 v2 unknown\nwatch w from=101\nmodified w k1 v2 104", 103, "v1"},
		{"a deletion, and no later write", "", "create k1 v1 101\ndelete k1", 110, "unknown"},
		{"a deletion before a later write", "", "create k1 v1 101\ndelete k1\ncreate k2 x 105", 105, "absent"},
		{"when exactly is not known", "", "create k1 v1 101\ndelete k1\ncreate k2 x 105", 103, "unknown"},
		{"an event tells when", "", "create k1 v1 101\ndelete k1\nwatch w from=101\ndeleted w k1 v1 104\ncreate k2 x 110", 104, "absent"},
		{"and when not", "", "create k1 v1 101\ndelete k1\nwatch w from=101\ndeleted w k1 v1 104\ncreate k2 x 110", 103, "v1"},
		{"one of two deletions is seen", "", "create k1 v1 101\ndelete k1 unknown\ndelete k1\nwatch w from=101\ndeleted w k1 v1 104\ncreate k1 v2 106", 110, "unknown"},
		{"what leaves a group need not be deleted", "", "create k1 v1@a 101\npatch k1 v2@b unknown\ndelete k1 unknown\nwatch w from=101 group=a\ndeleted w k1 v1@a 104", 104, "unknown"},
		{"etcd tells the revision of a deletion", facts.APIEtcd, "create k1 v1 101\ndelete k1 103", 103, "absent"},
		{"etcd tells one also where there was nothing", facts.APIEtcd, "create k1 v1 101\ndelete k1 103\ncreate k1 v2 104\nput k2 x 106\ndelete k3 106", 106, "v2"},
		{"a transaction has one revision", facts.APIEtcd, "create k1 v1 101\nput k1 v2 unknown txn=t\nwith put k2 x unknown txn=t\nget k2 x 104", 104, "v2"},
		{"one value, two versions", "", "create k1 v1 101\npatch k1 v2 unknown\nget k1 v2 104\nget k1 v2 105", 101, "unknown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			api := tt.api
			if api == "" {
				api = facts.APIKubernetes
			}
			run := chronicle(t, api, tt.history+"\nlist any = 1")
			c, known := facts.NewCollections(run).Timelines[facts.CollectionOf{API: api, Name: "things"}].Lines["k1"].At(tt.version)
			got := "unknown"
			if known {
				if got = "absent"; c != nil {
					got = c.Value
				}
			}
			if got != tt.want {
				t.Errorf("version %d: %s, want %s", tt.version, got, tt.want)
			}
		})
	}
}

// judging 100,000 events grows with their number, not with its square.
func BenchmarkWatches(b *testing.B) {
	for _, events := range []int{25_000, 50_000, 100_000} {
		for _, keys := range []int{1, 100} {
			b.Run(fmt.Sprintf("events=%d/keys=%d", events, keys), func(b *testing.B) {
				run := manyWatches(events, 100, keys)
				for b.Loop() {
					for name, f := range verdictsOn(run) {
						if f.Verdict == Fail {
							b.Fatal(name, f.Sentence)
						}
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(events), "ns/event")
			})
		}
	}
}
