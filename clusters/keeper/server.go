package keeper

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
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/scratch"
)

// server creates the cluster and serves requests for it.
type server struct {
	dir     string
	cfg     config
	files   [serverDescriptors]*os.File
	events  *json.Encoder
	cluster made
	board   *fault.Board
	down    context.CancelFunc
	started time.Time
	url     string
	// orphaned is set when the keeper is gone.
	orphaned atomic.Bool

	saying   sync.Mutex
	listener func(string) // guarded by saying
	changing sync.Mutex   // held through an upgrade
}

func runServer(providers []clusters.Provider, dir string) error {
	s := &server{dir: dir, started: time.Now()}
	first, err := strconv.Atoi(os.Getenv(descriptorsFrom))
	if err != nil {
		return errors.New("only the keeper of a cluster may start this")
	}
	_ = os.Unsetenv(descriptorsFrom)
	for i := range s.files {
		unix.CloseOnExec(first + i) // child processes must not inherit them
		s.files[i] = os.NewFile(uintptr(first+i), "descriptor of the keeper")
	}
	s.events = json.NewEncoder(s.files[serverEvents])
	signal.Ignore(syscall.SIGPIPE)
	if err = s.run(providers); err != nil {
		_ = s.events.Encode(failure(err))
	}
	return err
}

func (s *server) run(providers []clusters.Provider) (err error) {
	if s.cfg, err = loadConfig(s.dir); err != nil {
		return err
	}
	p, err := provider(providers, s.cfg.Provider)
	if err != nil {
		return err
	}
	a, err := access(p)
	if err != nil {
		return err
	}
	spec, err := loadSpec(s.dir)
	if err != nil {
		return err
	}
	control, err := net.FileListener(s.files[serverControl])
	if err != nil {
		return fmt.Errorf("failed to take over the control socket: %w", err)
	}
	forward, err := net.FileListener(s.files[serverForward])
	if err != nil {
		return fmt.Errorf("failed to take over the forwarder: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, s.down = context.WithCancel(ctx)
	defer s.down()
	go s.endWithKeeper(a.EndLimit())

	s.cluster, err = create(ctx, p, s.cfg.Attach, spec, clusters.Options{Dir: s.dir, DataDir: s.cfg.DataDir, NoWait: true, Progress: s.progress})
	if err != nil && s.orphaned.Load() {
		return fmt.Errorf("%w: %w", errKeeperDied, err)
	}
	if err != nil {
		return err
	}
	s.board = fault.NewBoard(s.cluster, s.noteFault)
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.EndLimit())
		defer cancel()
		if s.cfg.Attach { // of other clusters, everything ends
			_, healing := s.board.Heal(end)
			err = errors.Join(err, healing)
		}
		err = errors.Join(err, s.cluster.Close(end))
	}()
	return s.serve(ctx, control, forward)
}

// errKeeperDied is the error of a cluster whose keeper died while it was being created.
var errKeeperDied = errors.New("its keeper died: another process may have killed it, such as the kernel when memory ran out")

// endWithKeeper deletes the cluster when the keeper exits, and exits this process if that
// fails.
func (s *server) endWithKeeper(limit time.Duration) {
	_, _ = s.files[serverLifeline].Read(make([]byte, 1))
	s.orphaned.Store(true)
	s.down()
	time.Sleep(limit)
	os.Exit(3)
}

// stateInterval is how often the server checks that the cluster's state still exists.
const stateInterval = time.Second

// serve serves requests until the cluster ends.
func (s *server) serve(ctx context.Context, control, forward net.Listener) error {
	s.url = "https://" + forward.Addr().String()
	if err := s.writeKubeconfig(); err != nil {
		return err
	}
	f, err := newForwarder(s.cluster.Entrances()[0])
	if err != nil {
		return err
	}
	go f.serve(forward)

	failed := make(chan error, 1)
	requests := &http.Server{Handler: s.handler(), BaseContext: func(net.Listener) context.Context { return ctx }}
	go func() { failed <- requests.Serve(control) }()
	_ = s.events.Encode(upEvent{Running: true})
	ready := make(chan error, 1)
	go func() { ready <- s.cluster.Ready(ctx) }()
	look := time.NewTicker(stateInterval)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
			if !scratch.HasPath(s.files[serverLock], filepath.Join(s.dir, lockFile)) {
				return fmt.Errorf("the cluster's state in %s was removed, and without it no command finds the cluster (systemd-logind removes it at the user's last logout: run 'loginctl enable-linger')", s.dir)
			}
		case err := <-failed:
			return fmt.Errorf("failed to serve the control socket: %w", err)
		case err := <-ready:
			// A cluster that is not ready stays for inspection.
			if err == nil {
				_ = s.events.Encode(upEvent{Ready: true})
			} else if ctx.Err() == nil {
				_ = s.events.Encode(failure(err))
			}
			ready = nil
		}
	}
}

// writeKubeconfig replaces the kubeconfig of the cluster's users atomically.
func (s *server) writeKubeconfig() error {
	kubeconfig, err := s.cluster.Kubeconfig(s.url)
	if err == nil {
		err = system.ReplaceFile(filepath.Join(s.dir, kubeconfigFile), kubeconfig, 0o600, false)
	}
	if err != nil {
		return fmt.Errorf("failed to write a kubeconfig: %w", err)
	}
	return nil
}

// statusLimit is how long the answer of Status may take to collect.
const statusLimit = 1500 * time.Millisecond

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), statusLimit)
		defer cancel()
		status := Look(ctx, s.cluster, s.cluster)
		status.Started, status.Server, status.Faults = s.started, s.url, s.board.Active()
		_ = json.NewEncoder(w).Encode(status)
	})
	s.handleFaults(mux)
	s.handleChange(mux)
	mux.HandleFunc("POST /down", func(http.ResponseWriter, *http.Request) { s.down() })
	return mux
}
