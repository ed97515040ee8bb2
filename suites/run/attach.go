package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework/observe"
	"github.com/holdfast-ha/holdfast/framework/workload"
)

// takeOver takes over a cluster for a run.
func takeOver(ctx context.Context, provider clusters.Provider, spec *clusters.Cluster, results string, progress func(string)) (*takenOver, error) {
	a, ok := provider.(clusters.Attacher)
	if !ok { // describe has seen to that
		return nil, fmt.Errorf("the provider %s takes over no clusters", provider.Name())
	}
	// What is kept of it are credentials, which are nothing for a results directory.
	dir, err := os.MkdirTemp("", "holdfast-attached-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for what is kept of cluster %s: %w", spec.Metadata.Name, err)
	}
	made, err := a.Attach(ctx, spec, clusters.Options{Dir: dir, Snapshots: filepath.Join(results, clusters.SnapshotDir), Progress: progress})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	taken := &takenOver{made, dir, cleanUpLimit}
	if s := observe.SteadyState(ctx, made, healthyLimit); !s.OK {
		err := fmt.Errorf("cluster %s is not healthy, and nothing is broken in a cluster that is not: %s", spec.Metadata.Name, strings.Join(s.Problems, "; "))
		return nil, errors.Join(err, taken.Close(ctx))
	}
	return taken, nil
}

// healthyLimit is how long a cluster that is taken over may take to be healthy.
const healthyLimit = 30 * time.Second

// takenOver is a cluster that stays when the run is over. It does not stand for that:
// what the cluster can do are methods of its own.
type takenOver struct {
	cluster clusters.Made
	dir     string
	limit   time.Duration // for deleting what the run made; cleanUpLimit outside of tests
}

// cleanUpLimit is how long deleting what a run made in a cluster may take.
const cleanUpLimit = 30 * time.Second

// Close deletes what traffic and probes made, and lets go of the cluster.
func (c *takenOver) Close(ctx context.Context) error {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.limit)
	defer cancel()
	err := workload.CleanUp(limited, c.cluster.Entrances())
	return errors.Join(err, c.cluster.Close(ctx), os.RemoveAll(c.dir))
}

// letGoLimit is how long it may take to let go of a cluster whose worker has not: agents
// heal first what is active.
const letGoLimit = 3 * time.Minute

// letGo lets go of a cluster that was taken over, where a worker that died did not.
func (p *Plan) letGo(ctx context.Context, provider clusters.Provider) error {
	a, ok := provider.(clusters.Attacher)
	if !ok || !p.Attach {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), letGoLimit)
	defer cancel()
	return a.Detach(ctx, p.Cluster, false)
}
