package keeper

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework/scratch"
)

// UpOptions are options of Up.
type UpOptions struct {
	// Wait makes Up return when the cluster is ready instead of when its machines run.
	Wait bool
	// Attach attaches to the existing cluster of that name, which another tool created and the
	// provider has described.
	Attach bool
	// Port is the loopback port on which clients of this machine reach the
	// cluster; 0 for any free one.
	Port int
	// Progress receives one line per step; nil for silence.
	Progress func(string)
}

// ErrRunning is returned by Up for the name of a cluster that is kept. It is clusters.ErrTaken.
var ErrRunning = fmt.Errorf("%w: a cluster of this name is already running", clusters.ErrTaken)

// Up creates a cluster that runs until it is deleted, even if this process exits first. If it
// fails or ctx ends before it is done, nothing is left, with one exception: a cluster that runs
// without becoming ready stays for inspection.
func Up(ctx context.Context, p clusters.Provider, spec *clusters.Cluster, o UpOptions) (*Handle, error) {
	name := spec.Metadata.Name
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	a, err := access(p)
	if err != nil {
		return nil, err
	}
	starting, err := lockStart(ctx, name)
	if err != nil {
		return nil, err
	}
	defer starting.Unlock()
	h := &Handle{Name: name, dir: stateDir(name), provider: p, access: a}
	if running(h.dir) {
		return nil, fmt.Errorf("%w: %s; take it down with `holdfast down --name %s`, or give this one another --name", ErrRunning, name, name)
	}
	cfg := config{Provider: p.Name(), Attach: o.Attach, Port: o.Port}
	if cfg.DataDir, err = dataDir(name); err != nil {
		return nil, err
	}
	// What is left of a cluster whose keeper was killed.
	if left, _ := loadConfig(h.dir); left.Attach && !o.Attach {
		return nil, fmt.Errorf("%w: cluster %s was taken over, and its agents are still there; remove them with `holdfast down --name %s`", clusters.ErrTaken, name, name)
	}
	if err := errors.Join(os.RemoveAll(h.dir), os.RemoveAll(cfg.DataDir)); err != nil {
		return nil, fmt.Errorf("failed to remove what is left of an earlier cluster %s: %w", name, err)
	}
	if err := h.startKeeper(ctx, spec, cfg, o); err != nil {
		return nil, fmt.Errorf("cluster %s: %w", name, err)
	}
	return h, nil
}

// lockStart lets one process at a time create a cluster of a name, or clear what is left of
// one: otherwise it could clear what another command is just creating.
func lockStart(ctx context.Context, name string) (startLock, error) {
	if err := system.MakeStateRoot(); err != nil {
		return startLock{}, err
	}
	for {
		l := startLock{flock.New(filepath.Join(system.StateRoot(), "."+name+".lock"))}
		if _, err := l.lock.TryLockContext(ctx, 50*time.Millisecond); err != nil {
			return startLock{}, fmt.Errorf("failed to wait for another start of cluster %s: %w", name, err)
		}
		if scratch.HasPath(l.lock, l.lock.Path()) {
			return l, nil
		}
		_ = l.lock.Unlock() // of a file that its last owner removed
	}
}

// startLock is a lock whose file is removed with it.
type startLock struct{ lock *flock.Flock }

// Unlock removes the file before another process can take the lock.
func (l startLock) Unlock() {
	_ = os.Remove(l.lock.Path())
	_ = l.lock.Unlock()
}

// dataDir returns where a cluster keeps data on disk: next to the binaries, since the state of
// running clusters is usually in memory.
func dataDir(name string) (string, error) {
	cache, err := release.DefaultCacheDir()
	if err != nil {
		return "", err
	}
	// Clusters of one name may run under different directories of state.
	return filepath.Join(cache, "clusters", fmt.Sprintf("%s-%08x", name, crc32.ChecksumIEEE([]byte(stateDir(name))))), nil
}

// undoGrace is how long a keeper may take to exit if its cluster is not to stay, in addition to
// the cluster's own limit.
const undoGrace = 10 * time.Second

func (h *Handle) startKeeper(ctx context.Context, spec *clusters.Cluster, cfg config, o UpOptions) error {
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		return fmt.Errorf("failed to make its state directory: %w", err)
	}
	if err := h.describe(spec, cfg); err != nil {
		_ = os.RemoveAll(h.dir)
		return err
	}
	log, err := os.OpenFile(filepath.Join(h.dir, keeperLog), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	keeper := &exec.Cmd{Args: []string{role, keeps, h.dir}, Dir: "/", Stdout: log, Stderr: log, ExtraFiles: []*os.File{w}}
	gone, err := system.Detach(keeper)
	_ = w.Close()
	if err != nil {
		return fmt.Errorf("failed to start its keeper: %w", err)
	}
	ok, err := h.follow(ctx, r, o)
	_ = r.Close()
	if errors.Is(err, errKeeperExited) {
		<-gone
		err = fmt.Errorf("%w (%s): %s", err, keeper.ProcessState, h.lastOfKeeper())
	}
	if !ok {
		if ctx.Err() != nil {
			o.Progress("interrupted: deleting what was created")
		}
		_ = keeper.Process.Signal(syscall.SIGTERM)
		select {
		case <-gone:
		case <-time.After(undoGrace + h.access.EndLimit()):
			_ = keeper.Process.Kill()
			<-gone
		}
		_ = os.RemoveAll(h.dir)
	}
	return err
}

// describe saves the configuration for keeper and server.
func (h *Handle) describe(spec *clusters.Cluster, cfg config) error {
	for name, what := range map[string]any{clusterFile: spec, configFile: cfg} {
		if err := system.WriteJSON(filepath.Join(h.dir, name), what); err != nil {
			return fmt.Errorf("failed to write its description: %w", err)
		}
	}
	return nil
}

// follow reads the keeper's events until the cluster has reached the state that o requests. It
// returns whether the cluster stays.
func (h *Handle) follow(ctx context.Context, r *os.File, o UpOptions) (stay bool, err error) {
	stop := context.AfterFunc(ctx, func() { _ = r.SetReadDeadline(time.Now()) })
	defer stop()
	running := false
	for lines := bufio.NewScanner(r); lines.Scan(); {
		var e upEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return false, fmt.Errorf("its keeper printed %q", lines.Text())
		}
		switch {
		case e.Error != "" && running:
			return true, fmt.Errorf("%s\nit keeps running: inspect it with `holdfast status`, `holdfast logs` and `holdfast shell`, or delete it with `holdfast down`", e.Error)
		case e.Error != "":
			return false, e.failed()
		case e.Ready:
			return true, nil
		case e.Running:
			running = true
			if !o.Wait {
				return true, nil
			}
		default:
			o.Progress(e.Message)
		}
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	return false, errKeeperExited
}

// errKeeperExited says that a keeper exited before its cluster was ready.
var errKeeperExited = errors.New("its keeper exited")

// lastOfKeeper returns the last output of the keeper and the server of the cluster.
func (h *Handle) lastOfKeeper() string {
	words, _ := os.ReadFile(filepath.Join(h.dir, keeperLog))
	text := strings.TrimSpace(string(words))
	return cmp.Or(text, "it logged nothing: another process may have killed it, such as the kernel when memory ran out")
}

// takenError is an error of another process that is clusters.ErrTaken.
type takenError struct{ error }

func (e takenError) Is(target error) bool { return target == clusters.ErrTaken }

// failed returns the error of a cluster that could not be created.
func (e upEvent) failed() error {
	if e.Taken {
		return takenError{errors.New(e.Error)}
	}
	return errors.New(e.Error)
}
