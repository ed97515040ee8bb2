package remote

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
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/system"
)

// A node without power cannot heal itself. Its guard does, a copy of this program in a session of
// its own, which outlives the harness. The guard cuts the power and restores it: when its input
// ends, whether the harness closes it or is killed, or when the time to live is over.

// guardRole is the name under which the program re-executes itself as a guard, argv[0].
const guardRole = "holdfast-power-guard"

// guardOrder is what a guard reads first. It is not an argument: commands may have passwords.
type guardOrder struct {
	Power *power        `json:"power"`
	TTL   time.Duration `json:"ttl"`
}

const (
	// guardLimit is how long a guard tries to restore the power.
	guardLimit = 24 * time.Hour
	// latest is after how many times power.Late a command off counts as without effect: with its own
	// limit, after 2 min. Clouds take about a minute to stop a machine.
	latest = 4
)

// guardMain runs this process as a guard.
func guardMain([]string) error {
	// Caught and not ignored: the commands would ignore them as well.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE)
	return runGuard(os.Stdin, os.Stdout)
}

// runGuard writes a line when the power is off: empty, or why it may still be on.
func runGuard(in io.Reader, out io.Writer) error {
	var order guardOrder
	if err := json.NewDecoder(in).Decode(&order); err != nil {
		return fmt.Errorf("failed to read the guard's configuration: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, in)
	}()
	problem := ""
	pending, err := order.Power.off(context.Background())
	if err != nil {
		problem = err.Error()
	}
	pendingUntil := time.Now().Add(latest * order.Power.Late)
	line, err := json.Marshal(problem)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "%s\n", line) // the harness may be gone
	select {
	case <-ended:
	case <-time.After(order.TTL):
	}
	if pending { // power that is on now is not restored yet
		_ = order.Power.awaitOff(context.Background(), time.Until(pendingUntil), order.Power.Pause)
	}
	trying, cancel := context.WithTimeout(context.Background(), guardLimit)
	defer cancel()
	return order.Power.on(trying)
}

// guard is a guard that this process has started.
type guard struct {
	in     *os.File // its end makes the guard restore the power
	pid    int
	answer chan string
	once   sync.Once
	// gone is closed when the guard has exited: the power is on again.
	gone chan struct{}
}

// startGuard starts a guard, which cuts the power for a time to live.
func startGuard(p *power, ttl time.Duration) (*guard, error) {
	order, err := json.Marshal(guardOrder{p, ttl})
	if err != nil {
		return nil, err
	}
	in, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	read, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close(), write.Close())
	}
	cmd := &exec.Cmd{Args: []string{guardRole}, Stdin: in, Stdout: out}
	exited, err := system.Detach(cmd)
	_, _ = in.Close(), out.Close()
	if err == nil {
		_, err = write.Write(append(order, '\n'))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("failed to start the guard of the power of %s: %w", p.Node, err), write.Close(), read.Close())
	}
	g := &guard{in: write, pid: cmd.Process.Pid, answer: make(chan string, 1), gone: make(chan struct{})}
	go func() {
		defer close(g.gone)
		defer read.Close()
		line, err := bufio.NewReader(read).ReadBytes('\n')
		problem := ""
		if err == nil {
			err = json.Unmarshal(line, &problem)
		}
		if err != nil {
			problem = "the guard of the power of " + p.Node + " has exited"
		}
		g.answer <- problem
		<-exited
	}()
	return g, nil
}

// cut returns once the power is off.
func (g *guard) cut(ctx context.Context) error {
	select {
	case problem := <-g.answer:
		if problem != "" {
			return errors.New(problem)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// release makes the guard restore the power, and returns once it has, or has died.
func (g *guard) release(ctx context.Context) error {
	g.once.Do(func() { _ = g.in.Close() })
	select {
	case <-g.gone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
