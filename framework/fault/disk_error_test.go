package fault

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestDiskError(t *testing.T) {
	for name, params := range map[string]map[string]string{
		"default":   nil,
		"some":      {"op": "fsync", "share": "10%"},
		"read only": {"error": "EROFS"},
	} {
		t.Run(name, func(t *testing.T) {
			proofs{fault: DiskError, target: component("node-2", framework.Etcd), params: params, broken: badDiskNow, already: noEtcd}.run(t)
		})
	}
	diskRefusals(t, DiskError, map[string]string{
		"op=none":              "one of all, fsync, read, write",
		"error=ENOENT":         "one of EIO, EROFS",
		"error=EROFS op=fsync": "write or all",
		"share=130%":           "above 0% up to 100%",
		"share=0":              "above 0%",
	})
}

// TestDiskErrorRare: a fault that only few operations meet has the time until one of a probe does.
func TestDiskErrorRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFake(framework.Etcd)
		time.Sleep(time.Minute)
		params := map[string]string{"op": "fsync", "share": "0.5%"}
		i, err := DiskError.Inject(t.Context(), c, component("node-2", framework.Etcd), Params{TTL: ttl, Values: params})
		if err != nil || !i.Proof().Proven {
			t.Fatalf("%v, %v", i, err)
		}
		if took := i.Proof().Effect.Sub(i.Proof().Called); took > effectLimit+DiskError.TakesWith(params) || DiskError.TakesWith(nil) != 0 {
			t.Errorf("it took %s, and is expected to take up to %s longer than others", took, DiskError.TakesWith(params))
		}
	})
}
