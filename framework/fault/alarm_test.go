package fault

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework/members"
)

func TestAlarm(t *testing.T) {
	t.Parallel()
	c := operateEtcd(t)
	target := c.resolve(t, "etcd/follower")
	i, err := Alarm.Inject(soon(t), numbEtcd{c, activates}, target, Params{TTL: ttl})
	if err != nil || i.Proof().Proven {
		t.Fatalf("an alarm that was not raised is proven: %v, %v", i, err)
	}
	for _, kind := range []string{"NOSPACE", "CORRUPT"} {
		p := Params{TTL: ttl, Values: map[string]string{"type": kind}}
		numb := true
		i, err := Alarm.Inject(t.Context(), numbEtcd{c, func(method string, req any) bool { return numb && disarms(method, req) }}, target, p)
		if err != nil || !i.Proof().Proven {
			t.Fatalf("%s: %v, %v", kind, i, err)
		}
		t.Log(i.Proof().What)
		if kind == "CORRUPT" {
			err := onMember(c, target.Node, func(m members.Member) error {
				if _, err := m.Client.Put(t.Context(), probeKey, ""); !members.RefusedWith(err, rpctypes.ErrCorrupt) {
					t.Errorf("a write: %v", err)
				}
				_, err := m.Client.Get(t.Context(), probeKey)
				return err
			})
			if err != nil {
				t.Errorf("a linearizable read, which the alarm does not prevent: %v", err)
			}
		}
		if again, err := Alarm.Inject(t.Context(), c, target, p); err != nil || again.Proof().Proven || !strings.Contains(again.Proof().What, "nothing was injected") {
			t.Errorf("%s: raised twice: %v, %v", kind, again, err)
		}
		if healed, err := i.Heal(soon(t)); err != nil || healed.Proven {
			t.Errorf("%s: healing that did nothing is proven: %+v, %v", kind, healed, err)
		}
		numb = false
		if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven {
			t.Fatalf("%s: %+v, %v", kind, healed, err)
		}
	}
	if err := Alarm.Check(c, target, Params{TTL: ttl, Values: map[string]string{"type": "FIRE"}}); err == nil || !strings.Contains(err.Error(), "NOSPACE, CORRUPT") {
		t.Errorf("type=FIRE: %v", err)
	}
	if _, err := Alarm.Inject(t.Context(), c, target, Params{TTL: time.Second}); err != nil {
		t.Fatal(err)
	}
	if _, held, seen := await(t.Context(), time.Minute, func(ctx context.Context) (bool, string) { return etcdWrites(ctx, c, target.Node) }); !held {
		t.Errorf("the alarm outlived its time to live: %s", seen)
	}
}

// TestAlarmUnknown: an alarm that cannot be read at the first attempt to heal it is still one.
func TestAlarmUnknown(t *testing.T) {
	t.Parallel()
	c := operateEtcd(t)
	silent := false
	i, err := Alarm.Inject(t.Context(), silentEtcd{c, &silent}, c.resolve(t, "etcd/follower"), Params{TTL: ttl})
	if err != nil || !i.Proof().Proven {
		t.Fatalf("%v, %v", i, err)
	}
	silent = true
	if healed, err := i.Heal(soon(t)); err == nil && healed.Proven {
		t.Errorf("healed without etcd: %+v", healed)
	}
	silent = false
	if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven || !i.Proof().Proven {
		t.Errorf("%+v, %v; %+v", healed, err, i.Proof())
	}
}

// silentEtcd is a cluster whose etcd cannot be reached at times.
type silentEtcd struct {
	*operatedEtcd
	silent *bool
}

func (c silentEtcd) EtcdConfig(node string) (clientv3.Config, error) {
	if *c.silent {
		return clientv3.Config{}, errors.New("no route to host")
	}
	return c.operatedEtcd.EtcdConfig(node)
}

func TestEtcdAdministrationCheck(t *testing.T) {
	c := &operatedEtcd{etcdCluster: &etcdCluster{fakeCluster: newFake("etcd")}}
	member := component("node-1", "etcd")
	for _, f := range []*Fault{Alarm, Compact, Defragment, FillQuota, RemoveMember, RestoreSnapshot} {
		if err := f.Check(c, member, Params{TTL: ttl}); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
		for what, err := range map[string]error{
			"no time to live":   f.Check(c, member, Params{}),
			"unknown parameter": f.Check(c, member, Params{TTL: ttl, Values: map[string]string{"speed": "high"}}),
			"a whole node":      f.Check(c, wholeTarget("node-1"), Params{TTL: ttl}),
			"unknown node":      f.Check(c, component("node-9", "etcd"), Params{TTL: ttl}),
			"no access to etcd": f.Check(c.fakeCluster, member, Params{TTL: ttl}),
		} {
			if err == nil {
				t.Errorf("%s: %s: accepted", f.Name, what)
			}
		}
	}
	for _, f := range []*Fault{RemoveMember, RestoreSnapshot} {
		if err := f.Check(c.etcdCluster, member, Params{TTL: ttl}); err == nil || !strings.Contains(err.Error(), "EtcdOperator") {
			t.Errorf("%s without an operator: %v", f.Name, err)
		}
	}
	c.nodes = c.nodes[:1]
	if err := RemoveMember.Check(c, member, Params{TTL: ttl}); err == nil || !strings.Contains(err.Error(), "at least 3") {
		t.Errorf("the only member: %v", err)
	}
}
