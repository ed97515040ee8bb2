package observe

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework/record/recordtest"
	"github.com/holdfast-ha/holdfast/framework/workload/etcdtest"
)

// balancedEtcd is a cluster whose only member acts as the balancer.
type balancedEtcd struct{ *etcdtest.Cluster }

func (c balancedEtcd) EtcdBalancerConfig() (clientv3.Config, bool) {
	config, err := c.EtcdConfig(c.Nodes()[0].Name())
	return config, err == nil
}

func TestSessions(t *testing.T) {
	cluster := etcdtest.New(t, 1)
	w, soFar, read := recordtest.Growing(t)
	o := &Observers{cfg: Config{Cluster: balancedEtcd{cluster}, StatusInterval: 50 * time.Millisecond}, w: w}
	loops, err := o.sessions(t.Context())
	if err != nil || len(loops) != 1 {
		t.Fatal(loops, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	o.running.Go(func() { loops[0](ctx) })
	waitFor(t, "an answer", func() bool { return len(soFar().Sessions) > 0 })
	cluster.Stop(0)
	waitFor(t, "a failure", func() bool {
		all := soFar().Sessions
		return all[len(all)-1].V.Error != ""
	})
	cancel()
	o.running.Wait()
	answered, failed := 0, 0
	for _, s := range read().Sessions {
		switch {
		case s.V.Client != "harness" || s.V.End < s.V.Start || (s.V.Member == "") == (s.V.Error == ""):
			t.Errorf("session %+v", s.V)
		case s.V.Member == "":
			failed++
		case failed > 0:
			t.Errorf("an answer after the end: %+v", s.V)
		default:
			answered++
		}
	}
	if answered == 0 || failed == 0 {
		t.Errorf("%d answered, %d failed", answered, failed)
	}
	if loops, err := (&Observers{cfg: Config{Cluster: cluster}}).sessions(t.Context()); err != nil || len(loops) != 0 {
		t.Errorf("a cluster without a balancer: %d loops, %v", len(loops), err)
	}
}
