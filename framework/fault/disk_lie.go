package fault

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework"
)

// DiskLie makes the disk under an etcd member acknowledge syncs that it does not
// carry out.
var DiskLie = onDisk(&Fault{
	Name:    "disk-lie",
	Summary: "makes the disk under an etcd member acknowledge each sync without making anything durable, like a drive with an unreported write cache; the damage shows only when power is lost (power-off unsynced=drop). Healing writes the cache out",
	Example: "etcd/1",
}, func(Request) (badness, error) {
	return badness{fault: framework.DiskFault{Lie: true}, what: "lying disk", shows: func(probe framework.DiskProbe, count framework.DiskCounters) (bool, string) {
		lied := probe.Sync.Done && probe.Sync.Error == "" && probe.Unsynced
		return lied && count.Lied > 0, fmt.Sprintf("%s; the disk has lied about %d syncs", probed(probe), count.Lied)
	}}, nil
})
