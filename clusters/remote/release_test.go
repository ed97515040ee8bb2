package remote

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestAwaitUnused: an agent whose harness was killed is waited for, a slow login is not cut off, and what
// does not get better has its own error.
func TestAwaitUnused(t *testing.T) {
	unreachable := errors.New("failed to reach node-1")
	for name, tc := range map[string]struct {
		login    time.Duration // of each try
		used     time.Duration // until the agent no longer looks used
		problem  error         // of each try
		want     error
		min, max time.Duration
	}{
		"unused":                {},
		"used by a killed run":  {used: 2 * pingEach, min: 2 * pingEach, max: 2*pingEach + time.Second},
		"used by another run":   {used: time.Hour, want: ErrUnsafe, min: 3 * pingEach, max: 3*pingEach + 2*time.Second},
		"a slow login":          {login: 12 * time.Second, min: 12 * time.Second, max: 12 * time.Second},
		"no login in ssh's 10s": {login: 10 * time.Second, problem: unreachable, want: unreachable, min: 20 * time.Second, max: 21 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				err := awaitUnused(t.Context(), func(context.Context) error {
					time.Sleep(tc.login)
					if time.Since(began) < tc.used {
						return fmt.Errorf("%w: another run uses the agent", ErrUnsafe)
					}
					return tc.problem
				})
				if took := time.Since(began); !errors.Is(err, tc.want) || took < tc.min || took > tc.max {
					t.Errorf("after %s: %v, want %v after %s to %s", took, err, tc.want, tc.min, tc.max)
				}
			})
		})
	}
}
