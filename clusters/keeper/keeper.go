package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/clusters/system"
)

// Files of a cluster's state directory.
const (
	lockFile       = "lock"
	configFile     = "keeper.json"
	clusterFile    = "cluster.json"
	controlSocket  = "control.sock"
	kubeconfigFile = "kubeconfig"
	keeperLog      = "keeper.log"
	faultsLog      = "logs/faults.jsonl"
)

// role is the name under which the program re-executes itself, as argv[0], to keep a
// cluster: role keep DIR, and role serve DIR.
const (
	role  = "holdfast-keeper"
	keeps = "keep"
	serve = "serve"
)

// config is the configuration of keeper and server, in the cluster's state directory.
type config struct {
	// Provider is the name of the cluster's provider.
	Provider string `json:"provider"`
	// Attach attaches to an existing cluster instead of creating one.
	Attach bool `json:"attach,omitempty"`
	// DataDir is for data on disk.
	DataDir string `json:"dataDir"`
	// Port is the forwarder's port on the loopback; 0 for any.
	Port int `json:"port"`
}

func loadConfig(dir string) (c config, err error) {
	if err = system.ReadJSON(filepath.Join(dir, configFile), &c); err != nil {
		err = fmt.Errorf("failed to read the keeper's configuration: %w", err)
	}
	return c, err
}

// upEvent is one line from keeper or server to the command that started them.
type upEvent struct {
	Message string `json:"message,omitempty"`
	Error   string `json:"error,omitempty"`
	// Taken says that the error is a name that is taken.
	Taken bool `json:"taken,omitempty"`
	// Running is set when the machines run, Ready when the cluster is ready.
	Running bool `json:"running,omitempty"`
	Ready   bool `json:"ready,omitempty"`
}

// failure returns the event of an error.
func failure(err error) upEvent {
	return upEvent{Error: err.Error(), Taken: errors.Is(err, clusters.ErrTaken)}
}

// Main turns re-executed copies of the program into a keeper or a server of clusters of these
// providers, and does not return in them. Call it in main or TestMain, after the providers' own
// Main.
func Main(providers ...clusters.Provider) {
	if filepath.Base(os.Args[0]) != role {
		return
	}
	err := fmt.Errorf("usage: %s %s|%s DIR", role, keeps, serve)
	if len(os.Args) == 3 {
		switch os.Args[1] {
		case keeps:
			err = runKeeper(providers, os.Args[2])
		case serve:
			err = runServer(providers, os.Args[2])
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", role, err)
		os.Exit(3)
	}
	os.Exit(0)
}

// eventsFD is the descriptor that the keeper inherits from Up.
const eventsFD = 3

// Descriptors that the server inherits from the keeper, starting at the one that
// descriptorsFrom names in its environment.
const (
	serverEvents = iota
	serverControl
	serverForward
	serverLifeline
	serverLock
	serverDescriptors
)

const descriptorsFrom = "HOLDFAST_KEEPER_DESCRIPTORS"

func runKeeper(providers []clusters.Provider, dir string) error {
	unix.CloseOnExec(eventsFD)
	events := os.NewFile(eventsFD, "events")
	// If the command that started the keeper has exited, there is no reader.
	signal.Ignore(syscall.SIGPIPE)
	err := keep(providers, dir, events)
	if err != nil {
		_ = json.NewEncoder(events).Encode(failure(err))
	}
	return err
}

func keep(providers []clusters.Provider, dir string, events *os.File) error {
	cfg, err := loadConfig(dir)
	if err != nil {
		return err
	}
	p, err := provider(providers, cfg.Provider)
	if err != nil {
		return err
	}
	lock, err := takeLock(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cmd, err := clusters.Command(ctx, p, serve, dir)
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := handOver(cmd, dir, cfg.Port, events, lock); err != nil {
		return err
	}
	// The server deletes the cluster when this end is closed, as when this process is killed.
	r, lifeline, err := os.Pipe()
	if err != nil {
		return err
	}
	defer lifeline.Close()
	cmd.ExtraFiles[len(cmd.ExtraFiles)-serverDescriptors+serverLifeline] = r
	if err := cmd.Start(); err != nil {
		return clusters.Explain(p, fmt.Errorf("failed to start the server of the cluster: %w", err))
	}
	// Only the server accepts from here on.
	for _, f := range cmd.ExtraFiles {
		if f != lock {
			_ = f.Close()
		}
	}
	err = cmd.Wait()
	if left := sweep(context.WithoutCancel(ctx), p); left != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", role, left)
	}
	if ctx.Err() != nil || err == nil {
		return os.RemoveAll(dir)
	}
	return err // the logs stay for inspection
}

// sweep deletes what a server that was killed could not.
func sweep(ctx context.Context, p clusters.Provider) error {
	if s, ok := p.(clusters.Sweeper); ok {
		return s.Sweep(ctx)
	}
	return nil
}

// takeLock takes the lock of a cluster's state directory, which then names this process.
func takeLock(dir string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("failed to open the lock of the cluster: %w", err)
	}
	// Processes that check whether a keeper runs hold the lock for a moment.
	wait, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err = await.Until(wait, 5*time.Millisecond, func(context.Context) error {
		return unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	})
	if err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("another cluster of this name is being started: %w", err)
	}
	if _, err := lock.WriteString(strconv.Itoa(os.Getpid())); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("failed to write the lock of the cluster: %w", err)
	}
	return lock, nil
}

// handOver opens the sockets that the server answers on and passes them after the descriptors
// that cmd already has, where the server looks for them.
func handOver(cmd *exec.Cmd, dir string, port int, events, lock *os.File) error {
	control, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, controlSocket), Net: "unix"})
	if err != nil {
		return fmt.Errorf("failed to open the control socket: %w", err)
	}
	defer control.Close()
	control.SetUnlinkOnClose(false)
	forward, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("failed to open the forwarder for kubectl on the loopback: %w; choose another --port, or leave it out", err)
	}
	defer forward.Close()
	controlFile, err := control.File()
	if err != nil {
		return err
	}
	forwardFile, err := forward.(*net.TCPListener).File()
	if err != nil {
		return err
	}
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", descriptorsFrom, 3+len(cmd.ExtraFiles)))
	cmd.ExtraFiles = append(cmd.ExtraFiles, events, controlFile, forwardFile, nil, lock)
	return nil
}
