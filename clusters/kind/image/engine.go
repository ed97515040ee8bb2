package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/internal/command"
	"github.com/holdfast-ha/holdfast/clusters/kind/internal/docker"
	"github.com/holdfast-ha/holdfast/clusters/release"
)

// engine is a Docker engine, accessed through the docker command.
type engine struct {
	// host is as in DOCKER_HOST; empty for that of the environment.
	host string
}

// cleanupTimeout is how long removing a container or an image may take.
const cleanupTimeout = 30 * time.Second

func (e engine) command(args ...string) command.Command {
	return docker.CLI{Host: e.host}.Command(args...)
}

// run runs docker and returns its output, without surrounding spaces.
func (e engine) run(ctx context.Context, args ...string) (string, error) {
	return e.do(ctx, e.command(args...))
}

func (e engine) do(ctx context.Context, c command.Command) (string, error) {
	out, err := c.Run(ctx)
	return strings.TrimSpace(out), e.explain(err)
}

// explain adds advice to an error of docker.
func (e engine) explain(err error) error {
	switch says := func(text string) bool { return docker.Says(err, text) }; {
	case says("Cannot connect to the Docker daemon"), says("error during connect"), says("permission denied while trying to connect"):
		return fmt.Errorf("no Docker engine answers at %s: %w\n\tStart one (`holdfast kind engine` does, without a Docker installation of the machine), or name another with DOCKER_HOST; `holdfast doctor` says more", e.where(), err)
	case says("no space left on device"):
		return fmt.Errorf("the disk of the Docker engine is full: %w\n\tBuilding images needs about %s in its data directory (docker info -f '{{.DockerRootDir}}'): free some, with docker image prune for example, or give it another directory", err, release.Size(uint64(engineSpace)))
	}
	return err
}

func (e engine) where() string {
	return cmp.Or(e.host, os.Getenv("DOCKER_HOST"), "unix:///var/run/docker.sock")
}

// check reports whether the engine answers, and runs images for arch.
func (e engine) check(ctx context.Context, arch string) error {
	out, err := e.run(ctx, "version", "--format", "{{.Server.Version}} {{.Server.Arch}}")
	if err != nil {
		return err
	}
	version, has, _ := strings.Cut(out, " ")
	if has != arch {
		return fmt.Errorf("the Docker engine %s at %s runs programs for %s, and this one is for %s: use an engine of the same architecture", version, e.where(), has, arch)
	}
	return nil
}

// dataDir is where the engine keeps images; empty if it does not say.
func (e engine) dataDir(ctx context.Context) string {
	dir, err := e.run(ctx, "info", "--format", "{{.DockerRootDir}}")
	if err != nil {
		return ""
	}
	return dir
}

// inspect returns an image's ID and one of its labels; the ID is empty if the image does not
// exist.
func (e engine) inspect(ctx context.Context, name, label string) (id, value string, err error) {
	out, err := e.run(ctx, "image", "inspect", "--format", `{{.Id}} {{with .Config}}{{with .Labels}}{{index . "`+label+`"}}{{end}}{{end}}`, name)
	if docker.Says(err, "no such image") {
		return "", "", nil
	} else if err != nil {
		return "", "", err
	}
	id, value, _ = strings.Cut(out, " ")
	return id, value, nil
}

func (e engine) has(ctx context.Context, name string) (bool, error) {
	id, _, err := e.inspect(ctx, name, "")
	return id != "", err
}

// load loads the archive that write writes into the engine.
func (e engine) load(ctx context.Context, write func(io.Writer) error) error {
	return e.feed(ctx, e.command("load", "--quiet"), write)
}

// feed runs a command that reads what write writes.
func (e engine) feed(ctx context.Context, c command.Command, write func(io.Writer) error) error {
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := write(w)
		w.CloseWithError(err)
		written <- err
	}()
	c.Stdin = r
	_, err := e.do(ctx, c)
	// A command that has exited early reads no more.
	r.CloseWithError(errStoppedReading)
	if cause := <-written; cause != nil && !errors.Is(cause, errStoppedReading) && ctx.Err() == nil {
		return cause
	}
	return err
}

var errStoppedReading = errors.New("its reader is gone")

// cleanup runs docker to remove something, also after ctx has ended. It ignores errors: usually
// there is nothing to remove.
func (e engine) cleanup(ctx context.Context, args ...string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	_, _ = e.run(ctx, args...)
}
