package fault

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestBoard(t *testing.T) {
	bubble := func(name string, f func(*testing.T, *fakeCluster, *Board, *[]Entry)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFake(framework.APIServer, framework.ControllerManager, framework.Scheduler)
				time.Sleep(time.Minute)
				var told []Entry
				f(t, c, NewBoard(c, func(e Entry) { told = append(told, e) }), &told)
			})
		})
	}
	inject := func(t *testing.T, b *Board, fault, on string, ttl time.Duration) Entry {
		t.Helper()
		e, err := b.Inject(t.Context(), fault, on, Params{TTL: ttl})
		if err != nil || e.Phase != Active {
			t.Fatalf("%s on %s: %+v, %v", fault, on, e, err)
		}
		return e
	}
	bubble("healed one by one, in any order", func(t *testing.T, c *fakeCluster, b *Board, _ *[]Entry) {
		inject(t, b, "kill", "apiserver/1", time.Hour)
		inject(t, b, "freeze", "scheduler/2", time.Hour)
		inject(t, b, "kill", "kcm/3", time.Hour)
		if n := len(b.Active()); n != 3 {
			t.Fatalf("%d active", n)
		}
		healed, err := b.Heal(t.Context(), "kill-2", "freeze-1")
		if err != nil || len(healed) != 2 || healed[0].ID != "kill-2" || healed[0].Phase != Healed || !healed[0].Healing.Proven {
			t.Fatalf("%+v, %v", healed, err)
		}
		if left := b.Active(); len(left) != 1 || left[0].ID != "kill-1" || state(c, 0, framework.APIServer).PID != 0 {
			t.Fatalf("%+v", left)
		}
		if healed, err = b.Heal(t.Context()); err != nil || len(healed) != 1 || len(b.Active()) != 0 || state(c, 0, framework.APIServer).PID == 0 {
			t.Fatalf("%+v, %v", healed, err)
		}
		inject(t, b, "kill", "apiserver/1", time.Hour)
		if _, err := b.Heal(t.Context(), "kill-3", "kill-1"); !errors.As(err, new(*Refused)) || !strings.Contains(err.Error(), "active: kill-3") || len(b.Active()) != 1 {
			t.Errorf("a name that is not active: %v", err)
		}
		_, _ = b.Heal(t.Context())
	})
	bubble("its time is over", func(t *testing.T, c *fakeCluster, b *Board, told *[]Entry) {
		inject(t, b, "freeze", "scheduler/2", time.Minute)
		stubborn := func(is bool) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.stubborn = is
		}
		stubborn(true) // what heals it is not there at first
		time.Sleep(2 * time.Minute)
		stubborn(false)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		last := (*told)[len(*told)-1]
		if len(b.Active()) != 0 || last.Phase != Healed || !last.Healing.Proven {
			t.Fatalf("active %+v, told %+v", b.Active(), *told)
		}
	})
	bubble("its effect ended before its time", func(t *testing.T, c *fakeCluster, b *Board, _ *[]Entry) {
		inject(t, b, "kill", "apiserver/1", time.Hour)
		if err := c.nodes[0].Start(t.Context(), framework.APIServer); err != nil {
			t.Fatal(err)
		}
		healed, err := b.Heal(t.Context())
		if err != nil || healed[0].Phase != Healed || healed[0].Effect.Proven || !strings.Contains(healed[0].Effect.What, "when it was to be healed") {
			t.Errorf("%+v, %v", healed, err)
		}
	})
	bubble("its rules were removed before its time was over", func(t *testing.T, c *fakeCluster, b *Board, told *[]Entry) {
		inject(t, b, "isolate", "node/2", time.Minute)
		c.mu.Lock()
		c.bypassed = true
		c.mu.Unlock()
		time.Sleep(4 * time.Minute)
		synctest.Wait()
		if last := (*told)[len(*told)-1]; last.Phase != Healed || last.Effect.Proven || !strings.Contains(last.Effect.What, "another program removed the rules") {
			t.Errorf("%+v", last)
		}
	})
	bubble("its effect ended with its time", func(t *testing.T, c *fakeCluster, b *Board, told *[]Entry) {
		inject(t, b, "kill", "apiserver/1", time.Minute)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if last := (*told)[len(*told)-1]; last.Phase != Healed || !last.Effect.Proven {
			t.Errorf("%+v", last)
		}
	})
	bubble("its node was removed", func(t *testing.T, c *fakeCluster, b *Board, _ *[]Entry) {
		inject(t, b, "power-off", "node/2", time.Hour)
		c.stubborn = true
		if healed, err := b.Heal(t.Context()); err != nil || healed[0].Phase != Active {
			t.Errorf("while it is there: %+v, %v", healed, err)
		}
		c.nodes = slices.Delete(c.nodes, 1, 2)
		healed, err := b.Heal(t.Context())
		if err != nil || healed[0].Phase != Healed || !strings.Contains(healed[0].Healing.What, "node-2 was removed from the cluster") || len(b.Active()) > 0 {
			t.Errorf("%+v, %v", healed, err)
		}
	})
	bubble("its node was removed, and what it did is in etcd", func(t *testing.T, c *fakeCluster, b *Board, _ *[]Entry) {
		c.nodes = slices.Delete(c.nodes, 1, 2)
		var refusal error
		own := &injection{target: Target{Node: "node-2"}, proof: Proof{Proven: true}, undo: func(context.Context) (Proof, error) { return Proof{}, refusal }}
		e := &posted{Entry: Entry{Fault: "fill-quota", Target: own.target, Phase: Active, Expires: time.Now().Add(time.Hour)}, injection: own, onNode: true, promised: true}
		b.post(e)
		refusal = errors.New("etcd has no leader")
		if healed, err := b.heal(t.Context(), e); err == nil || healed.Phase != Active {
			t.Errorf("not undone: %+v, %v", healed, err)
		}
		refusal = nil
		if healed, err := b.heal(t.Context(), e); err != nil || healed.Phase == Active {
			t.Errorf("undone: %+v, %v", healed, err)
		}
	})
	bubble("no effect", func(t *testing.T, c *fakeCluster, b *Board, _ *[]Entry) {
		c.inert = true
		e, err := b.Inject(t.Context(), "kill", "apiserver/1", Params{TTL: time.Hour})
		if err != nil || e.Phase != Unproven || len(b.Active()) != 0 {
			t.Fatalf("%+v, %v", e, err)
		}
	})
	bubble("who asked is gone", func(t *testing.T, c *fakeCluster, b *Board, _ *[]Entry) {
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("hung up")
		cancel(gone)
		_, err := b.Inject(ctx, "freeze", "scheduler/2", Params{TTL: time.Hour})
		if !errors.Is(err, gone) || len(b.Active()) != 0 || state(c, 1, framework.Scheduler).State == "T" {
			t.Fatalf("%v, active %+v", err, b.Active())
		}
	})
	bubble("refused", func(t *testing.T, c *fakeCluster, b *Board, told *[]Entry) {
		for _, bad := range []struct {
			fault, on, want string
			p               Params
		}{
			{"melt", "node/1", `"melt" is not a fault: want one of`, Params{TTL: time.Hour}},
			{"kill", "pod/1", "not a kind of target", Params{TTL: time.Hour}},
			{"kill", "etcd/1", "none of its nodes runs an etcd member", Params{TTL: time.Hour}},
			{"kill", "apiserver/1", "above zero", Params{}},
			{"kill", "apiserver/1", "true or false", Params{TTL: time.Hour, Values: map[string]string{"restart": "7"}}},
		} {
			_, err := b.Inject(t.Context(), bad.fault, bad.on, bad.p)
			if !errors.As(err, new(*Refused)) || !strings.Contains(err.Error(), bad.want) {
				t.Errorf("%s on %s: %v", bad.fault, bad.on, err)
			}
		}
		if c.asked != 0 || len(*told) != 0 {
			t.Errorf("asked %d times, told %v", c.asked, *told)
		}
		if _, err := b.Inject(t.Context(), "kill", "scheduler/active", Params{TTL: time.Hour}); errors.As(err, new(*Refused)) || !errors.Is(err, errNoInstance) {
			t.Errorf("nobody is active: %v", err)
		}
	})
}
