package local

import (
	"context"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

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

// testAdministration does what administrators could.
func testAdministration(t *testing.T, c *Cluster) {
	healEach(t, c, []faultCase{
		{fault.Compact, "etcd/leader", "keep=5 physical=true"},
		{fault.Defragment, "etcd/follower", ""},
		{fault.Alarm, "etcd/2", ""},
		{fault.Alarm, "etcd/leader", "type=CORRUPT"},
		{fault.FillQuota, "etcd/any", ""},
		{fault.RemoveMember, "etcd/leader", ""},
		{fault.LeaseDelete, "kcm/active", ""},
		{fault.LeaseSteal, "scheduler/active", ""},
		{fault.LeaseSteal, "kcm/active", "renew=false"},
		{fault.Overload, "apiserver/2", ""},
		{fault.WebhookHang, "apiserver/1", "timeout=2s"},
		{fault.WebhookHang, "apiserver/any", "timeout=1s failurePolicy=Ignore namespace=default"},
		{fault.DNSWrong, "harness", ""},
		{fault.DNSWrong, "node/2", "names=node-3 address=10.77.0.99"},
		{fault.DNSSlow, "workers", "delay=300ms"},
		{fault.DNSDead, "node/1", ""},
		{fault.RestoreSnapshot, "etcd/any", "age=1s writes=5"},
	}, whole)

	t.Run("several at once, the first healed first", func(t *testing.T) {
		var all []fault.Injection
		for _, f := range []faultCase{
			{fault.DNSSlow, "node/1", "delay=100ms"},
			{fault.LeaseSteal, "kcm/1", ""},
			{fault.WebhookHang, "apiserver/2", "timeout=1s failurePolicy=Ignore"},
			{fault.DNSWrong, "node/2", ""},
			{fault.LeaseDelete, "scheduler/1", ""},
		} {
			all = append(all, f.inject(t, c, longTTL))
		}
		heal(t, all...)
		whole(t, c)
	})

	t.Run("healed without an API server", func(t *testing.T) {
		all := []fault.Injection{
			inject(t, c, fault.LeaseSteal, "scheduler/1", longTTL, ""),
			inject(t, c, fault.WebhookHang, "apiserver/1", longTTL, "timeout=1s"),
			inject(t, c, fault.Overload, "apiserver/2", longTTL, ""),
		}
		var down []fault.Injection
		for _, target := range []string{"apiserver/1", "apiserver/2", "apiserver/3"} {
			down = append(down, inject(t, c, fault.Kill, target, longTTL, ""))
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
		heal(t, append(down, all...)...)
		whole(t, c)
	})

	// These are not healed explicitly, and nothing of them may be left.
	for _, x := range []struct {
		faultCase
		ttl  time.Duration
		over func() bool
	}{
		{faultCase{fault.DNSDead, "workers", ""}, 3 * time.Second, func() bool {
			l, err := c.LookUp(t.Context(), "workers", "node-1")
			return err == nil && l.Problem == ""
		}},
		{faultCase{fault.Alarm, "etcd/any", ""}, time.Second, func() bool { return etcdTakes(t, c, "node-1") }},
		{faultCase{fault.RemoveMember, "etcd/follower", ""}, 5 * time.Second, func() bool {
			return etcdTakes(t, c, "node-1") && etcdTakes(t, c, "node-2") && etcdTakes(t, c, "node-3")
		}},
		{faultCase{fault.LeaseSteal, "kcm/active", ""}, time.Second, func() bool {
			return !strings.Contains(stored(t, c, "/registry/leases/kube-system/kube-controller-manager"), "holdfast-stranger")
		}},
		{faultCase{fault.Overload, "apiserver/1", "concurrency=50 rate=2000"}, 3 * time.Second, func() bool {
			return stored(t, c, "/registry/clusterroles/holdfast") == ""
		}},
		{faultCase{fault.WebhookHang, "apiserver/3", "timeout=1s"}, 3 * time.Second, func() bool {
			return stored(t, c, "/registry/validatingwebhookconfigurations/") == ""
		}},
	} {
		t.Run(x.fault.Name+" left alone", func(t *testing.T) {
			on, err := fault.Resolve(t.Context(), c, x.target)
			if err != nil {
				t.Fatal(err)
			}
			i, err := x.fault.Inject(t.Context(), c, on, fault.Params{TTL: x.ttl, Values: x.values()})
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
