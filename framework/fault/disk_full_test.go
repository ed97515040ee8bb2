package fault

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestDiskFull(t *testing.T) {
	for name, params := range map[string]map[string]string{"at once": nil, "soon": {"free": "1Mi"}} {
		t.Run(name, func(t *testing.T) {
			proofs{fault: DiskFull, target: component("node-2", framework.Etcd), params: params, broken: badDiskNow, already: noEtcd}.run(t)
		})
	}
	diskRefusals(t, DiskFull, map[string]string{"free=-1": "from 0 to 1Ti", "free=much": "from 0 to 1Ti"})
	synctest.Test(t, func(t *testing.T) {
		i, err := DiskFull.Inject(t.Context(), newFake(framework.Etcd), component("node-2", framework.Etcd), Params{TTL: ttl, Values: map[string]string{"free": "2Gi"}})
		if err != nil || i.Proof().Proven || !strings.Contains(i.Proof().What, "nothing was injected") {
			t.Errorf("more was left than there is: %v, %v", i, err)
		}
	})
}
