package keeper

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-ha/holdfast/clusters/internal/scaling"
	"github.com/holdfast-ha/holdfast/framework"
)

// unfinished adds to the error of a change which step was the last complete one, and how to
// finish or undo the change.
func unfinished(ctx context.Context, r ChangeRequest, steps []framework.Step, err error) error {
	if r.Check {
		return err // nothing was touched
	}
	far := "no step was complete"
	if n := len(steps); n > 0 {
		last := steps[n-1]
		far = fmt.Sprintf("the last complete step, number %d, was %q", n, last.Name)
		if last.Node != "" {
			far += " on " + last.Node
		}
	}
	interrupted := ctx.Err() != nil
	if interrupted {
		far += ", and the next one may still complete"
	}
	if errors.Is(err, scaling.ErrStays) || strings.Contains(err.Error(), again) && !interrupted {
		return fmt.Errorf("%w; %s", err, far)
	}
	return fmt.Errorf("%w; %s; %s", err, far, r.remedy(interrupted))
}

const again = "run the same command again"

// remedy describes how to finish or undo a change that is not complete.
func (r ChangeRequest) remedy(interrupted bool) string {
	switch {
	case r.Version != "" && r.Etcd:
		return again + " to finish; etcd members do not return to a lower version"
	case r.Version != "":
		return again + " to finish, or upgrade each changed node to its old version to undo (kubeadm cannot downgrade)"
	case r.Save != "":
		return "no snapshot was saved, unless its file exists: " + again
	case r.Restore != "" && interrupted:
		return "a restore that has started continues: wait until `holdfast status` reports the cluster ready, or " + again + ", with --foreign if no etcd member answers"
	case r.Rotate == RotateCA && r.Undo:
		return again + " to return to the old CAs, or without --undo to complete their replacement"
	case r.Rotate == RotateCA:
		return again + " to finish, or with --undo to return to the old CAs"
	case r.Rotate != "":
		return again + " to finish; nothing has to be undone, because the CAs have not changed"
	case r.Nodes > 0:
		return "a node that could not be added is removed again; " + again + " to finish, or with the old number of nodes to undo"
	}
	return again
}
