package fault

import (
	"strings"
	"testing"
)

func TestRestoreSnapshot(t *testing.T) {
	t.Parallel()
	c := operateEtcd(t)
	target := c.resolve(t, "etcd/any")
	p := Params{TTL: ttl, Values: map[string]string{"age": "0s"}}
	c.numb = true
	short, cancel := withTimeout(t, 3*startTime)
	defer cancel()
	i, err := RestoreSnapshot.Inject(short, c, target, p)
	if err != nil || i.Proof().Proven {
		t.Fatalf("a snapshot that was not restored is proven: %v, %v", i, err)
	}
	c.numb = false
	i, err = RestoreSnapshot.Inject(t.Context(), c, target, p)
	if err != nil || !i.Proof().Proven {
		t.Fatalf("%v, %v", i, err)
	}
	t.Log(i.Proof().What)
	before := c.nodes[1].processes["kube-apiserver"].PID
	healed, err := i.Heal(t.Context())
	if err != nil || !healed.Proven || !strings.Contains(healed.What, "/readyz through entrance node-3") {
		t.Fatalf("%+v, %v", healed, err)
	}
	if now := c.nodes[1].processes["kube-apiserver"].PID; now == before {
		t.Error("an API server that knows of the lost future was not restarted")
	}
	if err := RestoreSnapshot.Check(c, target, Params{TTL: ttl, Values: map[string]string{"age": "1h"}}); err == nil {
		t.Error("age=1h: accepted")
	}
}
