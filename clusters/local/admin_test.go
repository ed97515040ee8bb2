package local

import (
	"context"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

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
		s.Spec.Workers = 1
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
		fault  *fault.Fault
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
		{"dns-wrong", fault.DNSWrong, "harness", values()},
		{"dns-wrong address", fault.DNSWrong, "node/2", values("names=node-3", "address=10.77.0.99")},
		{"dns-slow", fault.DNSSlow, "workers", values("delay=300ms")},
		{"dns-dead", fault.DNSDead, "node/1", values()},
		{"restore-snapshot", fault.RestoreSnapshot, "etcd/any", values("age=1s", "writes=5")},
	} {
		t.Run(x.name, func(t *testing.T) {
			heal(t, inject(t, c, x.fault, x.target, x.params))
			whole(t, c)
		})
	}

	t.Run("several at once, the first healed first", func(t *testing.T) {
		all := []fault.Injection{
			inject(t, c, fault.DNSSlow, "node/1", values("delay=100ms")),
			inject(t, c, fault.LeaseSteal, "kcm/1", values()),
			inject(t, c, fault.WebhookHang, "apiserver/2", values("timeout=1s", "failurePolicy=Ignore")),
			inject(t, c, fault.DNSWrong, "node/2", values()),
			inject(t, c, fault.LeaseDelete, "scheduler/1", values()),
		}
		for _, i := range all {
			heal(t, i)
		}
		whole(t, c)
	})

	t.Run("healed without an API server", func(t *testing.T) {
		all := []fault.Injection{
			inject(t, c, fault.LeaseSteal, "scheduler/1", values()),
			inject(t, c, fault.WebhookHang, "apiserver/1", values("timeout=1s")),
			inject(t, c, fault.Overload, "apiserver/2", values()),
		}
		var down []fault.Injection
		for _, target := range []string{"apiserver/1", "apiserver/2", "apiserver/3"} {
			down = append(down, inject(t, c, fault.Kill, target, values()))
		}
		for _, i := range all {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			if proof, err := i.Heal(ctx); err != nil {
				t.Errorf("healing needs an API server: %v", err)
			} else {
				t.Log(proof.What)
			}
			cancel()
		}
		for prefix, unwanted := range map[string]string{
			"/registry/leases/kube-system/kube-scheduler":     "holdfast-stranger",
			"/registry/validatingwebhookconfigurations/":      "holdfast",
			"/registry/clusterrolebindings/holdfast-overload": "holdfast",
			"/registry/clusterroles/holdfast-overload":        "holdfast",
		} {
			if got := stored(t, c, prefix); strings.Contains(got, unwanted) {
				t.Errorf("%s is left: %q", prefix, got)
			}
		}
		for _, i := range append(down, all...) {
			heal(t, i)
		}
		whole(t, c)
	})

	// These are not healed explicitly, and nothing of them may be left.
	for _, x := range []struct {
		name   string
		fault  *fault.Fault
		target string
		params fault.Params
		ttl    time.Duration
		over   func() bool
	}{
		{"dns-dead", fault.DNSDead, "workers", values(), 3 * time.Second, func() bool {
			l, err := c.LookUp(t.Context(), "workers", "node-1")
			return err == nil && l.Problem == ""
		}},
		{"alarm", fault.Alarm, "etcd/any", values(), time.Second, func() bool { return etcdTakes(t, c, "node-1") }},
		{"remove-member", fault.RemoveMember, "etcd/follower", values(), 5 * time.Second, func() bool {
			return etcdTakes(t, c, "node-1") && etcdTakes(t, c, "node-2") && etcdTakes(t, c, "node-3")
		}},
		{"lease-steal", fault.LeaseSteal, "kcm/active", values(), time.Second, func() bool {
			return !strings.Contains(stored(t, c, "/registry/leases/kube-system/kube-controller-manager"), "holdfast-stranger")
		}},
		{"overload", fault.Overload, "apiserver/1", values("concurrency=50", "rate=2000"), 3 * time.Second, func() bool {
			return stored(t, c, "/registry/clusterroles/holdfast") == ""
		}},
		{"webhook-hang", fault.WebhookHang, "apiserver/3", values("timeout=1s"), 3 * time.Second, func() bool {
			return stored(t, c, "/registry/validatingwebhookconfigurations/") == ""
		}},
	} {
		t.Run(x.name+" left alone", func(t *testing.T) {
			x.params.TTL = x.ttl
			on, err := fault.Resolve(t.Context(), c, x.target)
			if err != nil {
				t.Fatal(err)
			}
			i, err := x.fault.Inject(t.Context(), c, on, x.params)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(i.Proof().What) // on a slow machine the time may be over before the proof
			eventually(t, time.Minute, "nothing of it is left", x.over)
			whole(t, c)
		})
	}
}

// etcdTakes reports whether a member takes a write.
func etcdTakes(t testing.TB, c *Cluster, node string) bool {
	t.Helper()
	return withEtcd(t, c, node, func(ctx context.Context, client *clientv3.Client) error {
		_, err := client.Put(ctx, "test", "")
		return err
	}) == nil
}

// stored returns the values of all keys with a prefix.
func stored(t *testing.T, c *Cluster, prefix string) string {
	t.Helper()
	var values strings.Builder
	err := withEtcd(t, c, "node-1", func(ctx context.Context, client *clientv3.Client) error {
		answer, err := client.Get(ctx, prefix, clientv3.WithPrefix())
		if err == nil {
			for _, kv := range answer.Kvs {
				values.Write(kv.Value)
			}
		}
		return err
	})
	if err != nil {
		return err.Error()
	}
	return values.String()
}

func withEtcd(t testing.TB, c *Cluster, node string, do func(context.Context, *clientv3.Client) error) error {
	t.Helper()
	config, err := c.EtcdConfig(node)
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientv3.New(config)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	return do(ctx, client)
}
