package kind

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/kind/balancer"
	"github.com/holdfast-ha/holdfast/clusters/kind/engine"
	"github.com/holdfast-ha/holdfast/clusters/kind/internal/docker"
	"github.com/holdfast-ha/holdfast/clusters/system"
)

// A paused or killed container cannot bring itself back. A guard does: a process in a session
// of its own, which outlives the one that started it.

// guardRole is the name under which the program re-executes itself as a guard, argv[0].
const guardRole = "holdfast-kind-guard"

// guardOrder is a guard's configuration, as JSON in its only argument.
type guardOrder struct {
	Engine string `json:"engine"`
	// Container is the container's ID: a later one may have the name.
	Container string `json:"container"`
	// Verb is start or unpause.
	Verb  string        `json:"verb"`
	After time.Duration `json:"after"`
}

// Main runs re-executed copies of the program in their roles (a guard, a node agent, the
// balancer, the keeper of a Docker engine) and does not return in them. Call it first in main
// or TestMain.
func Main() {
	engine.Main()
	balancer.Reexec()
	agent.Main()
	system.RunRole(map[string]func([]string) error{guardRole: runGuard})
}

func runGuard(args []string) error {
	var order guardOrder
	if len(args) != 1 || json.Unmarshal([]byte(args[0]), &order) != nil {
		return errors.New("usage: " + guardRole + " ORDER")
	}
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE)
	fmt.Println("ready") // only now may the fault begin
	awaitFault(os.Stdin, faultLimit)
	time.Sleep(order.After)
	return order.insist(guardLimit)
}

// faultLimit is how long a fault may take to begin, before its time to live starts all the same.
const faultLimit = time.Minute

// awaitFault returns when the harness writes that the fault has started, or after the limit: a
// harness that was killed writes nothing, and its docker command may still run.
func awaitFault(in io.Reader, limit time.Duration) {
	begun := make(chan struct{})
	go func() {
		if _, err := in.Read(make([]byte, 1)); err == nil {
			close(begun)
		}
	}()
	select {
	case <-begun:
	case <-time.After(limit):
	}
}

// guardLimit is how long a guard tries, for example while the engine does not answer.
const guardLimit = 10 * time.Minute

// insist tries to bring the container back until it succeeds, or until the limit is over.
func (o guardOrder) insist(limit time.Duration) error {
	for end := time.Now().Add(limit); ; time.Sleep(time.Second) {
		back, err := o.carryOut(context.Background(), docker.CLI{Host: o.Engine})
		if back || time.Now().After(end) {
			return err
		}
	}
}

// carryOut brings the container back if it is away. It returns whether it is done.
func (o guardOrder) carryOut(ctx context.Context, cli docker.CLI) (back bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	all, err := cli.Inspect(ctx, o.Container)
	switch {
	case docker.Says(err, "no such container"):
		return true, nil
	case err != nil:
		return false, err
	case o.Verb == "unpause" && !all[0].State.Paused, o.Verb == "start" && all[0].State.Running:
		return true, nil
	}
	_, err = cli.Run(ctx, o.Verb, o.Container)
	return err == nil, err
}

// guard is a guard that this process has started.
type guard struct {
	in   *os.File
	proc *os.Process
	gone chan struct{}
}

// guardUp is how long a guard may take to be ready.
const guardUp = 10 * time.Second

// startGuard returns once a guard is ready for a fault on a container.
func startGuard(order guardOrder) (*guard, error) {
	b, err := json.Marshal(order)
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	in, begun, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	cmd := &exec.Cmd{Args: []string{guardRole, string(b)}, Dir: "/", Stdin: in, Stdout: w}
	gone, err := system.Detach(cmd)
	_, _ = in.Close(), w.Close()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("failed to start a guard: %w", err), begun.Close())
	}
	g := &guard{in: begun, proc: cmd.Process, gone: gone}
	_ = r.SetReadDeadline(time.Now().Add(guardUp))
	if _, err := bufio.NewReader(r).ReadString('\n'); err != nil {
		g.end()
		return nil, fmt.Errorf("failed to start a guard: it did not become ready: %w", err)
	}
	return g, nil
}

// count starts the time to live of the fault, which has begun, or may have.
func (g *guard) count() error {
	if _, err := g.in.Write([]byte("\n")); err != nil {
		return fmt.Errorf("failed to start the countdown of a guard: %w", err)
	}
	return g.in.Close()
}

// end stops the guard; its container is back, or was not taken away.
func (g *guard) end() {
	if g != nil {
		_ = g.proc.Kill()
		<-g.gone
		_ = g.in.Close()
	}
}

// guards are those of a container, by verb: a node may be paused when its power goes.
type guards map[string]*guard

func (all guards) end() {
	for _, g := range all {
		g.end()
	}
	clear(all)
}
