package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local/pki"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// A cluster that outlives its command is kept by a keeper: a process outside
// the sandbox that holds the lock of the cluster's state directory, and whose
// end ends the sandbox. The sandbox's first process is the server: it makes the
// cluster and answers on descriptors that the keeper opened, since sockets made
// outside a network namespace work inside it.

// Files of a cluster's state directory.
const (
	lockFile       = "lock"
	clusterFile    = "cluster.json"
	controlSocket  = "control.sock"
	kubeconfigFile = "kubeconfig"
	keeperLog      = "keeper.log"
	faultsLog      = "logs/faults.jsonl"
)

// keeperConfig is what a keeper is told, as JSON in its only argument.
type keeperConfig struct {
	Dir      string `json:"dir"`
	CacheDir string `json:"cacheDir"`
	DataDir  string `json:"dataDir"`
	// Port is that of the forwarder on the loopback; 0 for any.
	Port int `json:"port"`
}

// upEvent is one line of what a keeper tells the command that started it.
type upEvent struct {
	Message string `json:"message,omitempty"`
	Error   string `json:"error,omitempty"`
	// Running is set when the machines run, Ready when the cluster is ready.
	Running bool `json:"running,omitempty"`
	Ready   bool `json:"ready,omitempty"`
}

// Descriptors that the keeper gets from Up, and the server from the keeper.
const (
	keeperEventsFD  = 3
	serverEventsFD  = 4 // 3 is the sandbox's lifeline
	serverControlFD = 5
	serverForwardFD = 6
)

func runKeeper(args []string) error {
	events := os.NewFile(keeperEventsFD, "events")
	// Where the command that started the keeper is gone, nobody listens.
	signal.Ignore(syscall.SIGPIPE)
	err := keep(args, events)
	if err != nil {
		_ = json.NewEncoder(events).Encode(upEvent{Error: err.Error()})
	}
	return err
}

func keep(args []string, events *os.File) error {
	var cfg keeperConfig
	if len(args) != 1 || json.Unmarshal([]byte(args[0]), &cfg) != nil {
		return errors.New("usage: holdfast-keeper CONFIG")
	}
	lock := flock.New(filepath.Join(cfg.Dir, lockFile))
	// Those who look whether a keeper lives hold the lock for a moment.
	wait, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, err := lock.TryLockContext(wait, 5*time.Millisecond); err != nil {
		return fmt.Errorf("another cluster of this name is being started: %w", err)
	}
	// Also keeps the lock's file from being collected as garbage, and closed.
	defer lock.Close()
	if err := os.WriteFile(filepath.Join(cfg.Dir, lockFile), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return err
	}
	control, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(cfg.Dir, controlSocket), Net: "unix"})
	if err != nil {
		return fmt.Errorf("opening the control socket: %w", err)
	}
	forward, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(cfg.Port)))
	if err != nil {
		return fmt.Errorf("opening the forwarder for kubectl on the loopback: %w; choose another --port, or leave it out", err)
	}
	controlFile, err := control.File()
	if err != nil {
		return err
	}
	forwardFile, err := forward.(*net.TCPListener).File()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cmd, err := Command(ctx, SandboxOptions{Arg0: roleServer}, args[0])
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = append(cmd.ExtraFiles, events, controlFile, forwardFile)
	if err := cmd.Start(); err != nil {
		return ExplainStart(fmt.Errorf("starting the sandbox: %w", err))
	}
	// Only the server accepts from here on.
	control.SetUnlinkOnClose(false)
	_, _, _ = control.Close(), forward.Close(), events.Close()
	err = cmd.Wait()
	SweepLimits() // a server that was killed could not
	if ctx.Err() != nil || err == nil {
		return os.RemoveAll(cfg.Dir)
	}
	return err // the logs stay, to be looked into
}

// server is the first process of the sandbox of a cluster made by Up.
type server struct {
	cfg     keeperConfig
	events  *json.Encoder
	cluster *Cluster
	board   *fault.Board
	down    context.CancelFunc
	started time.Time
	url     string
}

func runServer(args []string) error {
	for fd := serverEventsFD; fd <= serverForwardFD; fd++ {
		unix.CloseOnExec(fd)
	}
	s := &server{events: json.NewEncoder(os.NewFile(serverEventsFD, "events")), started: time.Now()}
	signal.Ignore(syscall.SIGPIPE)
	err := s.run(args)
	if err != nil {
		_ = s.events.Encode(upEvent{Error: err.Error()})
	}
	return err
}

func (s *server) run(args []string) error {
	if len(args) != 1 || json.Unmarshal([]byte(args[0]), &s.cfg) != nil {
		return errors.New("usage: holdfast-server CONFIG")
	}
	b, err := os.ReadFile(filepath.Join(s.cfg.Dir, clusterFile))
	if err != nil {
		return err
	}
	var spec clusters.Cluster
	if err := json.Unmarshal(b, &spec); err != nil {
		return fmt.Errorf("reading the cluster's description: %w", err)
	}
	control, err := net.FileListener(os.NewFile(serverControlFD, "control"))
	if err != nil {
		return fmt.Errorf("taking over the control socket: %w", err)
	}
	forward, err := net.FileListener(os.NewFile(serverForwardFD, "forward"))
	if err != nil {
		return fmt.Errorf("taking over the forwarder: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, s.down = context.WithCancel(ctx)
	defer s.down()

	s.cluster, err = Create(ctx, &spec, Options{Dir: s.cfg.Dir, DataDir: s.cfg.DataDir, CacheDir: s.cfg.CacheDir, NoWait: true,
		Progress: func(m string) { _ = s.events.Encode(upEvent{Message: m}) }})
	if err != nil {
		return err
	}
	defer s.cluster.Close(context.WithoutCancel(ctx))
	s.board = fault.NewBoard(s.cluster, s.noteFault)
	s.url = "https://" + forward.Addr().String()
	kubeconfig, err := s.cluster.pki.Kubeconfig(pki.Admin(), s.url)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.cfg.Dir, kubeconfigFile), kubeconfig, 0o600); err != nil {
		return err
	}
	target := s.cluster.entrances[0].Config.Host[len("https://"):]
	go forwardTo(forward, target, s.cluster.dialer())

	failed := make(chan error, 1)
	go func() { failed <- http.Serve(control, s.handler()) }()
	_ = s.events.Encode(upEvent{Running: true})
	ready := make(chan error, 1)
	go func() { ready <- s.cluster.Ready(ctx) }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return fmt.Errorf("serving the control socket: %w", err)
		case err := <-ready:
			// A cluster that is not ready stays, to be looked into.
			if err == nil {
				_ = s.events.Encode(upEvent{Ready: true})
			} else if ctx.Err() == nil {
				_ = s.events.Encode(upEvent{Error: err.Error()})
			}
			ready = nil
		}
	}
}
