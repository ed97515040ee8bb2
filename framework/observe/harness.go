package observe

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

const (
	beat        = 10 * time.Millisecond
	harnessEach = time.Second
	// queueBeats is the number of beats between two checks of the run queue.
	queueBeats = 5
)

// harness measures how late the harness's own timers fire, how many tasks share a CPU, how much
// CPU time is used, and how often a CPU quota is used up: a machine that starves the harness or the
// cluster must not be taken for a cluster that is slow.
func (o *Observers) harness(context.Context) ([]func(context.Context), error) {
	return []func(context.Context){func(ctx context.Context) {
		var worst time.Duration
		var queue mean
		timer := time.NewTimer(beat)
		defer timer.Stop()
		due, report := time.Now().Add(beat), time.Now().Add(harnessEach)
		clock := newClockCheck()
		var used processors
		used.share()
		quotas := newQuotas()
		sample := func(now time.Time) record.Harness {
			busy, _ := used.share()
			return record.Harness{Late: max(worst, 0), Queue: queue.value(), Busy: busy, Throttled: quotas.share(), Jump: clock.jump(now)}
		}
		for beats := 0; ; beats++ {
			select {
			case <-ctx.Done():
				// The last part of a second counts too.
				worst = max(worst, time.Since(due))
				_ = o.w.Append(record.KindHarness, sample(time.Now()))
				return
			case <-timer.C:
			}
			now := time.Now()
			worst = max(worst, now.Sub(due))
			if beats%queueBeats == 0 {
				if n, ok := runnable(); ok {
					queue.add(float64(n) / float64(runtime.NumCPU()))
				}
			}
			if !now.Before(report) {
				_ = o.w.Append(record.KindHarness, sample(now))
				worst, queue, report = 0, mean{}, now.Add(harnessEach)
			}
			due = time.Now().Add(beat)
			timer.Reset(beat)
		}
	}}, nil
}

// runnable returns how many tasks of the machine run or wait for a CPU,
// the asking one not counted. Its source is the fourth field of /proc/loadavg,
// which is the whole machine's also inside namespaces.
func runnable() (n int, ok bool) {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, false
	}
	fields := strings.Fields(string(b))
	if len(fields) < 4 {
		return 0, false
	}
	running, _, _ := strings.Cut(fields[3], "/")
	n, err = strconv.Atoi(running)
	return max(n-1, 0), err == nil
}

// jumpFloor is the least difference between the clocks that counts as a jump: time
// synchronization moves the wall clock by less than a millisecond each second.
const jumpFloor = 10 * time.Millisecond

// clockCheck compares the wall clock with the monotonic one, which stops while the machine
// sleeps.
type clockCheck struct{ wall, monotonic time.Time }

func newClockCheck() *clockCheck {
	now := time.Now()
	return &clockCheck{wall: now.Round(0), monotonic: now}
}

// jump returns by how much more the wall clock has advanced since the last call.
func (c *clockCheck) jump(now time.Time) time.Duration {
	return c.compare(now.Round(0), now)
}

// compare takes the two readings of now apart; Round(0) strips the monotonic one.
func (c *clockCheck) compare(wall, now time.Time) time.Duration {
	jump := wall.Sub(c.wall) - now.Sub(c.monotonic)
	c.wall, c.monotonic = wall, now
	if jump.Abs() < jumpFloor {
		return 0
	}
	return jump
}

// mean gathers an average.
type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v float64) { m.sum += v; m.n++ }

func (m *mean) value() float64 {
	if m.n == 0 {
		return 0
	}
	return m.sum / float64(m.n)
}

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
