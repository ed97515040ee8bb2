package fault

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// supervisedEtcd has members whose supervisor always starts them with the same arguments.
type supervisedEtcd struct{ *operatedEtcd }

func (c supervisedEtcd) Nodes() (all []framework.Node) {
	for _, n := range c.operatedEtcd.Nodes() {
		all = append(all, supervisedNode{n.(*operatedNode)})
	}
	return all
}

type supervisedNode struct{ *operatedNode }

func (supervisedNode) CheckRejoin() error { return errors.New("its supervisor has the arguments") }

// A member that could not be started again is not removed.
func TestRemoveMemberRefused(t *testing.T) {
	c := supervisedEtcd{&operatedEtcd{etcdCluster: &etcdCluster{fakeCluster: newFake("etcd")}}}
	var missing *MissingAbility
	err := RemoveMember.Check(c, component("node-1", "etcd"), Params{TTL: ttl})
	if !errors.As(err, &missing) || missing.Ability != "EtcdOperator" || !strings.Contains(err.Error(), "node node-1 does not have: its supervisor has the arguments") {
		t.Errorf("a member that cannot be started again: %v", err)
	}
}

func TestRemoveMember(t *testing.T) {
	t.Parallel()
	c := operateEtcd(t)
	target := c.resolve(t, "etcd/leader")
	removes := func(method string, _ any) bool { return method == "MemberRemove" }
	i, err := RemoveMember.Inject(soon(t), numbEtcd{c, removes}, target, Params{TTL: ttl})
	if err != nil || i.Proof().Proven {
		t.Fatalf("a member that was not removed is proven gone: %v, %v", i, err)
	}
	i, err = RemoveMember.Inject(t.Context(), c, target, Params{TTL: ttl})
	if err != nil || !i.Proof().Proven {
		t.Fatalf("%v, %v", i, err)
	}
	t.Log(i.Proof().What)
	if again, err := RemoveMember.Inject(t.Context(), c, target, Params{TTL: ttl}); err != nil || again.Proof().Proven || !strings.Contains(again.Proof().What, "was not a member") {
		t.Errorf("removed twice: %v, %v", again, err)
	}
	c.numb = true
	short, cancel := withTimeout(t, 5*time.Second)
	defer cancel()
	if healed, err := i.Heal(short); err == nil && healed.Proven {
		t.Errorf("a member that was added and not started is proven healed: %+v", healed)
	}
	c.numb = false
	// It is a member without data now, which healing has to start.
	healed, err := i.Heal(t.Context())
	if err != nil || !healed.Proven || c.numbs == 0 {
		t.Fatalf("%+v, %v, %d orders ignored", healed, err, c.numbs)
	}
	t.Log(healed.What)
}
