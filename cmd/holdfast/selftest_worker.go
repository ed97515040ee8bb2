package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/suites/selftest"
)

const (
	selftestWorkerCommand = "selftest-worker"
	// batchFile is the work of a worker in its directory.
	batchFile = "batch.json"
)

// selftestMessage is what a worker says, one a line: exactly one field is set.
type selftestMessage struct {
	Progress string            `json:"progress,omitempty"`
	Settled  *selftest.Outcome `json:"settled,omitempty"`
	// Stop asks for the worker to be stopped for so long, as it cannot do to
	// itself: it is the first process of its sandbox.
	Stop time.Duration `json:"stop,omitempty"`
}

// newSelftestWorkerCommand is what `holdfast selftest` re-executes itself as, in
// a sandbox.
func newSelftestWorkerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    selftestWorkerCommand + " DIR",
		Short:  "Run one batch of planted violations (started by holdfast selftest)",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runBatch(cmd.Context(), args[0])
		},
	}
}

func runBatch(ctx context.Context, dir string) error {
	told, err := progressOut()
	if err != nil {
		return err
	}
	b, err := os.ReadFile(filepath.Join(dir, batchFile))
	if err != nil {
		return fmt.Errorf("reading the work to do: %w", err)
	}
	var work selftest.Batch
	if err := json.Unmarshal(b, &work); err != nil {
		return fmt.Errorf("reading the work to do: %w", err)
	}
	out := json.NewEncoder(told)
	var mu sync.Mutex
	say := func(m selftestMessage) error {
		mu.Lock()
		defer mu.Unlock()
		return out.Encode(m)
	}
	env := selftest.Env{Dir: dir, Harness: holdfastVersion(),
		Progress: func(line string) { _ = say(selftestMessage{Progress: line}) },
		Stop:     func(d time.Duration) error { return say(selftestMessage{Stop: d}) }}
	return selftest.Run(ctx, work, env, func(o selftest.Outcome) { _ = say(selftestMessage{Settled: &o}) })
}

// plantIn runs a batch in a sandbox of its own, with records and logs in dir.
func plantIn(ctx context.Context, dir string, work selftest.Batch, shown *progress, settled func(selftest.Outcome)) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	b, err := json.Marshal(work)
	if err == nil {
		err = os.MkdirAll(filepath.Join(dir, "logs"), 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, batchFile), b, 0o644)
	}
	if err != nil {
		return fmt.Errorf("making a directory for a batch of plants: %w", err)
	}
	log, err := os.Create(filepath.Join(dir, "logs", "worker.log"))
	if err != nil {
		return fmt.Errorf("making the log of a worker: %w", err)
	}
	defer log.Close()
	cmd, err := local.Provider{}.Command(ctx, selftestWorkerCommand, dir)
	if err != nil {
		return err
	}
	r, err := startWorker(local.Provider{}, cmd, log)
	if err != nil {
		return err
	}
	defer r.Close()
	heard := hear(ctx, r, cmd.Process, shown, settled)
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("the worker for %s clusters ended: %w; it said: %s", work.Cluster, err, lastLines(log.Name()))
	}
	return heard
}

// hear does what a worker asks for, until it ends.
func hear(ctx context.Context, r io.Reader, worker *os.Process, shown *progress, settled func(selftest.Outcome)) error {
	for messages := json.NewDecoder(bufio.NewReader(r)); ; {
		var m selftestMessage
		if err := messages.Decode(&m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			_, _ = io.Copy(io.Discard, r) // a full pipe must not block the worker
			return fmt.Errorf("a worker could not be understood: %w", err)
		}
		switch {
		case m.Settled != nil:
			settled(*m.Settled)
		case m.Stop > 0:
			if err := stopFor(ctx, worker, m.Stop); err != nil {
				return fmt.Errorf("stopping a worker for %s: %w", m.Stop, err)
			}
		default:
			shown.Status("%5s  %s", shown.Elapsed(), m.Progress)
		}
	}
}

// stopFor stops a process, and lets it go on when the time is over or ctx ends.
func stopFor(ctx context.Context, p *os.Process, d time.Duration) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return p.Signal(syscall.SIGCONT)
}
