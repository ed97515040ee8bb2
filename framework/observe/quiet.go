package observe

import (
	"context"
	"runtime"
	"time"

	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

const (
	// quietQueue is how many tasks may be runnable per CPU on a quiet machine. With more,
	// measured times start to reflect the machine.
	quietQueue = 3
	// quietFor is for how long it must be so, on average.
	quietFor = time.Second
)

// Quiet waits until the machine has computing time to spare, for limit at most, and
// returns how long it waited: a cluster that has just started continues for some seconds
// with what its components do first.
func Quiet(ctx context.Context, limit time.Duration) time.Duration {
	began := time.Now()
	for time.Since(began) < limit && ctx.Err() == nil {
		var queue mean
		for second := time.Now(); time.Since(second) < quietFor && client.Pause(ctx, queueBeats*beat); {
			n, ok := runnable()
			if !ok {
				return 0
			}
			queue.add(float64(n) / float64(runtime.NumCPU()))
		}
		if queue.value() < quietQueue {
			break
		}
	}
	return time.Since(began)
}
