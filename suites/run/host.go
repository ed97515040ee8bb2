package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/suites/internal/worker"
)

// Host runs scenarios of one part of a plan, in a worker with its own cluster. Its methods must
// not be called concurrently.
type Host struct {
	provider clusters.Provider
	dir      string
	part     *Part
	progress func(string)
	worker   *worker.Worker // nil if no worker runs
	started  time.Time      // of the first worker
}

// Host returns a host for a part of the plan, which is saved in the results directory dir. The
// host records the results in the part. Progress receives one line per step.
func (p *Plan) Host(provider clusters.Provider, dir string, part *Part, progress func(string)) *Host {
	return &Host{provider: provider, dir: dir, part: part, progress: progress, started: time.Now()}
}

// Create creates the part's cluster, unless the host has one. If the worker died, the host starts
// another one. The error is clusters.ErrUnsafe if an existing cluster must not be broken.
func (h *Host) Create(ctx context.Context) error {
	if h.worker == nil {
		w, err := worker.Start(h.provider, filepath.Join(h.dir, "logs", h.part.Name+".log"), workerName, h.dir, h.part.Name)
		if err != nil {
			return err
		}
		h.worker = w
	}
	var c created
	err := h.do(ctx, task{}, &c)
	h.part.Made += c.Took
	if err == nil && c.Refused != "" {
		h.part.refused = ctx.Err() == nil // else the interrupt is why the cluster did not become healthy in time
		return refusal(c.Refused)
	}
	return err
}

// Run runs a scenario on the cluster and returns its outcome. After an error, as when the worker died
// or the cluster could not be deleted, the record may still be whole.
func (h *Host) Run(ctx context.Context, scenario string) (Settled, error) {
	var s Settled
	if h.worker == nil {
		return s, errors.New("the host has no cluster; create one first")
	}
	h.part.began = true
	if err := h.do(ctx, task{Scenario: scenario}, &s); err != nil {
		return s, err
	}
	h.part.judged(scenario)
	h.part.Judging[scenario] = s.Judging
	return s, nil
}

// judged notes that a scenario was judged.
func (one *Part) judged(scenario string) {
	if one.Judging == nil {
		one.Judging = map[string]time.Duration{}
	}
	one.Judging[scenario] += 0
}

func (h *Host) do(ctx context.Context, t task, reply any) error {
	err := h.worker.Do(ctx, t, func(event json.RawMessage) {
		var line string
		if json.Unmarshal(event, &line) == nil {
			h.progress(line)
		}
	}, reply)
	if err != nil && !errors.As(err, new(worker.Failed)) {
		err = errors.Join(err, h.close(ctx))
	}
	return err
}

// Close deletes the cluster and everything that workers left. The host can be used again.
func (h *Host) Close(ctx context.Context) error {
	defer func() { h.part.Took = time.Since(h.started) }()
	return h.close(ctx)
}

func (h *Host) close(ctx context.Context) error {
	var err error
	if h.worker != nil {
		err = h.worker.Close()
		h.worker = nil
	}
	return errors.Join(err, h.part.removeData(h.dir), sweep(ctx, h.provider))
}

// sweepLimit is how long deleting what workers left behind may take.
const sweepLimit = time.Minute

// sweep deletes clusters that a worker left behind because it died.
func sweep(ctx context.Context, provider clusters.Provider) error {
	s, ok := provider.(clusters.Sweeper)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepLimit)
	defer cancel()
	return s.Sweep(ctx)
}

// removeData removes remaining data on disk, which exists only if the worker died.
func (one *Part) removeData(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if name := dataPrefix + one.Name; e.Name() == name || strings.HasPrefix(e.Name(), name+".") {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("failed to remove what is left of a cluster: %w", err)
	}
	return nil
}
