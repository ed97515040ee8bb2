package scaling

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

const (
	// drainLimit is how long the components of a node that is removed may take to
	// end. An API server has told its peers by then that it is going, and has
	// answered what was asked; watches alone keep it longer.
	drainLimit = 5 * time.Second
	// drainHold keeps them down until their machine is gone.
	drainHold = 10 * time.Minute
)

// drained are the components that are ended before the node's etcd member is
// removed: an API server without its member could not even take its own address
// out of the kubernetes service.
var drained = []framework.Component{framework.APIServer, framework.ControllerManager, framework.Scheduler}

// Node is a node whose components can be ended and started.
type Node interface {
	framework.Stopper
	framework.Killer
	framework.Starter
}

// Drain ends the components of a node that is to be removed gracefully, and with
// force what has not ended in time. One that is not running, or cannot be told, is as
// good as ended.
func Drain(ctx context.Context, name string, n Node) error {
	return framework.DoStep(ctx, name, record.StepStop, func(ctx context.Context) (string, error) {
		drain(ctx, n)
		return "no process of them is left", nil
	})
}

func drain(ctx context.Context, n Node) {
	// A stop that is interrupted may be acted on after the start that undoes it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainLimit)
	defer cancel()
	var all sync.WaitGroup
	for _, c := range drained {
		all.Go(func() {
			if err := n.Stop(ctx, c, drainHold); err == nil {
				return
			}
			// Its connections are to be closed before the machine falls silent.
			_ = n.Kill(context.WithoutCancel(ctx), c, drainHold)
		})
	}
	all.Wait()
}

// Undrain starts them again.
func Undrain(ctx context.Context, n Node) error {
	var errs []error
	for _, c := range drained {
		errs = append(errs, n.Start(ctx, c))
	}
	return errors.Join(errs...)
}
