package undo

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework"
)

// CachingComponents are those that cache what they have read from etcd.
var CachingComponents = []framework.Component{framework.APIServer, framework.ControllerManager, framework.Scheduler}

// Caching returns the processes that run now and may know of data that etcd is about to lose, for
// Undoing.Restart.
func Caching(ctx context.Context, nodes []framework.Node) (map[string]string, error) {
	running := map[string]string{}
	err := eachCaching(ctx, nodes, func(key string, now framework.Process, _ framework.Killer) error {
		running[key] = now.ID()
		return nil
	})
	return running, err
}

// restart kills the processes that have run since before; the nodes' watchers restart them.
func restart(ctx context.Context, c Cluster, before map[string]string) error {
	return eachCaching(ctx, c.Nodes(), func(key string, now framework.Process, k framework.Killer) error {
		if before[key] != now.ID() {
			return nil
		}
		if err := k.Kill(ctx, now.Component, 0); err != nil {
			return fmt.Errorf("failed to restart %s: %w", key, err)
		}
		return nil
	})
}

// eachCaching calls do for each running process that caches what is in etcd, on the nodes that can
// kill it. A process that does not run, or is held down, caches nothing when it starts.
func eachCaching(ctx context.Context, nodes []framework.Node, do func(key string, now framework.Process, k framework.Killer) error) error {
	var problems []error
	for _, component := range CachingComponents {
		for _, n := range nodes {
			killer, ok := n.(framework.Killer)
			if !ok || !slices.Contains(n.Components(), component) {
				continue
			}
			reporter, ok := n.(framework.ProcessReporter)
			if !ok {
				problems = append(problems, fmt.Errorf("%s does not report its processes", n.Name()))
				continue
			}
			now, err := reporter.Process(ctx, component)
			if err != nil {
				if framework.PoweredOff(ctx, n) {
					continue
				}
				problems = append(problems, fmt.Errorf("failed to ask for the process of %s on %s: %w", component, n.Name(), err))
				continue
			}
			if !now.Ended() && !now.Held {
				now.Component = component
				problems = append(problems, do(string(component)+"/"+n.Name(), now, killer))
			}
		}
	}
	return errors.Join(problems...)
}
