package fault

import (
	"context"
	"fmt"

	"github.com/holdfast-ha/holdfast/framework"
)

// DiskFull fills the disk under an etcd member.
var DiskFull Fault = diskFull{}

type diskFull struct{}

func (diskFull) Name() string { return "disk-full" }

func (diskFull) Doc() Doc {
	return Doc{
		Summary: "fills the disk under an etcd member: writes, new files and allocations fail with ENOSPC, those into space that a file has already included, as on a thin or copy-on-write disk",
		Targets: []string{"etcd"},
		Params: map[string]string{
			"free": "bytes that can still be written before the disk is full, from 0 to 1Ti, such as 64Mi; default 0",
		},
		Needs:   []string{diskNeeds, "ProcessReporter"},
		Example: "etcd/2 free=1Mi",
	}
}

func (f diskFull) Check(c framework.Cluster, t Target, p Params) error {
	_, _, err := f.parts(c, t, p)
	return err
}

func (f diskFull) parts(c framework.Cluster, t Target, p Params) (d badDisk, fault framework.DiskFault, err error) {
	if d, err = newBadDisk(f, c, t, p); err != nil {
		return
	}
	fault.Full = true
	fault.Free, err = sizeParam(f, p, "free", 0, 0, 1<<40)
	return
}

func (f diskFull) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	d, fault, err := f.parts(c, t, p)
	if err != nil {
		return nil, err
	}
	before, err := d.probe(ctx)
	if err != nil {
		return nil, err
	}
	if before.Free <= fault.Free {
		return notInjected(t, "the disk of %s has only %d bytes left as it is", t.String(), before.Free), nil
	}
	return d.inject(ctx, fault, "full disk", p.TTL, func(probe framework.DiskProbe, count framework.DiskCounters) (bool, string) {
		seen := fmt.Sprintf("the disk says that %d bytes are left, after %d before; %s; it has refused %d of %d writes", probe.Free, before.Free, probed(probe), count.Failed, count.Matched)
		refused := probe.Write.Error == "ENOSPC" && count.Failed > 0
		// Until the space left is used up, only its size can be seen.
		return probe.Free <= fault.Free && (refused || fault.Free > 0), seen
	})
}
