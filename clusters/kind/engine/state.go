package engine

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/clusters/procfs"
	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/clusters/system"
)

// Files of the engine's state directory.
const (
	stateFile  = "engine.json"
	socketFile = "docker.sock"
	logFile    = "dockerd.log"
)

// stateName is the name of the engine's directory among those of clusters. A cluster can have
// neither it nor its lock, since it is not a DNS label.
const stateName = ".kind.engine"

// place is where the engine keeps its files.
type place struct {
	// dir is the state directory, which exists while the engine runs, and after an engine that
	// exited on its own.
	dir string
	// proc is a /proc; tests have their own.
	proc string
}

func newPlace() place {
	return place{dir: filepath.Join(system.StateRoot(), stateName), proc: "/proc"}
}

// name distinguishes engines under different state directories.
func (p place) name() string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(p.dir))) }

func (p place) file(name string) string { return filepath.Join(p.dir, name) }

// address is the engine's, as in DOCKER_HOST.
func (p place) address() string { return "unix://" + p.file(socketFile) }

// dataDir returns the directory of the engine's images and containers, on disk: next to the
// binaries, since they may take gigabytes and are worth keeping.
func (p place) dataDir(cacheDir string) (string, error) {
	if cacheDir == "" {
		var err error
		if cacheDir, err = release.DefaultCacheDir(); err != nil {
			return "", err
		}
	}
	dir, err := filepath.Abs(filepath.Join(cacheDir, "kind-engine", p.name()))
	if err != nil {
		return "", fmt.Errorf("failed to find the engine's data directory: %w", err)
	}
	return dir, nil
}

// cgroupParent is the control group above those of all containers. The entrypoint of kind's
// node images searches for the word docker in such names.
func (p place) cgroupParent() string { return "/docker-holdfast-" + p.name() }

// longestSocket is the longest path that a unix socket can have on Linux.
const longestSocket = 107

// make creates the directory above the state directory.
func (p place) make() error {
	if n := len(p.file(socketFile)); n > longestSocket {
		return fmt.Errorf("the path of the engine's socket, %s, has %d characters, and may have %d: set XDG_RUNTIME_DIR to a shorter one",
			p.file(socketFile), n, longestSocket)
	}
	return system.MakeStateRoot()
}

// lock waits until no process starts or stops the engine, and blocks others while the file is
// open, here or in a process that inherited it.
func (p place) lock(ctx context.Context) (*os.File, error) {
	f, err := os.OpenFile(p.dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("failed to open the lock of the Docker engine: %w", err)
	}
	err = await.Until(ctx, 20*time.Millisecond, func(context.Context) error {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err != nil && !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return await.Fatal(err)
		}
		return err
	})
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("failed to wait for another start or stop of the Docker engine: %w", err)
	}
	return f, nil
}

// state is the saved state of an engine.
type state struct {
	// PID and StartTicks are those of its first process, and BootID is the boot in which they
	// are valid.
	PID        int    `json:"pid"`
	StartTicks uint64 `json:"startTicks"`
	BootID     string `json:"bootID"`
	// Ready is set once the engine may be used.
	Ready   bool      `json:"ready"`
	Started time.Time `json:"started"`
	DataDir string    `json:"dataDir"`
	Warning string    `json:"warning,omitempty"`

	place place
}

// load reads the saved state; nil if there is none.
func (p place) load() (*state, error) {
	s := state{place: p}
	err := system.ReadJSON(p.file(stateFile), &s)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("failed to read the state of the Docker engine, %s: %w; remove it with: holdfast kind engine stop", p.file(stateFile), err)
	}
	return &s, nil
}

// save writes the state atomically.
func (s *state) save() error {
	if err := system.WriteJSON(s.place.file(stateFile), s); err != nil {
		return fmt.Errorf("failed to write the state of the Docker engine: %w", err)
	}
	return nil
}

// process is the engine's first process.
func (s *state) process() procfs.Process {
	return procfs.Process{Proc: s.place.proc, PID: s.PID, Stat: procfs.Stat{StartTicks: s.StartTicks}}
}

// over returns an error while the engine's first process runs.
func (s *state) over(context.Context) error {
	if !s.process().Over() {
		return errors.New("it is still running")
	}
	return nil
}

// running reports whether the engine's first process runs. After a reboot, or once its PID was
// reused, it does not.
func (s *state) running() bool {
	return s.PID != 0 && s.BootID == s.place.bootID() && !s.process().Over()
}

// bootID identifies this boot of the machine's kernel.
func (p place) bootID() string {
	b, err := os.ReadFile(filepath.Join(p.proc, "sys/kernel/random/boot_id"))
	if err != nil {
		return "" // the same for all, so that the time of the start decides
	}
	return strings.TrimSpace(string(b))
}

// logTail returns the end of dockerd's log, indented, for an error.
func (p place) logTail() string {
	const most = 15
	b, err := os.ReadFile(p.file(logFile))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(lines) > most {
		lines = lines[len(lines)-most:]
	}
	if len(lines) == 1 && lines[0] == "" {
		return "  (it is empty)"
	}
	return "  " + strings.Join(lines, "\n  ")
}
