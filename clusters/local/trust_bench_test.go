package local

import (
	"context"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/fault"
)

// BenchmarkTrustAndTime measures the time from the call of a fault of
// certificates or clocks to the proof of its effect, and from the call of its
// healing to the proof of that. No process may end of it.
func BenchmarkTrustAndTime(b *testing.B) {
	c := benchCluster(b, 3)
	defer c.Close(context.Background())
	for _, f := range []struct {
		name   string
		fault  *fault.Fault
		target string
	}{
		{"authority-rotated/apiserver", fault.AuthorityRotated, "apiserver/2"},
		{"cert-expired/apiserver", fault.CertExpired, "apiserver/2"},
		{"cert-expired/etcd", fault.CertExpired, "etcd/2"},
		{"cert-wrong-names/etcd", fault.CertWrongNames, "etcd/2"},
		{"clock-jump/scheduler", fault.ClockJump, "scheduler/3"},
		{"clock-jump/node", fault.ClockJump, "node/3"},
		{"clock-drift/node", fault.ClockDrift, "node/3"},
	} {
		b.Run(f.name, func(b *testing.B) {
			second, third := identities(b, c.nodes[1]), identities(b, c.nodes[2])
			benchFault(b, c, f.fault, f.target, nil, 50)
			sameProcesses(b, c.nodes[1], second)
			sameProcesses(b, c.nodes[2], third)
		})
	}
}
