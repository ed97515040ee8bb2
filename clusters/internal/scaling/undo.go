package scaling

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// undoLimit is how long the rollback of a failed change may take.
const undoLimit = 30 * time.Second

// Undo rolls back the steps of a change, the last one first.
type Undo []func(context.Context) error

// Add adds the rollback of a step that comes next, or has been taken.
func (u *Undo) Add(step func(context.Context) error) { *u = append(*u, step) }

// All rolls back everything, also after ctx has ended.
func (u Undo) All(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	var left []error
	for _, step := range slices.Backward(u) {
		if err := step(ctx); err != nil {
			left = append(left, err)
		}
	}
	if err := errors.Join(left...); err != nil {
		return fmt.Errorf("not all of it could be undone: %w", err)
	}
	return nil
}
