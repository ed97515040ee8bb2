// Package await waits for what providers wait for: conditions, with the reason why one
// did not come true, and API servers.
//
// Its tests need nothing: go test ./clusters/internal/await
package await

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// fatalError ends Until at once.
type fatalError struct{ error }

func (e fatalError) Unwrap() error { return e.error }

// Fatal makes of an error one that ends Until at once.
func Fatal(err error) error { return fatalError{err} }

// Until calls try until it returns no error. When ctx ends first, or try returns a
// fatal error, it returns the last error of try.
func Until(ctx context.Context, every time.Duration, try func(context.Context) error) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var last error
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		var f fatalError
		if errors.As(err, &f) {
			return f.error
		}
		// What the end of ctx itself broke says less than what came before.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (gave up: %w)", last, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}
