package release

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// toolchain is the local Go toolchain, at work in one directory.
type toolchain struct {
	path    string
	version string // such as go1.26.1
	dir     string
	env     []string
}

// The go command's messages if it is too old for a module, and what to do.
const (
	tooOld       = "requires go >= "
	tooOldAdvice = "The Go toolchain is too old for this version: install a newer one, or let Go download it with GOTOOLCHAIN=auto"
)

// errNoGo is what to do without a Go toolchain.
var errNoGo = errors.New("no Go toolchain in PATH or /usr/local/go: install Go, or name a mirror of the release archives with --mirror or " + MirrorVariable)

func newToolchain(ctx context.Context, dir, arch string) (*toolchain, error) {
	path, err := FindGo()
	if err != nil {
		return nil, err
	}
	flags := strings.Fields(os.Getenv("GOFLAGS"))
	kept := flags[:0]
	for _, f := range flags {
		if !strings.HasPrefix(strings.TrimLeft(f, "-"), "mod=") {
			kept = append(kept, f)
		}
	}
	t := &toolchain{path: path, dir: dir, env: append(os.Environ(),
		"GOFLAGS="+strings.Join(append(kept, "-mod=mod"), " "),
		"GOWORK=off", "GO111MODULE=on", "GOOS=linux", "GOARCH="+arch,
		// Like the released binaries; no C compiler is needed, and the binaries run on any
		// Linux.
		"CGO_ENABLED=0",
		"PWD="+dir,
	)}
	out, err := t.run(ctx, nil, "env", "GOVERSION")
	if err != nil {
		return nil, err
	}
	t.version = strings.TrimSpace(string(out))
	return t, nil
}

// FindGo returns the path of the go command.
func FindGo() (string, error) {
	if path, err := exec.LookPath("go"); err == nil {
		return filepath.Abs(path)
	}
	// It is often missing from the PATH of sudo and of services.
	const usual = "/usr/local/go/bin/go"
	if _, err := exec.LookPath(usual); err == nil {
		return usual, nil
	}
	return "", errNoGo
}

// run runs the go command and returns its standard output. It passes each line of standard
// error to lines. If ctx ends, go and its children receive an interrupt and time to leave the
// build cache consistent.
func (t *toolchain) run(ctx context.Context, lines func(string), args ...string) ([]byte, error) {
	// The parent-death signal is tied to the thread that forked.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	cmd := exec.CommandContext(ctx, t.path, args...)
	cmd.Dir, cmd.Env = t.dir, t.env
	// A process group of its own, so that the terminal's Ctrl-C comes only through ctx.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second

	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	pr, pw := io.Pipe()
	cmd.Stderr = pw
	tail := make(chan []string)
	go func() {
		var kept []string
		s := bufio.NewScanner(pr)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			line := s.Text()
			if lines != nil {
				lines(line)
			}
			if !isProgress(line) {
				kept = append(kept, line)
			}
		}
		_, _ = io.Copy(io.Discard, pr)
		tail <- kept
	}()
	err := cmd.Run()
	pw.Close()
	kept := <-tail
	switch {
	case err == nil:
		return stdout.Bytes(), nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("stopped; what was compiled is kept; the next fetch continues from it: %w", ctx.Err())
	}
	return stdout.Bytes(), toolError(args[0], kept, err)
}

// isProgress distinguishes lines that report progress from lines that report problems.
func isProgress(line string) bool {
	return strings.HasPrefix(line, "go: downloading ") || strings.HasPrefix(line, "go: finding ") ||
		!strings.ContainsAny(line, " :")
}

// toolError makes an error of the last lines that the go command wrote.
func toolError(command string, lines []string, err error) error {
	const most = 12
	if len(lines) > most {
		lines = append([]string{"..."}, lines[len(lines)-most:]...)
	}
	text := strings.Join(lines, "\n\t")
	for _, line := range lines {
		if strings.Contains(line, tooOld) {
			text += "\n\t" + tooOldAdvice
			break
		}
	}
	return fmt.Errorf("go %s: %w\n\t%s", command, err, text)
}
