package observe

import (
	"context"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

const (
	beat        = 10 * time.Millisecond
	harnessEach = time.Second
)

// harness measures how late the harness's own timers fire: a machine that
// starves the harness must not be taken for a cluster that is slow.
func (o *Observers) harness(context.Context) ([]func(context.Context), error) {
	return []func(context.Context){func(ctx context.Context) {
		var worst time.Duration
		timer := time.NewTimer(beat)
		defer timer.Stop()
		due, report := time.Now().Add(beat), time.Now().Add(harnessEach)
		for {
			select {
			case <-ctx.Done():
				// The last part of a second counts too.
				worst = max(worst, time.Since(due))
				o.log.add(record.KindHarness, record.Harness{Late: max(worst, 0)})
				return
			case <-timer.C:
			}
			now := time.Now()
			worst = max(worst, now.Sub(due))
			if !now.Before(report) {
				o.log.add(record.KindHarness, record.Harness{Late: worst})
				worst, report = 0, now.Add(harnessEach)
			}
			due = time.Now().Add(beat)
			timer.Reset(beat)
		}
	}}, nil
}
