package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// locksTaken returns what is missing until every component that a supervisor elects runs on a
// node other than the fault's, which holds its lock.
func (r *run) locksTaken(ctx context.Context, id string) error {
	i, err := r.injection(id)
	if err != nil {
		return err
	}
	reporter, ok := r.cluster.(framework.LockReporter)
	if !ok || len(reporter.Locks()) == 0 {
		return fmt.Errorf("no component of cluster %s is elected by a supervisor", r.cluster.Name())
	}
	hit := r.hit()
	for _, c := range sortedKeys(reporter.Locks()) {
		t, err := fault.Resolve(ctx, r.cluster, string(c)+"/active")
		if err != nil {
			return err
		}
		if slices.Contains(i.nodes(), t.Node) || slices.Contains(hit, t.Node) {
			return fmt.Errorf("the lock of %s is held by %s", c, t.Node)
		}
	}
	return nil
}
