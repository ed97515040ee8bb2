package scaling

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// Removal is how a provider removes a control-plane node.
type Removal struct {
	Cluster, Node string
	// Check returns an error if the cluster cannot continue without the node.
	Check func(context.Context) error
	// TakeOut does all of it but the machine, and adds what takes that back.
	TakeOut func(context.Context, *Undo) error
	// Forget takes the node out of the list of the cluster's nodes.
	Forget func()
	// Discard removes the machine and what else is left of the node, and returns what shows
	// it.
	Discard func(context.Context) (string, error)
}

// Do removes the node. Once it is taken out the cluster continues without it, and there is no
// way back.
func (r Removal) Do(ctx context.Context) error {
	var back Undo
	err := r.Check(ctx)
	if err != nil {
		err = framework.Untouched{Err: err}
	} else {
		err = r.TakeOut(ctx, &back)
	}
	if err != nil {
		return fmt.Errorf("removing node %s from cluster %s: %w", r.Node, r.Cluster, errors.Join(err, back.All(ctx)))
	}
	r.Forget()
	if err := framework.DoStep(framework.Uninterrupted(ctx), r.Node, record.StepDiscard, r.Discard); err != nil {
		return fmt.Errorf("node %s is removed from cluster %s, but something of it is left: %w", r.Node, r.Cluster, err)
	}
	return nil
}
