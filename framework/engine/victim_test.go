package engine

import (
	"maps"
	"testing"
)

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
