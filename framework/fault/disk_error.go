package fault

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// DiskError makes operations of the disk under an etcd member fail.
var DiskError = onDisk(&Fault{
	Name:    "disk-error",
	Summary: "makes operations of the disk under an etcd member fail; etcd exits when it cannot write or sync, and its process watcher starts it again",
	Params: []Param{
		diskOpParam(framework.DiskAll),
		choiceParam("error", "what they fail with; with EROFS, which requires op=write or op=all, only writes fail", "EIO", "EROFS"),
		shareParam("share", "how many of the operations fail", 1),
	},
	Example: "etcd/follower op=fsync error=EIO share=10%",
	takes:   func(r Request) time.Duration { return rareLimit(Value[float64](r, "share")) - effectLimit },
}, func(r Request) (badness, error) {
	fault := framework.DiskFault{Op: framework.DiskOp(Value[string](r, "op")), Error: Value[string](r, "error"), Share: Value[float64](r, "share")}
	if fault.Error == "EROFS" {
		if fault.Op != framework.DiskAll && fault.Op != framework.DiskWrite {
			return badness{}, r.bad("op", "write or all with error=EROFS, which only writes return")
		}
		fault.Op = framework.DiskWrite
	}
	return badness{fault: fault, what: "failing disk", shows: failing(fault), patience: rareLimit(fault.Share)}, nil
})

// rareLimit is how long an injection waits until a probe fails, of which there are ten a second or more, if
// only a share of the operations do: one of ten times as many as fail on average.
func rareLimit(share float64) time.Duration {
	return min(max(effectLimit, time.Duration(float64(time.Second)/share)), 2*time.Minute)
}

// failing shows that a probe failed, and that chance explains how many operations did.
func failing(fault framework.DiskFault) evidence {
	return func(probe framework.DiskProbe, count framework.DiskCounters) (bool, string) {
		failed := slices.ContainsFunc(touched(fault.Op, probe), func(s namedStep) bool { return s.Error == fault.Error })
		of := hits{float64(count.Failed), float64(count.Matched), float64(count.Matched)}
		return failed && count.Failed > 0 && !of.unlikely(fault.Share),
			fmt.Sprintf("%s on a disk that has failed %d of %d operations with %s", probed(probe), count.Failed, count.Matched, fault.Error)
	}
}
