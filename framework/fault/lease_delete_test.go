package fault

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestLeaseDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newAPI(t)
		target := component("node-1", framework.ControllerManager)
		if i, err := LeaseDelete.Inject(t.Context(), c, target, Params{TTL: ttl}); err != nil || i.Proof().Proven {
			t.Errorf("a lease that is not there was deleted: %v, %v", i, err)
		}
		if err := LeaseDelete.Check(promisingAPI{c, &nodesPromise{}}, target, Params{TTL: ttl}); err != nil {
			t.Errorf("with the agreement of the cluster's owner: %v", err)
		}
		refuses := promisingAPI{c, &nodesPromise{fails: errRefuses}}
		if err := LeaseDelete.Check(refuses, target, Params{TTL: ttl}); !errors.As(err, new(*MissingAbility)) || !strings.Contains(err.Error(), errRefuses.Error()) {
			t.Errorf("against the will of the cluster's owner: %v", err)
		}
		c.candidate(t)
		c.swallow(http.MethodDelete)
		if i, err := LeaseDelete.Inject(soon(t), c, target, Params{TTL: ttl}); err != nil || i.Proof().Proven {
			t.Errorf("a lease that was not deleted is proven gone: %v, %v", i, err)
		}
		c.hookAll(nil)
		i, err := LeaseDelete.Inject(t.Context(), c, target, Params{TTL: ttl})
		if err != nil || !i.Proof().Proven {
			t.Fatalf("%v, %v", i, err)
		}
		t.Log(i.Proof().What)
		healed, err := i.Heal(t.Context())
		if err != nil || !healed.Proven {
			t.Fatalf("%+v, %v", healed, err)
		}
		t.Log(healed.What)
	})
}
