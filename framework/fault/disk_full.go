package fault

import (
	"fmt"

	"github.com/holdfast-ha/holdfast/framework"
)

// DiskFull fills the disk under an etcd member.
var DiskFull = orFilled(onDisk(&Fault{
	Name:    "disk-full",
	Summary: "fills the disk under an etcd member: writes, new files and allocations fail with ENOSPC, including writes into space that a file already occupies, as on a thin-provisioned or copy-on-write disk. On an existing cluster a file takes up the space of etcd's volume: writes into already allocated space still succeed there, so etcd may continue until it needs a new file",
	Params:  []Param{sizeParam("free", "bytes that can still be written before the disk is full", 0, 0, 1<<40)},
	Example: "etcd/2 free=1Mi",
}, func(r Request) (badness, error) {
	fault, had := framework.DiskFault{Full: true, Free: Value[int64](r, "free")}, int64(0)
	return badness{fault: fault, what: "full disk",
		already: func(before framework.DiskProbe) string {
			if had = before.Free; had <= fault.Free {
				return fmt.Sprintf("the disk of %s already has only %d bytes left", r.Target, had)
			}
			return ""
		},
		shows: func(probe framework.DiskProbe, count framework.DiskCounters) (bool, string) {
			seen := fmt.Sprintf("the disk reports %d bytes left (%d before); %s; it has refused %d of %d writes", probe.Free, had, probed(probe), count.Failed, count.Matched)
			refused := probe.Write.Error == "ENOSPC" && count.Failed > 0
			// Until the space left is used up, only its size can be seen.
			return probe.Free <= fault.Free && (refused || fault.Free > 0), seen
		}}, nil
}))
