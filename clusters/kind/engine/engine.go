package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/system"
)

// Source says how an engine was found.
type Source string

const (
	// SourceEnvironment is an engine that DOCKER_HOST names.
	SourceEnvironment Source = "environment"
	// SourceContext is the engine of the Docker client's current context: that of the default
	// socket, unless another one was chosen.
	SourceContext Source = "context"
	// SourceHoldfast is an engine that Start started.
	SourceHoldfast Source = "holdfast"
)

// Engine is a Docker engine that answers.
type Engine struct {
	// Host is the engine's address, as in DOCKER_HOST.
	Host   string `json:"host"`
	Source Source `json:"source"`
	// Version is that of dockerd.
	Version       string `json:"version"`
	StorageDriver string `json:"storageDriver"`
	// CgroupVersion is "1" or "2".
	CgroupVersion string `json:"cgroupVersion"`
	CgroupDriver  string `json:"cgroupDriver"`
	// Rootless reports that the engine runs as an ordinary user, so that its
	// containers' addresses cannot be reached from here.
	Rootless bool `json:"rootless"`
	// UserNamespace reports that the engine gives containers a user namespace of
	// their own (userns-remap).
	UserNamespace bool `json:"userNamespace"`
	// DataRoot is the engine's data directory.
	DataRoot string `json:"dataRoot"`
	// PID and StartTicks are those of the first process of an engine that
	// holdfast started; 0 for others.
	PID        int    `json:"pid,omitempty"`
	StartTicks uint64 `json:"startTicks,omitempty"`
	// Started is when holdfast started it.
	Started time.Time `json:"started,omitzero"`
	// Log is the file that dockerd of an engine of holdfast writes to.
	Log string `json:"log,omitempty"`
	// Warning describes a problem, for people; usually empty.
	Warning string `json:"warning,omitempty"`

	// docker is the path of the Docker client.
	docker string
	// desktop reports that the engine is in a virtual machine of its own.
	desktop bool
}

// String describes the engine in a few words.
func (e Engine) String() string {
	words := fmt.Sprintf("Docker %s at %s (%s, %s, cgroup v%s", e.Version, e.Host, e.origin(), e.StorageDriver, e.CgroupVersion)
	if e.Rootless {
		words += ", rootless"
	}
	if e.UserNamespace {
		words += ", userns-remap"
	}
	return words + ")"
}

func (e Engine) origin() string {
	switch e.Source {
	case SourceEnvironment:
		return "named by DOCKER_HOST"
	case SourceHoldfast:
		return "started by holdfast"
	}
	return "the Docker client's own"
}

// Environ returns the environment of this process, changed so that Docker
// clients and kind talk to the engine.
func (e Engine) Environ() []string {
	if e.Source != SourceHoldfast {
		return os.Environ() // the engine was found through it
	}
	return append(withoutDocker(os.Environ()), "DOCKER_HOST="+e.Host)
}

// withoutDocker removes the variables that send a Docker client somewhere, or
// make it talk TLS.
func withoutDocker(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"}, name)
	})
}

// Docker returns a command of the Docker client that talks to the engine.
func (e Engine) Docker(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, cmp.Or(e.docker, "docker"), args...)
	cmd.Env = e.Environ()
	return cmd
}

// Command returns a command that runs inside the engine's network, where the addresses of
// containers can be reached, with an environment in which Docker clients and kind talk to the
// engine. The rest is as in this process: the user, the files, the visible processes, its
// streams.
//
// Only an engine that holdfast started has a network of its own; other engines are assumed to
// be in this process's network.
func (e Engine) Command(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	return cmd, e.Enter(cmd)
}

// Enter changes a command that has not started yet so that it runs like Command. It keeps the
// command's name, arguments, streams, ExtraFiles, SysProcAttr, and Env if set.
func (e Engine) Enter(cmd *exec.Cmd) error {
	if cmd.Err != nil {
		return fmt.Errorf("failed to run %s in the engine's network: %w", cmd.Args[0], cmd.Err)
	}
	if cmd.Env == nil {
		cmd.Env = e.Environ()
	}
	if e.PID == 0 {
		return nil
	}
	config, err := json.Marshal(enterConfig{PID: e.PID, StartTicks: e.StartTicks, Path: cmd.Path, Args: cmd.Args})
	if err != nil {
		return err
	}
	cmd.Path, cmd.Args = system.Self, []string{roleEnter, string(config)}
	return nil
}

// Reachable returns why the addresses of the engine's containers cannot be reached from this
// machine, or through Enter; nil if there is no known reason.
func (e Engine) Reachable() error {
	const instead = "; use one of this machine, run as root, or: holdfast kind engine start"
	switch {
	case e.Rootless:
		return fmt.Errorf("the Docker engine at %s is rootless: the addresses of its containers cannot be reached%s", e.Host, instead)
	case e.desktop:
		return fmt.Errorf("the Docker engine at %s is Docker Desktop's, in a virtual machine: the addresses of its containers cannot be reached%s", e.Host, instead)
	case !strings.HasPrefix(e.Host, "unix://"):
		return fmt.Errorf("the Docker engine at %s may be on another machine: the addresses of its containers cannot be reached%s", e.Host, instead)
	}
	return nil
}
