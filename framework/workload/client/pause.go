package client

import (
	"context"
	"time"
)

// Pause waits for d and reports whether ctx still lasts.
func Pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// Until calls do until it succeeds or ctx ends, with pauses. It returns do's last error; one of a
// call that the end of ctx cut short only if it is the first.
func Until(ctx context.Context, pause time.Duration, do func(context.Context) error) (last error) {
	for {
		err := do(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		if !Pause(ctx, pause) {
			return last
		}
	}
}
