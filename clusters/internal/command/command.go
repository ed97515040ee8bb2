// Package command runs external programs, such as docker and debootstrap. Its errors say what
// was run, the end of its output, and what to do if a program is missing.
//
// The tests run the shell and have no other requirements.
package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"al.essio.dev/pkg/shellescape"

	"github.com/holdfast-ha/holdfast/clusters/system"
)

// patience is how long a program may take to exit after SIGTERM or SIGINT.
const patience = 10 * time.Second

// Command is an external program with its arguments. Only Name is required.
type Command struct {
	// Name is looked up in PATH.
	Name string
	Args []string
	// Dir is its working directory; that of this process if empty.
	Dir string
	// Env is added to the environment of this process.
	Env []string
	// Stdin is what the program reads; nothing if nil.
	Stdin io.Reader
	// Stdout replaces the returned output.
	Stdout io.Writer
	// Lines is called with each line of standard output (unless Stdout is set) and of standard
	// error as it comes, never concurrently.
	Lines func(string)
	// Noise reports which lines the error leaves out; nil for none.
	Noise func(line string) bool
	// Interrupt stops the program with SIGINT instead of SIGTERM.
	Interrupt bool
	// Package is the Debian package that has the program, for the error if it is missing.
	Package string
	// OwnMounts gives the program a mount namespace of its own, so that its mounts disappear
	// when it exits. It needs root.
	OwnMounts bool
}

// Error is the failure of a program.
type Error struct {
	// Command is the command line.
	Command string
	// Output is the end of its output, standard error included.
	Output string
	// Err is the exit status, or why it could not be run.
	Err error
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s: %v", e.Command, e.Err)
	if e.Output != "" {
		text += "\n\t" + strings.ReplaceAll(e.Output, "\n", "\n\t")
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// Run runs the program and returns its standard output. If ctx ends, the program and its
// children receive SIGTERM (see Interrupt), and SIGKILL after ten seconds; the error is then the
// cause of ctx. Other failures are an *Error, except for a program that is not installed.
func (c Command) Run(ctx context.Context) (string, error) {
	path, err := c.find()
	if err != nil {
		return "", err
	}
	// The parent-death signal is tied to the thread that forked.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	cmd := exec.CommandContext(ctx, path, c.Args...)
	cmd.Dir, cmd.Env = c.Dir, append(os.Environ(), c.Env...)
	cmd.Stdin = c.Stdin
	// A process group of its own, so that the terminal's Ctrl-C comes through ctx.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if c.OwnMounts {
		cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	}
	stop := syscall.SIGTERM
	if c.Interrupt {
		stop = syscall.SIGINT
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, stop) }
	cmd.WaitDelay = patience

	var stdout bytes.Buffer
	said := &tail{lines: c.Lines, noise: c.Noise}
	cmd.Stdout, cmd.Stderr = c.Stdout, said.stream(nil)
	if c.Stdout == nil {
		cmd.Stdout = said.stream(&stdout)
	}
	err = cmd.Run()
	// Processes that ignored the signal must not outlive this call.
	if ctx.Err() != nil && cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	switch {
	case err == nil:
		return stdout.String(), nil
	case ctx.Err() != nil:
		return stdout.String(), fmt.Errorf("%s: stopped: %w", c, context.Cause(ctx))
	}
	return stdout.String(), &Error{Command: c.String(), Output: said.String(), Err: err}
}

func (c Command) find() (string, error) {
	path, err := system.LookProgram(c.Name)
	switch {
	case errors.Is(err, exec.ErrNotFound) && c.Package != "":
		return "", fmt.Errorf("%s is not in PATH: install it (on Debian: apt-get install %s)", c.Name, c.Package)
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("%s is not in PATH", c.Name)
	case err != nil:
		return "", &Error{Command: c.String(), Err: err}
	}
	return path, nil
}

// String is the command line, shortened where it is long.
func (c Command) String() string {
	const most = 200
	words := shellescape.QuoteCommand(append([]string{c.Name}, c.Args...))
	line := strings.Join(strings.Fields(words), " ")
	if len(line) > most {
		line = strings.ToValidUTF8(line[:most], "") + " ..."
	}
	return line
}

// tail keeps the last lines of several streams.
type tail struct {
	mu    sync.Mutex
	lines func(string)
	noise func(string) bool
	kept  []string
	cut   bool // lines before those kept were dropped
	open  []*stream
}

// stream is one of the streams; it copies to all, if there is one.
type stream struct {
	tail *tail
	all  *bytes.Buffer
	rest []byte
}

func (t *tail) stream(all *bytes.Buffer) io.Writer {
	s := &stream{tail: t, all: all}
	t.open = append(t.open, s)
	return s
}

func (s *stream) Write(p []byte) (int, error) {
	s.tail.mu.Lock()
	defer s.tail.mu.Unlock()
	if s.all != nil {
		s.all.Write(p)
	}
	s.rest = append(s.rest, p...)
	for {
		// Progress bars end their lines with a carriage return.
		end := bytes.IndexAny(s.rest, "\r\n")
		if end < 0 {
			break
		}
		s.tail.line(string(s.rest[:end]))
		s.rest = s.rest[end+1:]
	}
	return len(p), nil
}

func (t *tail) line(line string) {
	const most = 12
	if strings.TrimSpace(line) == "" {
		return
	}
	if t.lines != nil {
		t.lines(line)
	}
	if t.noise != nil && t.noise(line) {
		return
	}
	if t.kept = append(t.kept, line); len(t.kept) > most {
		t.kept, t.cut = t.kept[1:], true
	}
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var kept []string
	if t.cut {
		kept = []string{"..."}
	}
	kept = append(kept, t.kept...)
	for _, s := range t.open {
		if rest := strings.TrimSpace(string(s.rest)); rest != "" {
			kept = append(kept, rest)
		}
	}
	return strings.Join(kept, "\n")
}
