package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/kind/internal/archive"
)

// privilegedLimit is how long an engine may take to run one small container.
const privilegedLimit = time.Minute

// PrivilegedError says why an engine cannot run privileged containers.
type PrivilegedError struct {
	Engine Engine
	// Output is the Docker client's output.
	Output string
	// Advice is what to do.
	Advice string
}

func (e *PrivilegedError) Error() string {
	return fmt.Sprintf("the Docker engine at %s cannot run privileged containers: %s; %s", e.Engine.Host, e.Output, e.Advice)
}

// CheckPrivileged runs a privileged container, as kind does for a node, and returns a
// *PrivilegedError if the engine cannot. The container's image is one program of a few bytes,
// so that no image registry is needed; both are removed again.
func CheckPrivileged(ctx context.Context, e Engine) error {
	image, err := probeImage(runtime.GOARCH)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, privilegedLimit, fmt.Errorf("not done after %s", privilegedLimit))
	defer cancel()
	id, err := e.output(ctx, bytes.NewReader(image), "import", "-")
	if err != nil {
		return e.refuses(ctx, err)
	}
	name := fmt.Sprintf("holdfast-probe-%d", os.Getpid())
	defer func() {
		// Also when ctx has ended, or the container was not removed automatically.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		_, _ = e.output(ctx, nil, "rm", "--force", "--volumes", name)
		_, _ = e.output(ctx, nil, "rmi", "--force", id)
	}()
	_, err = e.output(ctx, nil, e.probeArgs(name, id)...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == probeExit {
		return nil
	}
	if err == nil {
		err = errors.New("the container exited without doing its work")
	}
	return e.refuses(ctx, err)
}

// probeArgs are the arguments of `docker run`, including what kind requests besides
// --privileged.
func (e Engine) probeArgs(name, image string) []string {
	args := []string{"run", "--rm", "--name", name, "--network", "none", "--privileged",
		"--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined", "--cgroupns", "private"}
	if e.UserNamespace {
		args = append(args, "--userns", "host")
	}
	return append(args, image, "/"+probeFile)
}

// output runs the Docker client and returns its output. An error includes standard error, and
// wraps that of exec.
func (e Engine) output(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := e.Docker(ctx, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if words := strings.TrimSpace(stderr.String()); err != nil && words != "" {
		err = fmt.Errorf("docker %s: %s (%w)", args[0], words, err)
	} else if err != nil {
		err = fmt.Errorf("docker %s: %w", args[0], err)
	}
	return strings.TrimSpace(stdout.String()), err
}

// refuses adds advice to an error of the Docker client.
func (e Engine) refuses(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Cause(ctx)
	}
	return &PrivilegedError{Engine: e, Output: err.Error(), Advice: e.privilegedAdvice(err.Error())}
}

// complaints are Docker's messages when a privileged container does not start, and what they
// mean.
var complaints = []struct{ said, means string }{
	{"unable to apply caps", "a capability is missing in the engine's bounding set (often CAP_SYS_RESOURCE, in a container or a virtual machine of a service)"},
	{"no space left on device", "the disk with the engine's data is full: free some; `docker system prune` removes what is not used"},
	{"devices.allow", "the engine is not allowed to set the control groups' device rules"},
	{"Devices cgroup isn't mounted", "no control groups are mounted (Debian package cgroupfs-mount)"},
	{"cgroup", "the engine is not allowed to use this machine's control groups the way kind needs"},
	{"user namespaces", "the engine was started with userns-remap, and keeps privileged containers from the host's namespace"},
	{"permission denied", "this user is not allowed to use the engine, or a security module keeps it from starting containers"},
	{"operation not permitted", "the engine itself lacks privileges on this machine, as in an unprivileged container"},
	{"exec format error", "the engine is on a machine of another architecture"},
}

// privilegedAdvice explains an error of a privileged container, and what to do.
func (e Engine) privilegedAdvice(output string) string {
	advice := "use another engine, or one of holdfast's own: holdfast kind engine start"
	if e.Source == SourceEnvironment {
		advice = "name another one in DOCKER_HOST, or unset it and use one of holdfast's own: holdfast kind engine start"
	}
	if e.Source == SourceHoldfast {
		advice = "it already runs in a sandbox; see its log, " + e.Log
	}
	for _, c := range complaints {
		if strings.Contains(output, c.said) {
			return c.means + "; " + advice
		}
	}
	return advice
}

const (
	// probeFile is the only file of the probe's image.
	probeFile = "holdfast-probe"
	// probeExit is the exit code that only the probe has.
	probeExit = 42
)

// probeImage returns a file system, as a tar archive, with nothing but a program
// that exits with probeExit.
func probeImage(arch string) ([]byte, error) {
	program, err := probeProgram(arch)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = archive.Files([]archive.File{{Name: probeFile, Mode: 0o755, Data: program}})(&b)
	return b.Bytes(), err
}

// probeCode is exit(probeExit), by architecture.
var probeCode = map[string]struct {
	machine uint16
	code    []byte
}{
	// mov edi, 42; mov eax, 60; syscall
	"amd64": {62, []byte{0xbf, probeExit, 0, 0, 0, 0xb8, 60, 0, 0, 0, 0x0f, 0x05}},
	// mov x0, #42; mov x8, #93; svc #0
	"arm64": {183, []byte{0x40, 0x05, 0x80, 0xd2, 0xa8, 0x0b, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4}},
}

// probeProgram returns an ELF executable of a hundred-odd bytes. This program itself would do
// too, but an engine needs seconds to import it, and if it is dynamically linked, like test
// binaries, it does not run without the system's libraries.
func probeProgram(arch string) ([]byte, error) {
	probe, ok := probeCode[arch]
	if !ok {
		return nil, fmt.Errorf("holdfast cannot try privileged containers on %s", arch)
	}
	const (
		headers = 64 + 56
		base    = 0x400000
	)
	size := uint64(headers + len(probe.code))
	var b bytes.Buffer
	b.Write([]byte{0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}) // 64 bits, little-endian
	for _, field := range []any{
		uint16(2), probe.machine, uint32(1), // an executable
		uint64(base + headers), uint64(64), uint64(0), uint32(0), // entry, program header, no sections
		uint16(64), uint16(56), uint16(1), uint16(0), uint16(0), uint16(0),
		// The only program header: the whole file, to be read and run.
		uint32(1), uint32(5), uint64(0), uint64(base), uint64(base), size, size, uint64(0x10000),
	} {
		_ = binary.Write(&b, binary.LittleEndian, field)
	}
	b.Write(probe.code)
	return b.Bytes(), nil
}
