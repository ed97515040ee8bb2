package fault

import (
	"errors"
	"strings"
	"testing"
)

func TestCompact(t *testing.T) {
	t.Parallel()
	c := operateEtcd(t)
	target := c.resolve(t, "etcd/leader")
	write := func() {
		for range 10 {
			if held, seen := etcdWrites(t.Context(), c, "node-1"); !held {
				t.Fatal(seen)
			}
		}
	}
	write()
	i, err := Compact.Inject(soon(t), numbEtcd{c, func(method string, _ any) bool { return method == "Compact" }}, target, Params{TTL: ttl})
	if err != nil || i.Proof().Proven {
		t.Fatalf("a compaction that did nothing is proven: %v, %v", i, err)
	}
	i, err = Compact.Inject(t.Context(), c, target, Params{TTL: ttl, Values: map[string]string{"keep": "5", "physical": "true"}})
	if err != nil || !i.Proof().Proven {
		t.Fatalf("%v, %v", i, err)
	}
	t.Log(i.Proof().What)
	if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven || !strings.Contains(healed.What, "nothing to undo") {
		t.Errorf("%+v, %v", healed, err)
	}
	if i, err = Compact.Inject(t.Context(), c, target, Params{TTL: ttl, Values: map[string]string{"keep": "6"}}); err != nil || i.Proof().Proven {
		t.Errorf("compacted what was compacted: %v, %v", i, err)
	}
	if i, err = Compact.Inject(t.Context(), c, target, Params{TTL: ttl, Values: map[string]string{"keep": "1000000"}}); err != nil || i.Proof().Proven {
		t.Errorf("compacted what is not there: %v, %v", i, err)
	}
	refuses := promisingEtcd{c, &nodesPromise{fails: errRefuses}}
	if err := Compact.Check(refuses, target, Params{TTL: ttl}); !errors.As(err, new(*MissingAbility)) || !strings.Contains(err.Error(), errRefuses.Error()) {
		t.Errorf("against the will of the cluster's owner: %v", err)
	}
	for name, value := range map[string]string{"keep": "-1", "physical": "maybe"} {
		if err := Compact.Check(c, target, Params{TTL: ttl, Values: map[string]string{name: value}}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
}
