package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters/local/disk"
	"github.com/holdfast-ha/holdfast/clusters/system"
)

// Descriptors that the sandbox's first process inherits.
const (
	lifelineFD = 3
	eventsFD   = 4
	lockFD     = 5
)

// stay is what the process that starts an engine writes to the lifeline once the engine no
// longer depends on it.
const stay = 's'

// initConfig is the first process's configuration, as JSON in its only argument.
type initConfig struct {
	// StateDir and DataDir are the engine's directories, without symbolic links.
	StateDir string `json:"stateDir"`
	DataDir  string `json:"dataDir"`
	// CgroupParent is the control group above those of all containers.
	CgroupParent string `json:"cgroupParent"`
	// Dockerd is the path of the engine's program.
	Dockerd string `json:"dockerd"`
}

// initEvent is one line from the first process to the one that started it.
type initEvent struct {
	Error   string `json:"error,omitempty"`
	Warning string `json:"warning,omitempty"`
	// Running is set once dockerd runs.
	Running bool `json:"running,omitempty"`
}

// initConfig returns the argument of the first process.
func (s *starting) initConfig() (string, error) {
	dockerd, err := system.LookProgram("dockerd")
	if err != nil {
		return "", err
	}
	// Mounts in the sandbox cover some paths: resolve symbolic links to detect these.
	stateDir, err := filepath.EvalSymlinks(s.place.dir)
	if err != nil {
		return "", err
	}
	dataDir, err := filepath.EvalSymlinks(s.data)
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(initConfig{StateDir: stateDir, DataDir: dataDir, CgroupParent: s.place.cgroupParent(), Dockerd: dockerd})
	return string(b), err
}

// runInit is the first process of an engine's sandbox. It starts dockerd, reaps orphans, and
// exits when dockerd does; on SIGTERM it stops dockerd. The kernel then kills everything else.
func runInit(args []string) error {
	if os.Getpid() != 1 {
		return errors.New("only holdfast itself starts this, as the first process of a sandbox; see: holdfast kind engine --help")
	}
	for fd := lifelineFD; fd <= lockFD; fd++ {
		unix.CloseOnExec(fd)
	}
	events := json.NewEncoder(os.NewFile(eventsFD, "events"))
	err := serve(args, events)
	if err != nil {
		_ = events.Encode(initEvent{Error: err.Error()})
	}
	return err
}

func serve(args []string, events *json.Encoder) error {
	var cfg initConfig
	if len(args) != 1 || json.Unmarshal([]byte(args[0]), &cfg) != nil {
		return errors.New("usage: " + roleInit + " CONFIG")
	}
	parent, err := os.Open(filepath.Dir(cfg.StateDir))
	if err != nil {
		return fmt.Errorf("failed to open the directory of its state: %w", err)
	}
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM, syscall.SIGINT)
	go holdOn(os.NewFile(lifelineFD, "lifeline"), os.NewFile(lockFD, "lock"), parent, filepath.Base(cfg.StateDir))

	if err := furnish(cfg); err != nil {
		return err
	}
	driver, warning := storageDriver(cfg.DataDir, fuseOverlay())
	if warning != "" {
		_ = events.Encode(initEvent{Warning: warning})
	}
	argv := daemonArgs(cfg, driver)
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	// Reaping all children would take the exit code from exec.Cmd.
	dockerd, err := os.StartProcess(argv[0], argv, &os.ProcAttr{Dir: "/", Files: []*os.File{null, os.Stdout, os.Stderr}})
	if err != nil {
		return fmt.Errorf("failed to start dockerd: %w", err)
	}
	_ = events.Encode(initEvent{Running: true})
	go func() {
		for range terminated {
			_ = syscall.Kill(dockerd.Pid, syscall.SIGTERM)
		}
	}()
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, 0, nil)
		switch {
		case err == syscall.EINTR || (err == nil && pid != dockerd.Pid):
		case err != nil:
			return fmt.Errorf("failed to wait for processes: %w", err)
		case ws.Signaled():
			return fmt.Errorf("dockerd was killed by a signal: %s", ws.Signal())
		case ws.ExitStatus() != 0:
			return fmt.Errorf("dockerd exited with status %d", ws.ExitStatus())
		default:
			return nil
		}
	}
}

// holdOn ends the sandbox when the process that starts the engine exits before it has said that
// the engine is to stay. It first removes the engine's state, which is name in the directory
// parent, and holds the lock of starts until then, so that the next start does not find it.
func holdOn(lifeline, lock, parent *os.File, name string) {
	var b [1]byte
	if n, _ := lifeline.Read(b[:]); n == 1 && b[0] == stay {
		_, _, _ = lifeline.Close(), lock.Close(), parent.Close()
		return
	}
	// Through the descriptor, whatever covers the path in the sandbox.
	_ = os.RemoveAll(filepath.Join("/proc/self/fd", strconv.Itoa(int(parent.Fd())), name))
	unix.Exit(137)
}

// daemonArgs returns dockerd and its arguments.
func daemonArgs(cfg initConfig, driver string) []string {
	return []string{cfg.Dockerd,
		"--host", "unix://" + filepath.Join(cfg.StateDir, socketFile),
		"--group", "root",
		"--data-root", filepath.Join(cfg.DataDir, "docker"),
		"--exec-root", "/run/docker",
		"--pidfile", "/run/docker.pid",
		// The configuration in /etc/docker is for this machine's engine.
		"--config-file", daemonConfig,
		"--storage-driver", driver,
		// systemd, the default on a host with control groups of version 2, cannot be reached
		// from the sandbox.
		"--exec-opt", "native.cgroupdriver=cgroupfs",
		"--cgroup-parent", cfg.CgroupParent,
		"--shutdown-timeout", strconv.Itoa(int(stopGrace.Seconds()) - 5),
	}
}

// daemonConfig is dockerd's configuration file, in the sandbox's own /run.
const daemonConfig = "/run/holdfast-daemon.json"

// daemonEnv returns the environment of the sandbox. It is not this process's: a proxy or a
// Docker setting of the user would be wrong in there.
func daemonEnv(dataDir string) []string {
	env := []string{
		"PATH=" + os.Getenv("PATH") + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/root",
		"TMPDIR=" + filepath.Join(dataDir, "tmp"),
		// Says that it is in a container, where dockerd does not try to load AppArmor profiles:
		// only root of the machine can.
		"container=docker",
	}
	if v := os.Getenv("DOCKER_RAMDISK"); v != "" {
		env = append(env, "DOCKER_RAMDISK="+v) // runc cannot pivot_root there
	}
	return env
}

// fuseOverlay reports whether fuse-overlayfs can be used.
func fuseOverlay() bool {
	_, err := exec.LookPath("fuse-overlayfs")
	return err == nil && disk.Available() == nil
}
