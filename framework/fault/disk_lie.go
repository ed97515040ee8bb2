package fault

import (
	"context"
	"fmt"

	"github.com/holdfast-ha/holdfast/framework"
)

// DiskLie makes the disk under an etcd member acknowledge syncs that it does not
// carry out.
var DiskLie Fault = diskLie{}

type diskLie struct{}

func (diskLie) Name() string { return "disk-lie" }

func (diskLie) Doc() Doc {
	return Doc{
		Summary: "makes the disk under an etcd member acknowledge each sync and make nothing durable, as a drive does with a cache that it does not own up to; it shows when power is lost (power-off unsynced=drop). Healing writes the cache out",
		Targets: []string{"etcd"},
		Needs:   []string{diskNeeds, "ProcessReporter"},
		Example: "etcd/1",
	}
}

func (f diskLie) Check(c framework.Cluster, t Target, p Params) error {
	_, err := newBadDisk(f, c, t, p)
	return err
}

func (f diskLie) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	d, err := newBadDisk(f, c, t, p)
	if err != nil {
		return nil, err
	}
	return d.inject(ctx, framework.DiskFault{Lie: true}, "lying disk", p.TTL, func(probe framework.DiskProbe, count framework.DiskCounters) (bool, string) {
		lied := probe.Sync.Done && probe.Sync.Error == "" && probe.Unsynced
		return lied && count.Lied > 0, fmt.Sprintf("%s; the disk has lied about %d syncs", probed(probe), count.Lied)
	})
}
