package fault

import (
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/holdfast-ha/holdfast/framework/members"
)

func TestFillQuota(t *testing.T) {
	t.Parallel()
	c := operateEtcd(t, func(config *embed.Config) { config.QuotaBackendBytes = 24 << 20 })
	target := c.resolve(t, "etcd/follower")
	i, err := FillQuota.Inject(soon(t), numbEtcd{c, func(method string, _ any) bool { return method == "Put" }}, target, Params{TTL: ttl})
	if err != nil || i.Proof().Proven {
		t.Fatalf("a database that was not filled is proven full: %v, %v", i, err)
	}
	numb, asked := true, func() {}
	i, err = FillQuota.Inject(t.Context(), numbEtcd{c, func(method string, req any) bool {
		if !numb || !disarms(method, req) {
			return false
		}
		asked()
		return true
	}}, target, Params{TTL: ttl})
	if err != nil || !i.Proof().Proven {
		t.Fatalf("%v, %v", i, err)
	}
	t.Log(i.Proof().What, "in", i.Proof().Effect.Sub(i.Proof().Called))
	if again, err := FillQuota.Inject(t.Context(), c, target, Params{TTL: ttl}); err != nil || again.Proof().Proven {
		t.Errorf("filled twice: %v, %v", again, err)
	}
	ctx, cancel := withTimeout(t, time.Minute)
	defer cancel()
	asked = func() { time.AfterFunc(time.Second, cancel) }
	if healed, err := i.Heal(ctx); err != nil || healed.Proven {
		t.Errorf("healing that left the alarm is proven: %+v, %v", healed, err)
	}
	numb = false
	healed, err := i.Heal(t.Context())
	if err != nil || !healed.Proven || !strings.Contains(healed.What, "accepts a write") {
		t.Fatalf("%+v, %v", healed, err)
	}
	t.Log(healed.What, "in", healed.Effect.Sub(healed.Called))
	for _, m := range c.members {
		if size := m.Server.Backend().Size(); size > 8<<20 {
			t.Errorf("a database still has %s", mebibytes(size))
		}
	}
}

// TestFreeSpaceSlowly: compacting a large database takes longer than other requests may.
func TestFreeSpaceSlowly(t *testing.T) {
	t.Parallel()
	c := operateEtcd(t)
	err := onMembers(numbEtcd{c, func(method string, _ any) bool {
		if method == "Compact" {
			time.Sleep(members.TryLimit + 100*time.Millisecond)
		}
		return false
	}}, func(all members.All) error { return all[:1].FreeSpace(t.Context(), fillPrefix) })
	if err != nil {
		t.Error(err)
	}
}

// TestFillQuotaInTime: nothing is written once the nodes undo it.
func TestFillQuotaInTime(t *testing.T) {
	t.Parallel()
	c := operateEtcd(t, func(config *embed.Config) { config.QuotaBackendBytes = 24 << 20 })
	if i, err := FillQuota.Inject(t.Context(), c, c.resolve(t, "etcd/1"), Params{TTL: time.Millisecond}); err == nil || !strings.Contains(err.Error(), "not full within 1ms") {
		t.Errorf("it is to be filled in a millisecond: %v, %v", i, err)
	}
}

func TestFillQuotaTooLarge(t *testing.T) {
	t.Parallel()
	c := operateEtcd(t)
	_, err := FillQuota.Inject(t.Context(), c, c.resolve(t, "etcd/1"), Params{TTL: ttl})
	if err == nil || !strings.Contains(err.Error(), "quota-backend-bytes") || !strings.Contains(err.Error(), "2048.0 MiB") {
		t.Errorf("the default quota: %v", err)
	}
}
