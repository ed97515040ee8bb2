package local

import (
	"context"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// BenchmarkAdministration measures, for faults that are asked of etcd, of the API
// and of DNS, the time from the call to the proof of the effect and
// from the call to heal to the proof of that. What is proven by a request that
// times out takes that long.
func BenchmarkAdministration(b *testing.B) {
	c := benchClusterOf(b, func(s *clusters.Cluster) {
		s.Spec.ExtraArgs = clusters.ExtraArgs{framework.Etcd: {"quota-backend-bytes": "67108864"}}
	})
	defer c.Close(context.Background())
	for _, f := range []struct {
		fault   *fault.Fault
		target  string
		params  map[string]string
		samples int
	}{
		{fault.Alarm, "etcd/leader", nil, 20},
		{fault.Compact, "etcd/leader", nil, 20},
		{fault.Defragment, "etcd/leader", nil, 20},
		{fault.MoveLeader, "etcd/leader", nil, 10},
		{fault.FillQuota, "etcd/leader", nil, 3},
		{fault.RemoveMember, "etcd/follower", nil, 3},
		{fault.LeaseDelete, "kcm/active", nil, 10},
		{fault.LeaseSteal, "scheduler/active", nil, 10},
		{fault.Overload, "apiserver/1", nil, 3},
		{fault.WebhookHang, "apiserver/1", map[string]string{"timeout": "1s"}, 3},
		{fault.DNSWrong, "node/1", nil, 20},
		{fault.DNSSlow, "node/1", map[string]string{"delay": "20ms"}, 20},
		{fault.DNSDead, "node/1", nil, 3},
		{fault.RestoreSnapshot, "etcd/leader", map[string]string{"age": "1s"}, 3},
	} {
		b.Run(f.fault.Name, func(b *testing.B) {
			benchFault(b, c, f.fault, f.target, f.params, f.samples, func() {
				// Something must have happened since the last compaction.
				if !etcdTakes(b, c, "node-1") {
					b.Fatal("etcd takes no write")
				}
			})
		})
	}
}
