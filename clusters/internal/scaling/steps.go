package scaling

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// AddLearner makes the step that adds a node's member, which does not vote yet. Cancelled, it would
// leave a proposal that the members may still commit; the change may be interrupted after it.
func AddLearner(ctx context.Context, all Members, node, url string) error {
	return framework.DoStep(context.WithoutCancel(ctx), node, record.StepLearner, func(ctx context.Context) (string, error) {
		if err := all.AddLearner(ctx, url); err != nil {
			return "", err
		}
		return all.listed(ctx)
	})
}

// Promote makes the step that gives a node's member its vote.
func Promote(ctx context.Context, all Members, node, url string) error {
	return framework.DoStep(ctx, node, record.StepPromote, func(ctx context.Context) (string, error) {
		if err := all.Promote(ctx, url); err != nil {
			return "", err
		}
		return all.listed(ctx)
	})
}

// TakeOut makes the steps that remove a node's member, which first transfers its leadership, and
// stop it: API servers may use members of other nodes. n is nil if the node cannot be reached. Once
// the member is removed, the removal cannot be undone.
func TakeOut(ctx context.Context, all Members, node, url string, n Node) error {
	err := framework.DoStep(ctx, node, record.StepLeader, func(ctx context.Context) (string, error) {
		return "another etcd member leads", all.HandOn(ctx, node)
	})
	if err != nil {
		return err
	}
	return framework.DoStep(framework.Uninterrupted(ctx), node, record.StepRemove, func(ctx context.Context) (string, error) {
		if err := all.Remove(ctx, url); err != nil {
			return "", err
		}
		// Nothing that fails from here on takes the removal back.
		left, err := all.listed(ctx)
		if err != nil {
			left = fmt.Sprintf("etcd confirmed the removal, and did not list its members afterwards: %v", err)
		}
		if n != nil {
			_ = stop(ctx, n, framework.Etcd) // its machine goes next
		}
		return left, nil
	})
}

// Remove removes a node. takeOut does everything except the machine and registers how to undo
// it, which Remove does if takeOut fails. After that the removal cannot be undone. discard
// removes what else is left of the node, and returns what shows it.
func Remove(ctx context.Context, cluster, node string, takeOut func(context.Context, *Undo) error, discard func(context.Context) (string, error)) error {
	var back Undo
	if err := takeOut(ctx, &back); err != nil {
		return fmt.Errorf("failed to remove node %s from cluster %s: %w", node, cluster, errors.Join(err, back.All(ctx)))
	}
	if err := framework.DoStep(framework.Uninterrupted(ctx), node, record.StepDiscard, discard); err != nil {
		return fmt.Errorf("node %s is removed from cluster %s, but parts of it remain: %w", node, cluster, err)
	}
	return nil
}

// listed describes the members as a quorum knows them after a change.
func (all Members) listed(ctx context.Context) (string, error) {
	list, err := all.listAfterChange(ctx)
	voters := 0
	for _, m := range list {
		if !m.IsLearner {
			voters++
		}
	}
	return fmt.Sprintf("etcd has %d members, %d of which vote", len(list), voters), err
}
