package client

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Until repeats what fails, and returns the last error that the end of the context did not cause.
func TestUntil(t *testing.T) {
	for name, tt := range map[string]struct {
		limit time.Duration
		do    func(ctx context.Context, n int) error
		tries int
		want  string
	}{
		"succeeds": {time.Minute, func(_ context.Context, n int) error {
			if n < 3 {
				return errors.New("not yet")
			}
			return nil
		}, 3, "<nil>"},
		"fails": {2500 * time.Millisecond, func(_ context.Context, n int) error { return fmt.Errorf("try %d", n) }, 3, "try 3"},
		"is cut short": {1500 * time.Millisecond, func(ctx context.Context, n int) error {
			if n < 2 {
				return errors.New("refused")
			}
			<-ctx.Done()
			return ctx.Err()
		}, 2, "refused"},
		"is cut short the first time": {time.Second, func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return ctx.Err()
		}, 1, "context deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tt.limit)
				defer cancel()
				tries := 0
				err := Until(ctx, time.Second, func(ctx context.Context) error {
					tries++
					return tt.do(ctx, tries)
				})
				if got := fmt.Sprint(err); got != tt.want || tries != tt.tries {
					t.Errorf("%s after %d tries, want %s after %d", got, tries, tt.want, tt.tries)
				}
			})
		})
	}
}
