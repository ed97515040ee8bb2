package fault

import (
	"context"
	"encoding/binary"
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

// TestInsideRecord: damage is within the data of a record, not in a length.
func TestInsideRecord(t *testing.T) {
	var log []byte
	add := func(size int) (start int) {
		padding := (8 - size%8) % 8
		word := uint64(size)
		if padding > 0 {
			word |= uint64(0x80|padding) << 56
		}
		log = binary.LittleEndian.AppendUint64(log, word)
		start = len(log)
		log = append(log, make([]byte, size+padding)...)
		return start
	}
	for range 17 {
		add(237) // up to 4216
	}
	add(32)
	want := add(101)
	log = append(log, make([]byte, 512)...) // not written yet
	if offset, ok := insideRecord(log, 16); !ok || offset != int64(want+42) {
		t.Errorf("%d, %t, want %d", offset, ok, want+42)
	}
	if offset, ok := insideRecord(log, 51); ok {
		t.Errorf("%d, of a record that is too short", offset)
	}
	if offset, ok := insideRecord(log[:want+50], 16); ok {
		t.Errorf("%d, of a record that was not read whole", offset)
	}
}
