package fault

import "testing"

func TestDefragment(t *testing.T) {
	// Not in parallel: members in one process share their counters with other tests.
	c := operateEtcd(t)
	target := c.resolve(t, "etcd/2")
	i, err := Defragment.Inject(soon(t), numbEtcd{c, func(method string, _ any) bool { return method == "Defragment" }}, target, Params{TTL: ttl})
	if err != nil || i.Proof().Proven {
		t.Fatalf("a defragmentation that did nothing is proven: %v, %v", i, err)
	}
	i, err = Defragment.Inject(t.Context(), c, target, Params{TTL: ttl})
	if err != nil || !i.Proof().Proven {
		t.Fatalf("%v, %v", i, err)
	}
	t.Log(i.Proof().What)
	if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven {
		t.Errorf("%+v, %v", healed, err)
	}
}
