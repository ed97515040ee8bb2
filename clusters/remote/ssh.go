package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"al.essio.dev/pkg/shellescape"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/framework/scratch"
)

// shell runs scripts on a node, as root.
type shell struct {
	node, destination string
	args              []string // of ssh, before the destination
	control           string   // directory of the sockets for shared connections
}

// options are defaults that the user's own arguments override: ssh uses the first value of an
// option.
func (s shell) options() []string {
	all := []string{"-T"}
	for _, o := range []string{"BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=3",
		"ControlMaster=auto", "ControlPersist=30", "ControlPath=" + filepath.Join(s.control, "%C")} {
		all = append(all, "-o", o)
	}
	return all
}

// asRoot is the command for the user's shell on the node, whichever shell that is. The script's
// $1 is sshd's SSH_CONNECTION, which sudo drops.
func asRoot(script string) string {
	quoted := shellescape.Quote(script)
	return "exec sh -c " + shellescape.Quote(`if [ "$(id -u)" = 0 ]; then exec sh -c `+quoted+` sh "$SSH_CONNECTION"; fi
exec sudo -n -- sh -c `+quoted+` sh "$SSH_CONNECTION"`)
}

func (s shell) command(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "ssh", slices.Concat(s.args, s.options(), []string{"--", s.destination, asRoot(script)})...)
	// A process group of its own, so that Ctrl-C reaches only this process: faults are healed
	// first.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// What ssh has started, such as a ProxyCommand, may outlive it and hold its output.
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

const (
	// scriptLimit is how long a script may take. On a node where a process hangs in the kernel, reading
	// /proc may hang as well, although sshd answers.
	scriptLimit = 2 * time.Minute
	// transferLimit is the same with files to copy, and takeOutLimit with a node to heal, which may wait
	// 5 min for a volume, and again for another.
	transferLimit, takeOutLimit = 15 * time.Minute, 15 * time.Minute
	// hangUpLimit is how long ending a shared connection may take.
	hangUpLimit = 5 * time.Second
)

// run runs a script and returns what it prints.
func (s shell) run(ctx context.Context, script string) (string, error) {
	return s.runFor(ctx, scriptLimit, script, nil)
}

// runFor is run with another time limit, and an input, which may be nil.
func (s shell) runFor(ctx context.Context, limit time.Duration, script string, in io.Reader) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("a script did not finish within %s: does a disk or a process hang there? (try: ssh %s ps ax)", limit, s.destination))
	defer cancel()
	cmd := s.command(ctx, script)
	var out, problem bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &problem
	err := cmd.Run()
	if err == nil || errors.Is(err, exec.ErrWaitDelay) {
		return out.String(), nil
	}
	said := lastLines(problem.String())
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.Is(err, exec.ErrNotFound):
		err = fmt.Errorf("%w: install OpenSSH's client", err)
	case errors.As(err, &exit) && exit.ExitCode() == 255:
		return "", fmt.Errorf("failed to reach %s: ssh %s: %s (try: ssh %s true)", s.node, s.destination, said, s.destination)
	case strings.HasPrefix(said, "sudo:"):
		return "", fmt.Errorf("failed to become root on %s: %s (requires root, or sudo without a password)", s.node, said)
	}
	if said != "" {
		err = fmt.Errorf("%w: %s", err, said)
	}
	return "", fmt.Errorf("on %s: %w", s.node, err)
}

// dialAgent opens a connection to the node's agent. It stays open until it is closed.
func (s shell) dialAgent(context.Context) (net.Conn, error) {
	return agent.DialCommand(s.command(context.Background(), "exec "+agent.ConnectPath))
}

// close ends the shared connection, if there is one.
func (s shell) close() {
	ctx, cancel := context.WithTimeout(context.Background(), hangUpLimit)
	defer cancel()
	_ = exec.CommandContext(ctx, "ssh", slices.Concat(s.args, s.options(), []string{"-O", "exit", "--", s.destination})...).Run()
}

// lastLines returns the last three lines in one.
func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}

// lastLine returns the last line. Others may be from the shell, such as a banner.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}

// shells returns the shell of each node of an inventory, by the node's name, and a function
// that closes them.
func shells(i *clusters.Inventory) (map[string]shell, func(), error) {
	// Sockets need short paths, so the directory is not one of the caller's.
	dir, remove, err := scratch.Dir("hf-ssh-")
	if err != nil {
		return nil, nil, fmt.Errorf("failed to create a directory for ssh: %w", err)
	}
	all := map[string]shell{}
	for _, n := range i.Spec.Nodes {
		all[n.Name] = shell{node: n.Name, destination: n.SSH, args: i.Spec.SSH, control: dir}
	}
	return all, func() {
		for _, s := range all {
			s.close()
		}
		_ = remove()
	}, nil
}
