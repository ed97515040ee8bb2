package fault

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// longEnough is how long an operation must go unanswered to be proof of a longer
// delay.
const longEnough = 2 * time.Second

// DiskSlow delays operations of the disk under an etcd member.
var DiskSlow = onDisk(&Fault{
	Name:    "disk-slow",
	Summary: "delays operations of the disk under an etcd member",
	Params: []Param{
		diskOpParam(framework.DiskFsync),
		durationParam("delay", "time added to each operation", 100*time.Millisecond, time.Millisecond, time.Minute),
		durationParam("jitter", "how much the delay varies, up and down, evenly; no more than delay", 0, 0, time.Minute),
	},
	Example: "etcd/leader op=fsync delay=250ms jitter=50ms",
}, func(r Request) (badness, error) {
	fault := framework.DiskFault{Op: framework.DiskOp(Value[string](r, "op")), Delay: Value[time.Duration](r, "delay"), Jitter: Value[time.Duration](r, "jitter")}
	if fault.Jitter > fault.Delay {
		return badness{}, r.bad("jitter", "a duration from 0s to delay, %s", fault.Delay)
	}
	return badness{fault: fault, what: "slow disk", shows: slowed(fault)}, nil
})

// slowed shows that a probe took at least the delay, and that each operation was delayed, except
// those that began between two readings of the counters.
func slowed(fault framework.DiskFault) evidence {
	least := min(fault.Delay-fault.Jitter, longEnough)
	return func(probe framework.DiskProbe, count framework.DiskCounters) (bool, string) {
		slow := slices.ContainsFunc(touched(fault.Op, probe), func(s namedStep) bool { return s.Took >= least && s.Took > 0 })
		return slow && count.Delayed > 0 && count.Delayed+shareSlack >= count.Matched,
			fmt.Sprintf("%s on a disk that adds %s to each %s and has delayed %d of %d", probed(probe), fault.Delay, opWord(fault.Op), count.Delayed, count.Matched)
	}
}

func opWord(op framework.DiskOp) string {
	if op == framework.DiskAll {
		return "operation"
	}
	return string(op)
}
