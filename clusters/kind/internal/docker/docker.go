// Package docker runs the docker command line on one engine. kind itself uses the command, not
// a client library, so a machine that can run one can run the other.
//
// Its tests, and those of packages that use it, put a script named docker in front of
// PATH.
package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/internal/command"
)

// CLI is the docker command line for one engine.
type CLI struct {
	// Host is that engine's address, as in DOCKER_HOST; empty for the command's default.
	Host string
}

// Says reports whether the output of a failed command contains words.
func Says(err error, words string) bool {
	var e *command.Error
	return errors.As(err, &e) && strings.Contains(strings.ToLower(e.Output), strings.ToLower(words))
}

// env returns additional environment variables.
func (c CLI) env() []string {
	if c.Host == "" {
		return nil
	}
	return []string{"DOCKER_HOST=" + c.Host}
}

// Run runs a command and returns its standard output, without surrounding white space. Errors
// are those of command.Command.
func (c CLI) Run(ctx context.Context, args ...string) (string, error) {
	return c.RunWith(ctx, nil, args...)
}

// RunWith is Run for a command that reads standard input.
func (c CLI) RunWith(ctx context.Context, in io.Reader, args ...string) (string, error) {
	cmd := c.Command(args...)
	cmd.Stdin = in
	out, err := cmd.Run(ctx)
	return strings.TrimSpace(out), err
}

// RunTold is Run for a command that takes long: each line of its output is passed on as it
// comes.
func (c CLI) RunTold(ctx context.Context, line func(string), args ...string) error {
	cmd := c.Command(args...)
	cmd.Lines = line
	_, err := cmd.Run(ctx)
	return err
}

// Command returns a command that is not started yet.
func (c CLI) Command(args ...string) command.Command {
	return command.Command{Name: "docker", Args: args, Env: c.env(), Package: "docker.io"}
}

// Start is Command for os/exec, in a process group of its own, so that Ctrl-C reaches this program
// alone.
func (c CLI) Start(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Env = append(os.Environ(), c.env()...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// Container is what is known of a container.
type Container struct {
	ID    string
	Name  string
	State struct {
		Running   bool
		Paused    bool
		StartedAt time.Time
	}
	Config struct {
		Image   string
		Labels  map[string]string
		Env     []string
		Volumes map[string]struct{}
	}
	HostConfig struct {
		Privileged    bool
		Binds         []string
		Tmpfs         map[string]string
		SecurityOpt   []string
		RestartPolicy struct {
			Name              string
			MaximumRetryCount int
		}
		Init         *bool
		CgroupnsMode string
		UsernsMode   string
		Sysctls      map[string]string
		Devices      []struct{ PathOnHost, PathInContainer, CgroupPermissions string }
	}
	NetworkSettings struct {
		Networks map[string]struct {
			IPAddress string
			// IPAMConfig is the requested configuration.
			IPAMConfig *struct {
				IPv4Address string
			}
		}
	}
}

// Inspect returns what is known of containers, in their order.
func (c CLI) Inspect(ctx context.Context, names ...string) ([]Container, error) {
	out, err := c.Run(ctx, append([]string{"container", "inspect"}, names...)...)
	if err != nil {
		return nil, err
	}
	var all []Container
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		return nil, fmt.Errorf("docker container inspect %s: failed to read its output: %w", strings.Join(names, " "), err)
	}
	for i := range all {
		all[i].Name = strings.TrimPrefix(all[i].Name, "/")
	}
	return all, nil
}

// List returns the names of all containers with a label, whether they run or not.
func (c CLI) List(ctx context.Context, label string) ([]string, error) {
	out, err := c.Run(ctx, "ps", "--all", "--filter", "label="+label, "--format", "{{.Names}}")
	return strings.Fields(out), err
}
