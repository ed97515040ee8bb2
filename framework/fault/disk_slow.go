package fault

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// DiskSlow delays operations of the disk under an etcd member.
var DiskSlow Fault = diskSlow{}

type diskSlow struct{}

func (diskSlow) Name() string { return "disk-slow" }

func (diskSlow) Doc() Doc {
	return Doc{
		Summary: "delays operations of the disk under an etcd member",
		Targets: []string{"etcd"},
		Params: map[string]string{
			"op":     diskOpDoc + "; default fsync",
			"delay":  "time added to each operation, from 1ms to 1m; default 100ms",
			"jitter": "how much the delay varies, up and down, evenly; from 0s to delay; default 0s",
		},
		Needs:   []string{diskNeeds, "ProcessReporter"},
		Example: "etcd/leader op=fsync delay=250ms jitter=50ms",
	}
}

func (f diskSlow) Check(c framework.Cluster, t Target, p Params) error {
	_, _, err := f.parts(c, t, p)
	return err
}

func (f diskSlow) parts(c framework.Cluster, t Target, p Params) (d badDisk, fault framework.DiskFault, err error) {
	if d, err = newBadDisk(f, c, t, p); err != nil {
		return
	}
	if fault.Op, err = diskOpParam(f, p, framework.DiskFsync); err != nil {
		return
	}
	if fault.Delay, err = durationParam(f, p, "delay", 100*time.Millisecond, time.Millisecond, time.Minute); err != nil {
		return
	}
	fault.Jitter, err = durationParam(f, p, "jitter", 0, 0, fault.Delay)
	return
}

// longEnough is how long an operation must go unanswered to be proof of a longer
// delay.
const longEnough = 2 * time.Second

func (f diskSlow) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	d, fault, err := f.parts(c, t, p)
	if err != nil {
		return nil, err
	}
	least := min(fault.Delay-fault.Jitter, longEnough)
	return d.inject(ctx, fault, "slow disk", p.TTL, func(probe framework.DiskProbe, count framework.DiskCounters) (bool, string) {
		slow := slices.ContainsFunc(touched(fault.Op, probe), func(s namedStep) bool { return s.Took >= least && s.Took > 0 })
		return slow && count.Delayed > 0, fmt.Sprintf("%s on a disk that adds %s to each %s and has delayed %d", probed(probe), fault.Delay, opWord(fault.Op), count.Delayed)
	})
}

// touched returns the steps of a probe on which a fault of these operations acts.
func touched(op framework.DiskOp, p framework.DiskProbe) []namedStep {
	all := steps(p)
	switch op {
	case framework.DiskWrite:
		return all[:1]
	case framework.DiskFsync:
		return all[1:2]
	case framework.DiskRead:
		return all[2:]
	}
	return all
}

func opWord(op framework.DiskOp) string {
	if op == framework.DiskAll {
		return "operation"
	}
	return string(op)
}
