package local

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// inject injects a fault and wants its proof.
func inject(t *testing.T, c *Cluster, f fault.Fault, target string, p fault.Params) fault.Injection {
	t.Helper()
	on, err := fault.Resolve(t.Context(), c, target)
	if err != nil {
		t.Fatal(err)
	}
	i, err := f.Inject(t.Context(), c, on, p)
	if err != nil {
		t.Fatal(err)
	}
	proof := i.Proof()
	t.Logf("%s after %s: %s", f.Name(), proof.Effect.Sub(proof.Called).Round(time.Millisecond), proof.What)
	if !proof.Proven {
		t.Fatalf("%s has no proof of its effect", f.Name())
	}
	return i
}

// heal heals an injection and wants its proof.
func heal(t *testing.T, i fault.Injection) {
	t.Helper()
	proof, err := i.Heal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("healed after %s: %s", proof.Effect.Sub(proof.Called).Round(time.Millisecond), proof.What)
	if !proof.Proven {
		t.Fatal("healing has no proof")
	}
}

// whole wants every way in to be ready.
func whole(t *testing.T, c *Cluster) {
	t.Helper()
	eventually(t, time.Minute, "every entrance is ready", func() bool {
		for _, e := range c.Entrances() {
			if !ready(t, c, e.Name) {
				return false
			}
		}
		return true
	})
}

const longTTL = 5 * time.Minute

// TestAdministration does to one cluster what its administrators could.
func TestAdministration(t *testing.T) {
	c := newCluster(t, func(s *clusters.Cluster) {
		s.Spec.Workers = 0
		s.Spec.ExtraArgs = clusters.ExtraArgs{framework.Etcd: {"quota-backend-bytes": "67108864"}}
	})
	values := func(pairs ...string) fault.Params {
		p := fault.Params{TTL: longTTL, Values: map[string]string{}}
		for _, pair := range pairs {
			name, value, _ := strings.Cut(pair, "=")
			p.Values[name] = value
		}
		return p
	}
	for _, x := range []struct {
		name   string
		fault  fault.Fault
		target string
		params fault.Params
	}{
		{"compact", fault.Compact, "etcd/leader", values("keep=5", "physical=true")},
		{"defragment", fault.Defragment, "etcd/follower", values()},
		{"alarm NOSPACE", fault.Alarm, "etcd/2", values()},
		{"alarm CORRUPT", fault.Alarm, "etcd/leader", values("type=CORRUPT")},
		{"fill-quota", fault.FillQuota, "etcd/any", values()},
		{"remove-member", fault.RemoveMember, "etcd/leader", values()},
		{"lease-delete", fault.LeaseDelete, "kcm/active", values()},
		{"lease-steal", fault.LeaseSteal, "scheduler/active", values()},
		{"lease-steal without renewal", fault.LeaseSteal, "kcm/active", values("renew=false")},
		{"overload", fault.Overload, "apiserver/2", values()},
		{"webhook-hang", fault.WebhookHang, "apiserver/1", values("timeout=2s")},
		{"webhook-hang that is ignored", fault.WebhookHang, "apiserver/any", values("timeout=1s", "failurePolicy=Ignore", "namespace=default")},
		{"restore-snapshot", fault.RestoreSnapshot, "etcd/any", values("age=1s", "writes=5")},
	} {
		t.Run(x.name, func(t *testing.T) {
			heal(t, inject(t, c, x.fault, x.target, x.params))
			whole(t, c)
		})
	}
}
