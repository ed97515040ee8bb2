package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/holdfast-ha/holdfast/clusters/local"
)

const workerCommand = "run-worker"

// progressFD is where a worker tells what happens: behind the three streams and
// the sandbox's lifeline.
const progressFD = 4

// carryOut runs the parts of the plan, one after another. What ends one part early
// does not end the others; its error says of each what did.
func (p *plan) carryOut(ctx context.Context, dir string, shown *progress) error {
	var problems []error
	for i := range p.Parts {
		one := &p.Parts[i]
		err := context.Cause(ctx)
		if err == nil {
			err = runPart(ctx, dir, one.Name, shown)
		} else {
			err = errors.New("interrupted")
		}
		if err != nil {
			one.Problem = err.Error()
			problems = append(problems, fmt.Errorf("%s: %w", one.Name, err))
		}
	}
	return errors.Join(problems...)
}

// runPart runs a part of the plan in a sandbox, and returns why it ended early, if
// it did.
func runPart(ctx context.Context, dir, name string, shown *progress) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	cmd, err := local.Command(ctx, local.SandboxOptions{}, workerCommand, abs, name)
	if err != nil {
		return err
	}
	logs := logsDir(dir, name)
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return fmt.Errorf("making a directory for logs: %w", err)
	}
	log, err := os.Create(filepath.Join(logs, "worker.log"))
	if err != nil {
		return fmt.Errorf("making the log of the run: %w", err)
	}
	defer log.Close()
	r, err := startWorker(cmd, log)
	if err != nil {
		return err
	}
	defer r.Close()
	for lines := bufio.NewScanner(r); lines.Scan(); {
		shown.Line("%5s  %s  %s", shown.Elapsed(), name, lines.Text())
	}
	_, _ = io.Copy(io.Discard, r) // a line too long to show must not block the worker
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case errors.As(err, &exit) && exit.ExitCode() == exitFail:
		return nil // some spec did not pass; the records say what
	case err != nil:
		return fmt.Errorf("the worker ended: %w; it said: %s", err, lastLines(log.Name()))
	}
	return nil
}

// logsDir is where the logs of a part of a run go.
func logsDir(dir, part string) string { return filepath.Join(dir, "logs", part) }
