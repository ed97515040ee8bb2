package scaling

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

const (
	// drainLimit is how long the components of a node that is removed may take to exit. An API
	// server has deregistered by then, and has answered its requests; only watches keep it
	// longer.
	drainLimit = 5 * time.Second
	// drainHold keeps them down until their machine is removed.
	drainHold = 10 * time.Minute
)

// drained are the components that are stopped before the node's etcd member is removed: an API
// server without its member could not even remove its own address from the kubernetes service.
var drained = []framework.Component{framework.APIServer, framework.ControllerManager, framework.Scheduler}

// Node is a node whose components can be stopped and started.
type Node interface {
	framework.Stopper
	framework.Killer
	framework.Starter
}

// Drain gracefully stops the components of a node that is being removed, and kills those that
// do not exit in time. The proof says if one could not be reached.
func Drain(ctx context.Context, name string, n Node) error {
	return framework.DoStep(ctx, name, record.StepStop, func(ctx context.Context) (string, error) {
		if err := stop(ctx, n, drained...); err != nil {
			return fmt.Sprintf("not all of them are known to be stopped: %v", err), nil
		}
		return "none of their processes is left", nil
	})
}

// stop stops components whose connections must close before the machine becomes unreachable: clients
// would wait for answers that cannot come.
func stop(ctx context.Context, n Node, components ...framework.Component) error {
	// An interrupted stop may take effect after the start that undoes it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainLimit)
	defer cancel()
	return framework.Each(components, func(c framework.Component) error {
		if n.Stop(ctx, c, drainHold) == nil {
			return nil
		}
		err := n.Kill(context.WithoutCancel(ctx), c, drainHold)
		if errors.Is(err, framework.ErrNothingDone) { // it is not running
			return nil
		}
		return err
	})
}

// Undrain starts them again.
func Undrain(ctx context.Context, n Node) error {
	var errs []error
	for _, c := range drained {
		errs = append(errs, n.Start(ctx, c))
	}
	return errors.Join(errs...)
}
