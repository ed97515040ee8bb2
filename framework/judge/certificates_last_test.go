package judge

import (
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func TestCertificatesLast(t *testing.T) {
	day := 24 * time.Hour
	looked := func(change func(*record.Op)) func() *story {
		return func() *story {
			s := newStory()
			for _, n := range threeNodes {
				for _, key := range []string{"etcd/client", "etcd/peer", "kube-apiserver/https"} {
					o := during(3, 3.1)
					o.Client, o.Entrance, o.Type, o.Key, o.Purpose, o.Outcome, o.Found = "expiry", n, record.OpGet, key, "expiry", record.OK, true
					o.Value = s.run.Meta.Started.Add(365 * day).Format(time.RFC3339)
					change(&o)
					s.op(o)
				}
			}
			return s
		}
	}
	on := func(node, key string, change func(*record.Op)) func() *story {
		return looked(func(o *record.Op) {
			if o.Entrance == node && o.Key == key {
				change(o)
			}
		})
	}
	started := newStory().run.Meta.Started
	valid := func(d time.Duration) func(*record.Op) {
		return func(o *record.Op) { o.Value = started.Add(d).Format(time.RFC3339) }
	}
	rule(t, record.Check{Requirement: "HA-SEC-005", Judge: "certificates-last"}, []ruling{
		{name: "a year", want: Pass, took: "9 certificates", says: "the first to expire is that of", story: looked(func(*record.Op) {})},
		{name: "31 days", want: Pass, says: "that of etcd/peer on node-2", story: on("node-2", "etcd/peer", valid(31*day))},
		{name: "29 days", want: Fail, says: "that of etcd/peer on node-2 does on", story: on("node-2", "etcd/peer", valid(29*day))},
		{name: "expired", want: Fail, says: "that of kube-apiserver/https on node-1", story: on("node-1", "kube-apiserver/https", valid(-day))},
		{name: "not seen", want: Inconclusive, says: "kube-apiserver on node-3", story: on("node-3", "kube-apiserver/https", func(o *record.Op) { o.Outcome = record.Unknown })},
		{name: "a port not seen", want: Inconclusive, says: "was not observed: etcd on node-3 (peer port)", story: on("node-3", "etcd/peer", func(o *record.Op) { o.Outcome = record.Unknown })},
		{name: "a port seen at the second attempt", want: Pass, took: "9 certificates", story: func() *story {
			s := on("node-3", "etcd/peer", func(o *record.Op) { o.Outcome = record.Unknown })()
			o := during(4, 4.1)
			o.Entrance, o.Type, o.Key, o.Purpose, o.Found, o.Value = "node-3", record.OpGet, "etcd/peer", "expiry", true, started.Add(365*day).Format(time.RFC3339)
			return s.op(o)
		}},
		{name: "a scheduler that serves on the loopback", want: Pass, story: func() *story {
			s := looked(func(*record.Op) {})()
			o := during(4, 4.1)
			o.Entrance, o.Type, o.Key, o.Purpose, o.Outcome = "node-3", record.OpGet, "kube-scheduler/https", "expiry", record.Unknown
			return s.op(o)
		}},
		{name: "no date", want: Inconclusive, says: `"soon"`, story: on("node-3", "etcd/peer", func(o *record.Op) { o.Value = "soon" })},
		{name: "not observed", want: Inconclusive, says: "was not observed", story: func() *story { return newStory() }},
	})
}
