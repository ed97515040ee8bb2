package remote

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/framework/redact"
)

// power is the power of a node, which the owner's commands cut and restore.
type power struct {
	Node    string                   `json:"node"`
	Address string                   `json:"address"`
	Do      *clusters.InventoryPower `json:"do"`
	// Pause is the time between two attempts to restore power.
	Pause time.Duration `json:"pause"`
	// Late is how long status may report on after the command off.
	Late time.Duration `json:"late"`
}

// Limits of the owner's commands, and of their effect.
const (
	statusLimit = 10 * time.Second
	changeLimit = 30 * time.Second
	offLimit    = 30 * time.Second // see power.Late
	onPause     = 5 * time.Second
	statusPause = 200 * time.Millisecond
)

// powerOf returns the power of a node; nil if it has no power commands.
func powerOf(n clusters.InventoryNode) *power {
	if n.Power == nil {
		return nil
	}
	return &power{Node: n.Name, Address: n.Address.String(), Do: n.Power, Pause: onPause, Late: offLimit}
}

// off runs the command off, and returns once status reports off. If that fails, pending reports whether
// the power may still go off, as what the command has started may take long.
func (p *power) off(ctx context.Context) (pending bool, err error) {
	if _, err := p.run(ctx, "off", p.Do.Off, changeLimit); err != nil {
		return !errors.As(err, new(*exec.ExitError)), err
	}
	err = p.awaitOff(ctx, p.Late, statusPause)
	return err != nil, err
}

// awaitOff returns once status reports off.
func (p *power) awaitOff(ctx context.Context, limit, pause time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it was not off within %s", limit))
	defer cancel()
	return await.Until(ctx, pause, func(ctx context.Context) error { return p.is(ctx, false) })
}

// on runs the command on, unless status reports on, and again until it does.
func (p *power) on(ctx context.Context) error {
	for {
		on, err := p.status(ctx)
		if on {
			return nil
		}
		if _, failed := p.run(ctx, "on", p.Do.On, changeLimit); failed != nil {
			err = failed
		}
		waiting, cancel := context.WithTimeout(ctx, p.Pause)
		still := await.Until(waiting, statusPause, func(ctx context.Context) error { return p.is(ctx, true) })
		cancel()
		if still == nil {
			return nil
		}
		if ctx.Err() != nil {
			return cmp.Or(err, still)
		}
	}
}

// is returns an error unless status reports that state.
func (p *power) is(ctx context.Context, on bool) error {
	now, err := p.status(ctx)
	if err == nil && now != on {
		err = fmt.Errorf("the power command status of %s still reports %s", p.Node, map[bool]string{true: "on", false: "off"}[now])
	}
	return err
}

// status asks for the state of the power.
func (p *power) status(ctx context.Context) (on bool, err error) {
	out, err := p.run(ctx, "status", p.Do.Status, statusLimit)
	if err != nil {
		return false, err
	}
	first, _, _ := strings.Cut(out, "\n")
	switch first = strings.TrimSpace(first); first {
	case "on", "off":
		return first == "on", nil
	}
	return false, fmt.Errorf("the power command status of %s printed %q: want on or off in its first line", p.Node, p.redact(first))
}

// run runs one of the commands and returns its output.
func (p *power) run(ctx context.Context, name, command string, limit time.Duration) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it did not finish within %s", limit))
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Env = append(os.Environ(), "HOLDFAST_NODE="+p.Node, "HOLDFAST_ADDRESS="+p.Address)
	// A process group of its own, for Ctrl-C and to stop what the command has started.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) { // what it left in the background holds its output
		err = nil
	}
	if err == nil {
		return out.String(), nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if said := lastLines(problem.String()); said != "" {
		err = fmt.Errorf("%w: %s", err, p.redact(said))
	}
	return "", fmt.Errorf("the power command %s of %s failed: %w", name, p.Node, err)
}

// redact removes secrets from what a command has printed: also the arguments of all commands, since
// a password among them may have any form.
func (p *power) redact(text string) string {
	var words []string
	for _, command := range []string{p.Do.Off, p.Do.On, p.Do.Status} {
		all := wordsOf(command)
		words = append(words, all[min(1, len(all)):]...)
	}
	slices.SortFunc(words, func(a, b string) int { return len(b) - len(a) }) // one may contain another
	for _, w := range words {
		if len(w) > 4 {
			text = strings.ReplaceAll(text, w, redact.Mark)
		}
	}
	return redact.New().Text(text)
}

// wordsOf splits a command of a shell into its words.
func wordsOf(command string) []string {
	return strings.FieldsFunc(command, func(r rune) bool { return strings.ContainsRune(" \t\n'\"=;|&()<>", r) })
}

// programOf returns a command without its arguments: a password among them may have any form.
func programOf(command string) string {
	all := wordsOf(command)
	if len(all) < 2 {
		return command
	}
	return all[0] + " " + redact.Mark
}
