package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/system"
)

// Names under which the program re-executes itself inside a node, as argv[0].
const (
	roleAgent   = "holdfast-node-agent"
	roleConnect = "holdfast-node-connect"
	roleKeep    = "holdfast-node-keep"
)

// Main runs the program's roles inside a node, in which case it does not return; elsewhere it
// returns. Call it first in main or TestMain.
//
//	holdfast-node-agent CONFIG     the agent
//	holdfast-node-connect [SOCKET] joins standard input and output to its socket
//	holdfast-node-keep CONFIG      restarts the agent whenever it exits, on machines without systemd
func Main() {
	system.RunRole(map[string]func([]string) error{
		roleAgent:   runAgent,
		roleConnect: func(args []string) error { return connect(args, os.Stdin, os.Stdout) },
		roleKeep:    keepAgent,
	})
}

// connect joins in and out to an agent's socket until either side closes.
func connect(args []string, in io.Reader, out io.Writer) error {
	socket := defaultSocket
	if len(args) > 0 {
		socket = args[0]
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return fmt.Errorf("failed to reach the node agent: %w", err)
	}
	defer conn.Close()
	done := make(chan error, 2)
	go func() {
		_, err := io.Copy(conn, in)
		// The answer may still be in transit.
		done <- errors.Join(err, conn.(*net.UnixConn).CloseWrite())
	}()
	go func() {
		_, err := io.Copy(out, conn)
		done <- err
	}()
	err = <-done
	if err == nil {
		select {
		case err = <-done:
		case <-time.After(time.Second):
		}
	}
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ENOTCONN) {
		return nil // the reader has closed its end
	}
	return err
}

// keepPause is the time between the exit of an agent and the start of the next one.
const keepPause = 100 * time.Millisecond

// keepAgent restarts the agent whenever it exits.
func keepAgent(args []string) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("failed to find this program's own file: %w", err)
	}
	for {
		cmd := &exec.Cmd{Path: exe, Args: append([]string{roleAgent}, args...), Stdout: os.Stdout, Stderr: os.Stderr}
		if err := cmd.Run(); err != nil {
			fmt.Fprintf(os.Stderr, "%s: the agent exited (%v); starting it again\n", roleKeep, err)
		}
		time.Sleep(keepPause)
	}
}

func runAgent(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: " + roleAgent + " CONFIG")
	}
	if args[0] == clearArgument {
		return clearTables()
	}
	config, err := readConfig(args[0])
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	return Run(ctx, config, nil)
}

// Run runs the agent: it heals what has expired, keeps the rest active, and serves requests on
// its socket until ctx ends. Active faults then stay active, for the next agent to heal. more
// handles the requests that only a provider's agents serve; nil if there are none.
func Run(ctx context.Context, config Config, more func(*http.ServeMux)) error {
	a, err := newAgent(config)
	if err != nil {
		return err
	}
	defer a.close()
	if err := system.SetSysctls(config.Sysctls); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(config.Socket), 0o755); err != nil {
		return fmt.Errorf("failed to make the directory of the agent's socket: %w", err)
	}
	// An agent that was killed leaves its socket behind.
	if err := os.Remove(config.Socket); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("failed to take over the agent's socket: %w", err)
	}
	l, err := net.Listen("unix", config.Socket)
	if err != nil {
		return fmt.Errorf("failed to listen on the agent's socket: %w", err)
	}
	// What had to be healed is healed. Only systemd needs to know that, so a failure is ignored.
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
	all, ctx := errgroup.WithContext(ctx)
	for _, c := range a.config.Components {
		all.Go(func() error { a.watchers[c.Name].run(ctx); return nil })
	}
	all.Go(func() error { a.leash(ctx); return nil })
	all.Go(func() error { a.beat(ctx); return nil })
	all.Go(func() error {
		if err := agenthttp.Serve(ctx, l, a.handler(more)); err != nil {
			return fmt.Errorf("failed to answer on the agent's socket: %w", err)
		}
		return nil
	})
	return all.Wait()
}
