// Package await waits for conditions, and reports why one was not met, and for API servers.
//
// Its tests need nothing: go test ./clusters/internal/await
package await

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// fatalError ends Until immediately.
type fatalError struct{ error }

func (e fatalError) Unwrap() error { return e.error }

// Fatal turns an error into one that ends Until immediately.
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
		if f, ok := errors.AsType[fatalError](err); ok {
			return f.error
		}
		// An error caused by the end of ctx is less useful than the one before it.
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
