package fault

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestDiskFlip(t *testing.T) {
	for name, already := range map[string]func(*fakeCluster){
		"no member": noEtcd,
		"flipped already": func(c *fakeCluster) {
			_, _ = c.nodes[1].FlipDisk(context.TODO(), framework.DiskFlip{File: boltFile, Bytes: 3}, ttl)
			c.asked = 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			proofs{fault: DiskFlip, target: component("node-2", framework.Etcd), params: map[string]string{"bytes": "3"}, broken: badDiskNow, already: already}.run(t)
		})
	}
	diskRefusals(t, DiskFlip, map[string]string{
		"bytes=0":        "from 1 to 1Mi",
		"offset=-5":      "from 0 to 1Ti",
		"restore=never":  "true or false",
		"file=../x":      "below etcd's data directory",
		"file=/etc/x":    "below etcd's data directory",
		"file=member/[x": "below etcd's data directory",
	})
}

// TestDiskFlipKept: permanent damage stays, and is reported.
func TestDiskFlipKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFake(framework.Etcd)
		time.Sleep(time.Minute)
		i, err := DiskFlip.Inject(t.Context(), c, component("node-2", framework.Etcd), Params{TTL: ttl, Values: map[string]string{"restore": "false"}})
		if err != nil || !i.Proof().Proven {
			t.Fatalf("%v, %v", i, err)
		}
		healed, err := i.Heal(t.Context())
		if err != nil || !healed.Proven || !strings.Contains(healed.What, "the damage stays, as requested") || !badDiskNow(c) {
			t.Errorf("%+v, %v", healed, err)
		}
	})
}
