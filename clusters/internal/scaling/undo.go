package scaling

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
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
		return fmt.Errorf("%w: %w", framework.ErrNotUndone, err)
	}
	return nil
}

// ErrStays is what to do about a node that could not be added, and stays.
var ErrStays = errors.New("remove the node (`holdfast scale`) when etcd has a quorum")

// Stays returns the error of a node that could not be added, and whose etcd member could not be
// removed. It remains a node of the cluster: its member may vote, and without its machine the
// quorum could be lost for good.
func Stays(node string, err error) error {
	return fmt.Errorf("%s stays in the cluster, but not behind the load balancer, since its etcd member could not be removed: %w: %w", node, err, ErrStays)
}
