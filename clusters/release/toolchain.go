package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/holdfast-ha/holdfast/clusters/internal/command"
)

// toolchain is the local Go toolchain, at work in one directory.
type toolchain struct {
	path    string
	version string // such as go1.26.1
	dir     string
	env     []string // added to that of this process
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
	t := &toolchain{path: path, dir: dir, env: []string{
		"GOFLAGS=" + strings.Join(append(kept, "-mod=mod"), " "),
		"GOWORK=off", "GO111MODULE=on", "GOOS=linux", "GOARCH=" + arch,
		// Like the released binaries; no C compiler is needed, and the binaries run on any
		// Linux.
		"CGO_ENABLED=0",
		"PWD=" + dir,
	}}
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
	var stdout bytes.Buffer
	_, err := command.Command{Name: t.path, Args: args, Dir: t.dir, Env: t.env, Stdout: &stdout,
		Lines: lines, Noise: isProgress, Interrupt: true}.Run(ctx)
	failed, ok := errors.AsType[*command.Error](err)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("stopped; what was compiled is kept; the next fetch continues from it: %w", ctx.Err())
	case !ok:
		return stdout.Bytes(), err
	}
	text := strings.ReplaceAll(failed.Output, "\n", "\n\t")
	if strings.Contains(text, tooOld) {
		text += "\n\t" + tooOldAdvice
	}
	return stdout.Bytes(), fmt.Errorf("go %s: %w\n\t%s", args[0], failed.Err, text)
}

// isProgress distinguishes lines that report progress from lines that report problems.
func isProgress(line string) bool {
	return strings.HasPrefix(line, "go: downloading ") || strings.HasPrefix(line, "go: finding ") ||
		!strings.ContainsAny(line, " :")
}
