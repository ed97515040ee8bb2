package fault

import (
	"net/http"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestLeaseSteal(t *testing.T) {
	t.Parallel()
	c := newAPI(t)
	target := component("node-1", framework.ControllerManager)
	c.candidate(t)
	c.swallow(http.MethodPut)
	if i, err := LeaseSteal.Inject(soon(t), c, target, Params{TTL: ttl}); err != nil || i.Proof().Proven {
		t.Errorf("a lease that was not stolen is proven so: %v, %v", i, err)
	}
	c.hookAll(nil)
	i, err := LeaseSteal.Inject(t.Context(), c, target, Params{TTL: ttl})
	if err != nil || !i.Proof().Proven {
		t.Fatalf("%v, %v", i, err)
	}
	t.Log(i.Proof().What)
	if again, err := LeaseSteal.Inject(t.Context(), c, target, Params{TTL: ttl}); err != nil || again.Proof().Proven {
		t.Errorf("stolen twice: %v, %v", again, err)
	}
	c.swallow(http.MethodPut)
	if healed, err := i.Heal(soon(t)); err != nil || healed.Proven {
		t.Errorf("a lease that was not given up is proven so: %+v, %v", healed, err)
	}
	c.hookAll(nil)
	healed, err := i.Heal(t.Context())
	if err != nil || !healed.Proven || !strings.Contains(healed.What, "node-1_a") {
		t.Fatalf("%+v, %v", healed, err)
	}
	// A lease that cannot be read at the first attempt to heal it is still stolen.
	if i, err = LeaseSteal.Inject(t.Context(), c, target, Params{TTL: ttl}); err != nil || !i.Proof().Proven {
		t.Fatalf("%v, %v", i, err)
	}
	c.hookAll(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	if healed, err := i.Heal(soon(t)); err == nil && healed.Proven {
		t.Errorf("healed without an API server: %+v", healed)
	}
	c.hookAll(nil)
	if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven || !i.Proof().Proven {
		t.Errorf("%+v, %v; %+v", healed, err, i.Proof())
	}
	if _, err := LeaseSteal.Inject(t.Context(), c, target, Params{TTL: time.Second, Values: map[string]string{"renew": "false"}}); err != nil {
		t.Fatal(err)
	}
	l := leaseObject{c, "kube-controller-manager"}
	if _, held, seen := await(t.Context(), time.Minute, l.held(func(x *coordinationv1.Lease) bool { return text(x.Spec.HolderIdentity) == stranger })); !held {
		t.Errorf("the theft outlived its time to live: %s", seen)
	}
}
