package fault

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework"
)

// DiskError makes operations of the disk under an etcd member fail.
var DiskError Fault = diskError{}

type diskError struct{}

func (diskError) Name() string { return "disk-error" }

func (diskError) Doc() Doc {
	return Doc{
		Summary: "makes operations of the disk under an etcd member fail; etcd ends when it cannot write or sync, and its process watcher starts it again",
		Targets: []string{"etcd"},
		Params: map[string]string{
			"op":    diskOpDoc + "; default all",
			"error": "EIO (default), or EROFS, with which only writes fail (op=write or op=all)",
			"share": "share of the operations that fail, above 0% and up to 100%; default 100%",
		},
		Needs:   []string{diskNeeds, "ProcessReporter"},
		Example: "etcd/follower op=fsync error=EIO share=10%",
	}
}

func (f diskError) Check(c framework.Cluster, t Target, p Params) error {
	_, _, err := f.parts(c, t, p)
	return err
}

func (f diskError) parts(c framework.Cluster, t Target, p Params) (d badDisk, fault framework.DiskFault, err error) {
	if d, err = newBadDisk(f, c, t, p); err != nil {
		return
	}
	if fault.Op, err = diskOpParam(f, p, framework.DiskAll); err != nil {
		return
	}
	if fault.Error, err = choiceParam(f, p, "error", "EIO", "EROFS"); err != nil {
		return
	}
	if fault.Error == "EROFS" {
		if fault.Op != framework.DiskAll && fault.Op != framework.DiskWrite {
			return d, fault, badParam(f, p, "op", "write or all with error=EROFS, which only writes return")
		}
		fault.Op = framework.DiskWrite
	}
	if fault.Share, err = shareParam(f, p, "share", 1); err == nil && fault.Share == 0 {
		err = badParam(f, p, "share", "above 0%%: nothing would fail")
	}
	return
}

func (f diskError) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	d, fault, err := f.parts(c, t, p)
	if err != nil {
		return nil, err
	}
	return d.inject(ctx, fault, "failing disk", p.TTL, func(probe framework.DiskProbe, count framework.DiskCounters) (bool, string) {
		failed := slices.ContainsFunc(touched(fault.Op, probe), func(s namedStep) bool { return s.Error == fault.Error })
		return failed && count.Failed > 0, fmt.Sprintf("%s on a disk that has failed %d of %d operations with %s", probed(probe), count.Failed, count.Matched, fault.Error)
	})
}
