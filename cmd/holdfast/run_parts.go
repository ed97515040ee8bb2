package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters"
)

const workerCommand = "run-worker"

// progressVariable names the descriptor on which a worker tells what happens.
const progressVariable = "HOLDFAST_PROGRESS_FD"

// progressOut is where a worker tells what happens. Without it this is no worker.
func progressOut() (*os.File, error) {
	fd, err := strconv.Atoi(os.Getenv(progressVariable))
	if err != nil {
		return nil, usageError("this command is for holdfast to start by itself")
	}
	unix.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "progress"), nil
}

// workerMessage is what the worker of a part says, one a line: exactly one field is set.
type workerMessage struct {
	Progress string `json:"progress,omitempty"`
	// Made is how long making a cluster took.
	Made time.Duration `json:"made,omitempty"`
	// Begins names a scenario.
	Begins  string   `json:"begins,omitempty"`
	Settled *settled `json:"settled,omitempty"`
	// Broken is why a cluster could not be made.
	Broken string `json:"broken,omitempty"`
}

// settled is a scenario that is over.
type settled struct {
	Scenario string `json:"scenario"`
	// Verdicts are those on its requirements, in words.
	Verdicts string `json:"verdicts"`
	// Judging is how long they took.
	Judging time.Duration `json:"judging"`
}

// carryOut runs the parts of the plan, so many at a time. What ends one part early does
// not end the others; its error says of each what did.
func (p *plan) carryOut(ctx context.Context, dir string, shown *progress) error {
	provider, err := providerNamed(p.Provider)
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	b, err := newBoard(p, shown)
	if err != nil {
		return err
	}
	defer b.watch()()
	queue := make(chan *part, len(p.Parts))
	for i := range p.Parts {
		queue <- &p.Parts[i]
	}
	close(queue)
	var all sync.WaitGroup
	for range p.Parallel {
		all.Go(func() {
			for one := range queue {
				err := errInterrupted
				if ctx.Err() == nil {
					err = one.carryOut(ctx, provider, dir, b)
				}
				if b.ended(one.Name); err != nil {
					one.Problem = err.Error()
				}
			}
		})
	}
	all.Wait()
	var problems []error
	for _, one := range p.Parts {
		if one.Problem != "" {
			problems = append(problems, fmt.Errorf("%s: %s", one.Name, one.Problem))
		}
	}
	return errors.Join(problems...)
}

var errInterrupted = errors.New("interrupted")

// carryOut runs a part, and returns why it ended early, if it did. Where a worker dies,
// another one goes on with the scenarios that it had not begun.
func (one *part) carryOut(ctx context.Context, provider clusters.Provider, dir string, b *board) error {
	began := time.Now()
	defer func() { one.Took = time.Since(began) }()
	var problems []error
	for todo := one.Scenarios; ; {
		begun, err := one.work(ctx, provider, dir, todo, b)
		left := errors.Join(one.removeData(dir), sweep(ctx, provider))
		if ctx.Err() != nil {
			return errors.Join(errInterrupted, left)
		}
		problems = append(problems, err, left)
		if err == nil {
			break
		}
		if todo = todo[begun:]; begun == 0 || len(todo) == 0 {
			break
		}
		b.says(one.Name, fmt.Sprintf("%v: the rest goes to another worker", err))
	}
	return errors.Join(problems...)
}

// sweepLimit is how long ending what workers left behind may take.
const sweepLimit = time.Minute

// sweep ends clusters that a worker left behind, because it died or was interrupted.
func sweep(ctx context.Context, provider clusters.Provider) error {
	s, ok := provider.(clusters.Sweeper)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepLimit)
	defer cancel()
	return s.Sweep(ctx)
}

// removeData removes what is left of data on disk, which is something if the worker died.
func (one *part) removeData(dir string) error {
	var left []string
	for _, pattern := range []string{one.Name, one.Name + ".*"} {
		found, err := filepath.Glob(filepath.Join(dir, dataPrefix+pattern))
		if err != nil {
			return err
		}
		left = append(left, found...)
	}
	for _, data := range left {
		if err := os.RemoveAll(data); err != nil {
			return fmt.Errorf("removing what is left of a cluster: %w", err)
		}
	}
	return nil
}

// work runs scenarios of a part in a worker of their own. It returns how many were
// begun, and why not all are over, if so.
func (one *part) work(ctx context.Context, provider clusters.Provider, dir string, todo []string, b *board) (begun int, err error) {
	log, err := os.OpenFile(filepath.Join(dir, "logs", one.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, fmt.Errorf("making the log of a worker: %w", err)
	}
	defer log.Close()
	cmd, err := provider.Command(ctx, slices.Concat([]string{workerCommand, dir, one.Name}, todo)...)
	if err != nil {
		return 0, err
	}
	r, err := startWorker(provider, cmd, log)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	begun, heard := one.hear(r, b)
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case heard != nil || errors.As(err, &exit) && exit.ExitCode() == exitFail:
		return begun, heard // some spec did not pass; the records say what
	case err != nil:
		return begun, fmt.Errorf("the worker ended: %w; it said: %s", err, lastLines(log.Name()))
	}
	return begun, heard
}

// hear passes on what a worker says until it ends, and returns how many scenarios it
// has begun. Its error is that of making a cluster, or says that the worker could not be
// understood.
func (one *part) hear(r io.Reader, b *board) (begun int, broken error) {
	for messages := json.NewDecoder(bufio.NewReader(r)); ; {
		var m workerMessage
		if err := messages.Decode(&m); errors.Is(err, io.EOF) {
			return begun, broken
		} else if err != nil {
			_, _ = io.Copy(io.Discard, r) // a full pipe must not block the worker
			return begun, fmt.Errorf("a worker could not be understood: %w", err)
		}
		switch {
		case m.Begins != "":
			begun++
			b.begins(one.Name, m.Begins)
		case m.Settled != nil:
			if one.Judging == nil {
				one.Judging = map[string]time.Duration{}
			}
			one.Judging[m.Settled.Scenario] = m.Settled.Judging
			b.settled(one.Name, *m.Settled)
		case m.Made > 0:
			one.Made += m.Made
		case m.Broken != "":
			broken = errors.New(m.Broken)
		default:
			b.says(one.Name, m.Progress)
		}
	}
}

// startWorker starts a worker with its output going to log, and returns where it
// tells what happens.
func startWorker(provider clusters.Provider, cmd *exec.Cmd, log *os.File) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = append(cmd.ExtraFiles, w)
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", progressVariable, 2+len(cmd.ExtraFiles)))
	if err := cmd.Start(); err != nil {
		_ = r.Close()
		return nil, provider.Explain(fmt.Errorf("starting a worker: %w", err))
	}
	return r, nil
}
