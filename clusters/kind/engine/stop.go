package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/clusters/local/cgroup"
)

// State describes what exists of an engine of holdfast's own.
type State struct {
	// Running reports that its first process runs.
	Running bool `json:"running"`
	// PID is the PID of that process.
	PID     int       `json:"pid,omitempty"`
	Started time.Time `json:"started,omitzero"`
	Host    string    `json:"host,omitempty"`
	// Log is dockerd's log: of the running engine, or of the last one if it did not come up or
	// exited on its own. Empty if none exists.
	Log string `json:"log,omitempty"`
	// DataDir has the engine's images and containers, even if it does not run; empty if none
	// exists.
	DataDir string `json:"dataDir,omitempty"`
}

// Inspect reports what exists of an engine of holdfast's own. It checks files and processes,
// and does not ask the engine.
func Inspect(c Config) (State, error) {
	p := newPlace()
	s, err := p.load()
	if err != nil {
		return State{}, err
	}
	var st State
	if s != nil && s.running() {
		st = State{Running: true, PID: s.PID, Started: s.Started, Host: p.address()}
	}
	if _, err := os.Stat(p.file(logFile)); err == nil {
		st.Log = p.file(logFile)
	}
	data, err := p.dataDir(c.CacheDir)
	if err != nil {
		return State{}, err
	}
	if s != nil && s.DataDir != "" {
		data = s.DataDir
	}
	if _, err := os.Stat(data); err == nil {
		st.DataDir = data
	}
	return st, nil
}

// stopGrace is how long dockerd may take to stop its containers. Those of kind take 12 s.
const stopGrace = 25 * time.Second

// Stop stops the engine that holdfast started, with every container; their data stay, and the
// next start restarts the containers whose restart policy says so. It reports whether there was
// an engine. It also removes the remains of an engine that exited on its own. If ctx ends, the
// engine is killed.
func Stop(ctx context.Context) (stopped bool, err error) {
	return stop(ctx, stopGrace)
}

func stop(ctx context.Context, grace time.Duration) (stopped bool, err error) {
	p := newPlace()
	if _, err := os.Stat(filepath.Dir(p.dir)); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err := p.make(); err != nil {
		return false, err
	}
	lock, err := p.lock(ctx)
	if err != nil {
		return false, err
	}
	defer lock.Close()
	return p.stop(ctx, grace)
}

// stop stops the engine. The caller has the lock.
func (p place) stop(ctx context.Context, grace time.Duration) (stopped bool, err error) {
	// An engine whose state cannot be read cannot be stopped; the state is cleared.
	if s, err := p.load(); err == nil && s != nil && s.running() {
		if err := s.end(ctx, grace); err != nil {
			return false, err
		}
		stopped = true
	}
	return stopped, p.clear()
}

// endLimit is how long the kernel may take to kill all processes of the sandbox.
const endLimit = 20 * time.Second

// end stops the engine's first process, and with it all others.
func (s *state) end(ctx context.Context, grace time.Duration) error {
	first := s.process()
	wait, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	err := first.Signal(syscall.SIGTERM)
	if err == nil && await.Until(wait, 10*time.Millisecond, s.over) != nil {
		if err = first.Signal(syscall.SIGKILL); err == nil {
			// Also when ctx has ended: a partly stopped engine is worse.
			wait, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), endLimit, fmt.Errorf("it has not exited after %s", endLimit))
			defer cancel()
			err = await.Until(wait, 10*time.Millisecond, s.over)
		}
	}
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("failed to stop the Docker engine that holdfast started (process %d): %w", s.PID, err)
	}
	return nil
}

// clear removes the remains of a stopped engine, except its data.
func (p place) clear() error {
	if err := os.RemoveAll(p.dir); err != nil {
		return fmt.Errorf("failed to remove the state of the Docker engine: %w", err)
	}
	return p.sweep()
}

// Remove stops the engine that holdfast started, immediately, and removes its images,
// containers and volumes. It reports whether anything existed.
func Remove(ctx context.Context, c Config) (removed bool, err error) {
	st, err := Inspect(c)
	if err != nil {
		st = State{} // Stop clears what cannot be read
	}
	stopped, err := stop(ctx, 0)
	if err != nil {
		return false, err
	}
	if st.DataDir == "" {
		return stopped || st.Log != "", nil
	}
	c.say("removing %s", st.DataDir)
	return true, removeData(st.DataDir)
}

// removeData removes the engine's data directory, and its parent if that is empty then.
func removeData(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("failed to remove the data of the Docker engine: %w; unmount any disk that is mounted there first", err)
	}
	_ = os.Remove(filepath.Dir(dir))
	return nil
}

// sweep removes the control groups of containers that stopped with their engine.
func (p place) sweep() error {
	mounts, err := cgroup.Mounts()
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range mounts {
		errs = append(errs, cgroup.RemoveAll(filepath.Join(m.Dir, p.cgroupParent()), time.Now().Add(2*time.Second)))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("failed to remove the control groups of containers: %w", err)
	}
	return nil
}
