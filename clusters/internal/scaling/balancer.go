package scaling

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/framework"
)

// AwaitBackends returns when the load balancer uses exactly the nodes of these names, and that
// of up, if given, is up. A balancer that cannot report its backends is not waited for.
func AwaitBackends(ctx context.Context, balancer framework.BackendReporter, want []string, up string) error {
	return await.Until(ctx, Pause, func(ctx context.Context) error {
		backends, err := balancer.Backends(ctx)
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			return nil
		case err != nil:
			return err
		}
		var has []string
		for _, b := range backends {
			has = append(has, b.Name)
			if b.Name == up && !b.Up {
				return fmt.Errorf("the load balancer does not find %s ready: %s", b.Name, b.Check)
			}
		}
		if !slices.Equal(slices.Sorted(slices.Values(has)), slices.Sorted(slices.Values(want))) {
			return fmt.Errorf("the backends of the load balancer are %v, not %v", has, want)
		}
		return nil
	})
}
