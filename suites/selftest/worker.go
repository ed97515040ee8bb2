package selftest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
	"github.com/holdfast-ha/holdfast/suites/internal/worker"
)

// workerName is the first argument of a worker.
const workerName = "selftest-worker"

// Main turns this process into a worker of a selftest if it was started as one; it does not
// return in a worker. Call it first in main, after local.Main. Harness is the version of the
// program.
func Main(harness string) {
	worker.Main(workerName, func(args []string) (worker.Handler, error) {
		if len(args) != 1 {
			return nil, fmt.Errorf("a worker takes a directory, not %q", args)
		}
		return planter{Env{Dir: args[0], Harness: harness}}, nil
	})
}

// event is a message from a worker: exactly one field is set.
type event struct {
	Progress string   `json:"progress,omitempty"`
	Settled  *Outcome `json:"settled,omitempty"`
	// Stop asks to stop the worker for that long. It cannot stop itself: it is the first process
	// of its sandbox.
	Stop time.Duration `json:"stop,omitempty"`
}

type planter struct{ env Env }

// Handle implements worker.Handler: requests are batches.
func (p planter) Handle(ctx context.Context, request json.RawMessage, say func(any)) (any, error) {
	var work Batch
	if err := json.Unmarshal(request, &work); err != nil {
		return nil, fmt.Errorf("failed to decode a batch: %w", err)
	}
	p.env.Progress = func(line string) { say(event{Progress: line}) }
	p.env.Stop = func(d time.Duration) error { say(event{Stop: d}); return nil }
	return nil, Run(ctx, work, p.env, func(o Outcome) { say(event{Settled: &o}) })
}

// Close implements worker.Handler.
func (planter) Close(context.Context) error { return nil }

// In runs the batch in its own sandbox, with records and logs in dir. Progress receives one line
// per step, settled each outcome.
func (b Batch) In(ctx context.Context, dir string, progress func(string), settled func(Outcome)) error {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(filepath.Join(dir, "logs"), 0o755)
	}
	if err != nil {
		return fmt.Errorf("failed to create a directory for a batch of plants: %w", err)
	}
	w, err := worker.Start(local.Provider{}, filepath.Join(dir, "logs", "worker.log"), workerName, dir)
	if err != nil {
		return err
	}
	var stopping error
	err = w.Do(ctx, b, func(said json.RawMessage) {
		var e event
		switch err := json.Unmarshal(said, &e); {
		case err != nil:
		case e.Settled != nil:
			settled(*e.Settled)
		case e.Stop > 0:
			stopping = errors.Join(stopping, stopFor(ctx, w.Process(), e.Stop))
		default:
			progress(e.Progress)
		}
	}, new(any))
	err = errors.Join(err, stopping, w.Close())
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("failed to run a batch on %s clusters: %w", b.Cluster, err)
	}
	return nil
}

// stopFor stops a process, and continues it when the time is over or ctx is done.
func stopFor(ctx context.Context, p *os.Process, d time.Duration) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("failed to stop a worker for %s: %w", d, err)
	}
	client.Pause(ctx, d)
	return p.Signal(syscall.SIGCONT)
}
