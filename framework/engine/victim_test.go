package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// ownedCluster is fakeCluster with an owner who agrees to nothing permanent.
type ownedCluster struct{ *fakeCluster }

var errOwned = errors.New("the owner has not consented")

func (ownedCluster) CheckPromise(framework.Undoing) error { return errOwned }

func (ownedCluster) Promise(context.Context, framework.Undoing, time.Duration) (string, error) {
	return "", errOwned
}

func (ownedCluster) Withdraw(context.Context, string) error { return nil }

// TestLeaseOfAnOwnedCluster: a lease stays where it is, and its candidates keep running, unless the
// owner of the cluster has agreed that leases are deleted.
func TestLeaseOfAnOwnedCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := ownedCluster{newFake(t)}
		r := &run{cluster: c}
		err := r.moveLease(t.Context(), fault.Target{Node: "node-1", Component: framework.Scheduler}, "scheduler", "node-1", true)
		if missingAbility(err) == nil {
			t.Errorf("moving a lease: %v", err)
		}
		if c.nodes[0].killed+c.nodes[1].killed+c.nodes[2].killed > 0 {
			t.Error("candidates were killed")
		}
	})
}

// TestRoleUnhealed: an experiment does not begin if what was killed to move a role does not start
// again.
func TestRoleUnhealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFake(t)
		c.Set("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler", fmt.Sprintf(`{"metadata":{"name":"kube-scheduler"},"spec":{"holderIdentity":"node-2_a","leaseDurationSeconds":600,"renewTime":%q}}`, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")))
		c.nodes[1].stubborn, c.nodes[2].stubborn = true, true
		r := &run{cluster: c, options: Options{Progress: func(l string) { t.Log(l) }}, experiment: Experiment{Victim: 1, Timeline: []Step{{Inject: &Inject{Fault: "kill", Target: "scheduler/active"}}}}}
		if err := r.assignRoles(t.Context()); !errors.Is(err, errUnhealed) {
			t.Errorf("%v", err)
		}
	})
}

func TestRoles(t *testing.T) {
	for name, test := range map[string]struct {
		targets []string
		want    map[string]bool
	}{
		"a leader":                {[]string{"etcd/leader"}, map[string]bool{"etcd/leader": true}},
		"the node of one":         {[]string{"node/etcd/leader"}, map[string]bool{"etcd/leader": true}},
		"a follower":              {[]string{"apiserver/follower"}, map[string]bool{"etcd/leader": false}},
		"first the follower":      {[]string{"etcd/follower", "etcd/leader"}, map[string]bool{"etcd/leader": true}},
		"then the follower":       {[]string{"etcd/leader", "etcd/follower"}, map[string]bool{"etcd/leader": true}},
		"active instances":        {[]string{"kcm/active", "apiserver/scheduler/active"}, map[string]bool{"kcm/active": true, "scheduler/active": true}},
		"a standby":               {[]string{"scheduler/standby"}, map[string]bool{"scheduler/active": false}},
		"numbers and other words": {[]string{"etcd/2", "node/any", "balancer", "nodes", "zone/a", "node/serving"}, map[string]bool{}},
	} {
		r := &run{}
		for _, target := range test.targets {
			r.experiment.Timeline = append(r.experiment.Timeline, Step{Inject: &Inject{Fault: "kill", Target: target}}, Step{Wait: "1s"})
		}
		if got := r.roles(); !maps.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
