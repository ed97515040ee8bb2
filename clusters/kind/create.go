package kind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/kind/pkg/cluster"
	kindexec "sigs.k8s.io/kind/pkg/exec"
	kindlog "sigs.k8s.io/kind/pkg/log"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/kind/engine"
	"github.com/holdfast-ha/holdfast/clusters/kind/internal/docker"
)

// Labels that kind puts on its containers.
const (
	clusterLabel = "io.x-k8s.kind.cluster"
	roleLabel    = "io.x-k8s.kind.role"
)

// Options are options of Create.
type Options struct {
	// Engine is the address of the Docker engine, as in DOCKER_HOST; empty for the docker
	// command's default.
	Engine string
	// Image names the node image of a Kubernetes version.
	Image func(version string) string
	// EnsureImage ensures that the engine has the node image of a version that the cluster was
	// not created with, and returns its name; nil if that is not supported.
	EnsureImage func(ctx context.Context, version string) (string, error)
	// Dir is the cluster's directory. The engine must see it under the same path.
	Dir string
	// LogDir is where logs go (NODE/COMPONENT.log); empty for Dir/logs.
	LogDir string
	// DropLogs makes Close drop the logs instead of collecting them. Those of a cluster that
	// could not be created are always kept.
	DropLogs bool
	// NoWait returns when kubeadm is done and the agents answer, before everything is ready.
	NoWait bool
	// Progress receives one line per step; nil for silence.
	Progress func(string)
}

// ErrExists is returned by Create for a name that is taken. It is clusters.ErrTaken.
var ErrExists = fmt.Errorf("%w: a kind cluster of this name already exists", clusters.ErrTaken)

// Create creates a cluster and returns when all of it is ready, or as Options.NoWait says. If
// it fails, or ctx ends first, the logs of its nodes are in the log directory and nothing else
// of it is left.
func Create(ctx context.Context, spec *clusters.Cluster, o Options) (*Cluster, error) {
	if err := cannot(spec); err != nil {
		return nil, err
	}
	c := newCluster(spec, o)
	if err := c.refuseTaken(ctx); err != nil {
		return nil, err
	}
	if err := c.create(ctx); err != nil {
		err = fmt.Errorf("failed to create cluster %s: %w", c.Name(), err)
		if ctx.Err() == nil {
			err = errors.Join(err, c.keepLogs(ctx))
		}
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteLimit)
		defer cancel()
		err = errors.Join(explain(err), os.RemoveAll(c.dir))
		if failed := Delete(undo, c.Name(), o.Engine); failed != nil {
			err = errors.Join(err, fmt.Errorf("%w; delete them with: holdfast down --name %s", errLeft, c.Name()), failed)
		}
		return nil, err
	}
	return c, nil
}

// errLeft is in the error of Create if something of the cluster is left.
var errLeft = errors.New("parts of the cluster remain")

// deleteLimit is how long deleting a cluster may take.
const deleteLimit = 2 * time.Minute

// refuseTaken ensures that nothing of another cluster is mistaken for a part of this one.
func (c *Cluster) refuseTaken(ctx context.Context) error {
	there, err := c.cli.List(ctx, clusterLabel+"="+c.Name())
	if err != nil {
		return fmt.Errorf("failed to look for a cluster %s: %w", c.Name(), err)
	}
	if len(there) > 0 {
		return fmt.Errorf("%w: %s (%s); delete it with `kind delete cluster --name %s`, or give this one another --name",
			ErrExists, c.Name(), strings.Join(there, ", "), c.Name())
	}
	return nil
}

func (c *Cluster) create(ctx context.Context) error {
	var err error
	if err = os.MkdirAll(c.dir, 0o700); err != nil {
		return fmt.Errorf("failed to make its directory: %w", err)
	}
	if c.settings, err = settings(c.spec); err != nil {
		return err
	}
	if c.network, err = makeNetwork(ctx, c.cli, c.Name()); err != nil {
		return err
	}
	config, err := configuration(c.spec, c.o.Image, c.network.balancer(), c.dir)
	if err != nil {
		return err
	}
	began := time.Now()
	since := func() string { return time.Since(began).Round(time.Second).String() }
	err = withPorts(func() error { return c.kindCreates(ctx, cluster.CreateWithV1Alpha4Config(config)) }, func() error {
		c.o.Progress("a port that kind chose is taken; trying again with others")
		return c.removeContainers(ctx)
	})
	if err != nil {
		return err
	}
	c.o.Progress("kind done after " + since())
	if err := c.network.pin(ctx, c.cli, c.Name()); err != nil {
		return err
	}
	if err := c.find(ctx); err != nil {
		return err
	}
	c.o.Progress("addresses are pinned after " + since())
	if err := c.startAgents(ctx); err != nil {
		return err
	}
	if c.o.NoWait {
		return nil
	}
	if err := c.Ready(ctx); err != nil {
		return err
	}
	c.o.Progress("all ready after " + since())
	return nil
}

// kindMu is held while kind runs: it reads some settings from the environment.
var kindMu sync.Mutex

// withKind calls f with kind's library set up for an engine and a network.
func withKind(engine, network string, log kindlog.Logger, f func(*cluster.Provider) error) error {
	kindMu.Lock()
	defer kindMu.Unlock()
	for name, value := range map[string]string{"DOCKER_HOST": engine, "KIND_EXPERIMENTAL_DOCKER_NETWORK": network} {
		if value == "" {
			continue
		}
		before, set := os.LookupEnv(name)
		if err := os.Setenv(name, value); err != nil {
			return err
		}
		defer func() {
			if set {
				_ = os.Setenv(name, before)
			} else {
				_ = os.Unsetenv(name)
			}
		}()
	}
	return f(cluster.NewProvider(cluster.ProviderWithDocker(), cluster.ProviderWithLogger(log)))
}

// portTries is how often kind may choose ports that turn out to be taken.
const portTries = 3

// withPorts calls create until no port was taken, and clear in between. kind publishes the
// ports of API servers, which holdfast does not use, and looks for free ones on its own host:
// they may be taken on the engine's, or by another node.
func withPorts(create, clear func() error) error {
	for try := 1; ; try++ {
		err := create()
		if err == nil || try == portTries || !strings.Contains(err.Error(), "port is already allocated") && !strings.Contains(err.Error(), "address already in use") {
			return err
		}
		if failed := clear(); failed != nil {
			return errors.Join(err, failed)
		}
	}
}

// removeContainers removes the containers that kind has made.
func (c *Cluster) removeContainers(ctx context.Context) error {
	return removeLabelled(ctx, c.cli, c.Name(), clusterLabel)
}

// kindCreates makes kind create the cluster. kind cannot be cancelled, so if ctx ends its
// containers are removed, which makes it fail.
func (c *Cluster) kindCreates(ctx context.Context, config cluster.CreateOption) error {
	done := make(chan error, 1)
	go func() {
		done <- withKind(c.o.Engine, c.network.name, &steps{progress: c.o.Progress}, func(p *cluster.Provider) error {
			return p.Create(c.Name(), config, cluster.CreateWithRetain(true),
				cluster.CreateWithKubeconfigPath(filepath.Join(c.dir, kubeconfigFile)))
		})
	}()
	for {
		select {
		case err := <-done:
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return kindFailed(err)
		case <-ctx.Done():
			_ = c.removeContainers(context.WithoutCancel(ctx)) // some may be gone already
			time.Sleep(100 * time.Millisecond)                 // and the ones it creates next
		}
	}
}

// kindFailed returns an error of kind with the output of the command that failed.
func kindFailed(err error) error {
	if err == nil {
		return nil
	}
	said := ""
	if run := kindexec.RunErrorForError(err); run != nil {
		said = strings.TrimSpace(string(run.Output))
	}
	if said == "" {
		return err
	}
	lines := strings.Split(said, "\n")
	return fmt.Errorf("%w; its output:\n  %s", err, strings.Join(lines[max(0, len(lines)-20):], "\n  "))
}

// explain adds advice for failures that the cluster did not cause.
func explain(err error) error {
	for words, todo := range map[string]string{
		"no space left on device": "the engine's disk is full: free some space (`docker system df` shows what takes it), or have the engine keep its data elsewhere",
		"unable to apply caps":    "this engine cannot run privileged containers: see `holdfast doctor`, and use `holdfast kind engine` instead",
		"no such image":           "the node image does not exist: build it with `holdfast kind image`",
		"too many open files":     "the kernel's inotify limit for one user is too low: " + engine.Inotify.Advice(),
	} {
		if strings.Contains(strings.ToLower(err.Error()), words) {
			return fmt.Errorf("%w\n%s", err, todo)
		}
	}
	return err
}

// logsLimit is how long collecting the logs of all nodes may take.
const logsLimit = time.Minute

// keepLogs collects the existing logs of all nodes. kind cannot be cancelled: if ctx ends or the time is
// over, it continues until the containers are deleted.
func (c *Cluster) keepLogs(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, logsLimit, fmt.Errorf("not done after %s", logsLimit))
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- withKind(c.o.Engine, "", kindlog.NoopLogger{}, func(p *cluster.Provider) error {
			return p.CollectLogs(c.Name(), c.o.LogDir)
		})
	}()
	var err error
	partly := ""
	select {
	case err = <-done:
	case <-ctx.Done():
		err = fmt.Errorf("failed to collect the logs of its nodes: %w", context.Cause(ctx))
		partly = ", as far as they were collected: " + context.Cause(ctx).Error()
	}
	if _, gone := os.Stat(c.o.LogDir); gone == nil {
		c.o.Progress("the logs of its nodes are in " + c.o.LogDir + partly)
		return nil // some logs are missing on a node that did not come up
	}
	return err
}

// Delete deletes the cluster of a name and returns when nothing of it is left in the engine; it
// does nothing if there is nothing.
func Delete(ctx context.Context, name, engine string) error {
	cli := docker.CLI{Host: engine}
	if err := removeLabelled(ctx, cli, name, clusterLabel, upgradeLabel); err != nil {
		return fmt.Errorf("failed to delete cluster %s: %w", name, err)
	}
	return errors.Join(removeNetwork(ctx, cli, name), forgetPlan(ctx, cli, name))
}

// removeLabelled removes the containers that have one of the labels with the name of a cluster.
func removeLabelled(ctx context.Context, cli docker.CLI, cluster string, labels ...string) error {
	var there []string
	for _, label := range labels {
		names, err := cli.List(ctx, label+"="+cluster)
		if err != nil {
			return err
		}
		there = append(there, names...)
	}
	if len(there) == 0 {
		return nil
	}
	// Own volumes contain /var of the nodes.
	_, err := cli.Run(ctx, append([]string{"rm", "--force", "--volumes"}, there...)...)
	if docker.Says(err, "no such container") {
		return nil
	}
	return err
}

// steps is kind's logger. It shows only its steps, each once: kind logs the beginning and the
// end.
type steps struct {
	kindlog.NoopLogger
	progress func(string)
	last     string
}

func (s *steps) V(level kindlog.Level) kindlog.InfoLogger {
	if level > 0 {
		return kindlog.NoopInfoLogger{}
	}
	return s
}

func (s *steps) Info(line string) {
	line = strings.TrimFunc(strings.TrimSuffix(strings.TrimSpace(line), "..."), notText)
	if line != "" && line != s.last {
		s.progress("kind: " + line)
	}
	s.last = line
}

func (s *steps) Infof(format string, args ...any) { s.Info(fmt.Sprintf(format, args...)) }

func (s *steps) Enabled() bool { return true }

// notText matches kind's decoration of its lines.
func notText(r rune) bool { return r > 127 || r <= ' ' }
