package engine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// ErrNone is returned if no engine was found and none was requested by name.
var ErrNone = errors.New("no Docker engine was found")

// answerLimit is how long an engine may take to describe itself.
const answerLimit = 15 * time.Second

// Find returns the engine for kind: the one that DOCKER_HOST names, else the one that holdfast
// started, else the one of the Docker client's current context. holdfast's comes before the
// client's since it was started for a reason.
//
// If no engine exists, it returns an error that wraps ErrNone. If an engine that DOCKER_HOST
// names, or that holdfast started, does not answer, that is another error: another engine must
// not replace it silently.
func Find(ctx context.Context) (Engine, error) {
	p := newPlace()
	// The address of holdfast's own engine stays in shells after the engine has stopped.
	named := os.Getenv("DOCKER_HOST")
	if named == p.address() {
		named = ""
	}
	docker, err := exec.LookPath("docker")
	if err != nil {
		return Engine{}, fmt.Errorf("%w: the Docker client is missing (%w); %s", ErrNone, err, advise([]string{"docker.io"}))
	}
	if named != "" {
		e, err := ask(ctx, Engine{Host: named, Source: SourceEnvironment, docker: docker})
		if err != nil {
			return Engine{}, fmt.Errorf("failed to ask the Docker engine that DOCKER_HOST names, %s: %w; make sure that it is running, or unset DOCKER_HOST", named, err)
		}
		return e, nil
	}
	s, err := p.load()
	if err != nil {
		return Engine{}, err
	}
	if s != nil && s.Ready && s.running() {
		return p.engine(ctx, *s, docker)
	}
	if os.Getenv("DOCKER_HOST") != "" {
		return Engine{}, fmt.Errorf("%w: DOCKER_HOST names the one that holdfast started, which has stopped; start it again: holdfast kind engine", ErrNone)
	}
	e, err := ask(ctx, Engine{Host: contextHost(ctx, docker), Source: SourceContext, docker: docker})
	if ctx.Err() != nil {
		return Engine{}, ctx.Err()
	}
	if err != nil {
		return Engine{}, fmt.Errorf("%w: failed to query the engine of the Docker client's context, %s: %w", ErrNone, e.Host, err)
	}
	return e, nil
}

// contextHost returns the address that the Docker client uses, its default if the client is too
// old to report it.
func contextHost(ctx context.Context, docker string) string {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, docker, "context", "inspect", "--format", "{{.Endpoints.docker.Host}}").Output()
	if host := strings.TrimSpace(string(out)); err == nil && host != "" {
		return host
	}
	return "unix:///var/run/docker.sock"
}

// info is the relevant part of the output of `docker info`.
type info struct {
	ServerVersion   string
	OperatingSystem string
	Driver          string
	CgroupDriver    string
	CgroupVersion   string
	SecurityOptions []string
	DockerRootDir   string
	ServerErrors    []string
}

// ask requests an engine's description. If that fails, the returned engine has only what was
// known before.
func ask(ctx context.Context, e Engine) (Engine, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerLimit, fmt.Errorf("no answer within %s", answerLimit))
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := e.Docker(ctx, "info", "--format", "{{json .}}")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second
	runErr := cmd.Run()
	if ctx.Err() != nil {
		return e, fmt.Errorf("docker info: %w", context.Cause(ctx))
	}
	i, err := parseInfo(stdout.Bytes())
	if err != nil {
		// The client's output says more than its exit status.
		if words := strings.TrimSpace(stderr.String()); words != "" {
			err = errors.New(words)
		} else if runErr != nil && stdout.Len() == 0 {
			err = runErr
		}
		return e, fmt.Errorf("docker info: %w%s", err, hint(err.Error()))
	}
	e.Version, e.StorageDriver, e.DataRoot = i.ServerVersion, i.Driver, i.DockerRootDir
	e.CgroupVersion, e.CgroupDriver = i.CgroupVersion, i.CgroupDriver
	e.desktop = strings.Contains(i.OperatingSystem, "Docker Desktop")
	e.Rootless, e.UserNamespace = i.secured("rootless"), i.secured("userns")
	return e, nil
}

// parseInfo reads the output of `docker info --format '{{json .}}'`. If the engine does not
// answer, old clients (20.10) succeed and say so in ServerErrors; new ones (28) fail, name no
// version, and say why on standard error.
func parseInfo(out []byte) (info, error) {
	var i info
	if err := json.Unmarshal(out, &i); err != nil {
		return info{}, fmt.Errorf("unexpected output, which begins with %.200q: %w", out, err)
	}
	if len(i.ServerErrors) > 0 {
		return info{}, errors.New(strings.Join(i.ServerErrors, "; "))
	}
	if i.ServerVersion == "" {
		return info{}, errors.New("the output does not name a version of the engine")
	}
	i.CgroupVersion = cmp.Or(i.CgroupVersion, "1") // engines before 20.10 support no other
	return i, nil
}

// secured reports whether a security option, such as name=rootless or
// name=seccomp,profile=default, is on.
func (i info) secured(name string) bool {
	return slices.ContainsFunc(i.SecurityOptions, func(option string) bool {
		return slices.Contains(strings.Split(option, ","), "name="+name)
	})
}

// hint returns advice for an error of a Docker client.
func hint(words string) string {
	if strings.Contains(words, "permission denied") {
		return " (this user has no access to it: run as root, or as a member of the group docker)"
	}
	return ""
}
