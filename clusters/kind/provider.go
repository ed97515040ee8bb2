package kind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gofrs/flock"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/kind/engine"
	"github.com/holdfast-ha/holdfast/clusters/kind/image"
	"github.com/holdfast-ha/holdfast/clusters/kind/internal/docker"
	"github.com/holdfast-ha/holdfast/clusters/system"
)

// Provider makes clusters of kind's nodes in a Docker engine: the one that there is or,
// where there is none that will do, one of its own.
type Provider struct{}

var (
	_ clusters.Provider = Provider{}
	_ clusters.Sizer    = Provider{}
	_ clusters.Sweeper  = Provider{}
)

// Name implements clusters.Provider.
func (Provider) Name() string { return "kind" }

// Lacks implements clusters.Provider.
func (Provider) Lacks(c *clusters.Cluster) string {
	if err := cannot(c); err != nil {
		return err.Error()
	}
	return ""
}

// Machines implements clusters.Sizer: a worker is a machine like the others, and each has
// a kubelet and a container runtime.
func (Provider) Machines(c *clusters.Cluster) int { return len(c.Spec.Nodes) + c.Spec.Workers }

// Prepare implements clusters.Provider: it starts an engine where there is none, and
// gets images into it.
func (Provider) Prepare(ctx context.Context, p clusters.Preparation, all ...*clusters.Cluster) error {
	e, err := engine.Ensure(ctx, engine.Config{CacheDir: p.Release.CacheDir, Progress: p.Progress})
	if err != nil {
		return err
	}
	var versions []string
	for _, c := range all {
		versions = append(versions, nodeVersions(c)...)
	}
	_, err = ensureImages(ctx, e, versions, p)
	return err
}

// nodeVersions are those of Kubernetes that nodes of the cluster have.
func nodeVersions(c *clusters.Cluster) []string {
	versions := []string{c.Spec.KubernetesVersion}
	for _, n := range c.Nodes() {
		versions = append(versions, n.KubernetesVersion)
	}
	return versions
}

func ensureImages(ctx context.Context, e engine.Engine, versions []string, p clusters.Preparation) (image.Images, error) {
	config := image.Config{DockerHost: e.Host, CacheDir: p.Release.CacheDir, Release: p.Release, Progress: func(event image.Event) {
		if event.Lasting && p.Progress != nil {
			p.Progress(event.Text)
		}
	}}
	seen := map[string]bool{}
	for _, v := range versions {
		if !seen[v] {
			config.Kubernetes = append(config.Kubernetes, v)
		}
		seen[v] = true
	}
	return image.Ensure(ctx, config)
}

// Command implements clusters.Provider: what it runs is in the engine's network.
func (Provider) Command(ctx context.Context, args ...string) (*exec.Cmd, error) {
	e, err := engine.Find(ctx)
	if err != nil {
		return nil, err
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program's own file: %w", err)
	}
	cmd := exec.CommandContext(ctx, exe, args...)
	cmd.Args[0] = os.Args[0]
	// A group of its own, so that Ctrl-C reaches only this process.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	return cmd, e.Enter(cmd)
}

// Explain implements clusters.Provider.
func (Provider) Explain(err error) error { return explain(err) }

// Create implements clusters.Provider. Clusters of one name may be there in several
// processes; each is told from the others by the last part of its log directory.
func (Provider) Create(ctx context.Context, c *clusters.Cluster, o clusters.Options) (clusters.Made, error) {
	e, err := engine.Find(ctx)
	if err != nil {
		return nil, err
	}
	images, err := ensureImages(ctx, e, nodeVersions(c), clusters.Preparation{Progress: o.Progress})
	if err != nil {
		return nil, err
	}
	named := *c
	if o.LogDir != "" {
		named.Metadata.Name += "-" + strings.ReplaceAll(filepath.Base(o.LogDir), ".", "-")
	}
	if err := (Provider{}).Sweep(ctx); err != nil {
		return nil, err
	}
	held, err := hold(named.Metadata.Name)
	if err != nil {
		return nil, err
	}
	made, err := Create(ctx, &named, Options{Engine: e.Host, Dir: o.Dir, LogDir: o.LogDir, Progress: o.Progress,
		Image: func(version string) string { name, _ := images.Node(version); return name }})
	if err != nil {
		return nil, errors.Join(err, held.Close())
	}
	return &heldCluster{Cluster: made, lock: held}, nil
}

// heldCluster is a cluster that ends with this process: where that cannot see to it, the
// next process that makes one does.
type heldCluster struct {
	*Cluster
	lock *flock.Flock
}

// Close implements clusters.Made.
func (c *heldCluster) Close(ctx context.Context) error {
	return errors.Join(c.Cluster.Close(ctx), os.Remove(c.lock.Path()), c.lock.Close())
}

// hold takes the lock of a cluster that is to be made.
func hold(name string) (*flock.Flock, error) {
	if err := system.MakeStateRoot(); err != nil {
		return nil, err
	}
	lock := flock.New(lockOf(name))
	if ok, err := lock.TryLock(); err != nil || !ok {
		return nil, errors.Join(fmt.Errorf("%w: %s is another process's", ErrExists, name), err)
	}
	return lock, nil
}

// Sweep implements clusters.Sweeper.
func (Provider) Sweep(ctx context.Context) error {
	e, err := engine.Find(ctx)
	if errors.Is(err, engine.ErrNone) {
		return nil
	} else if err != nil {
		return err
	}
	out, err := docker.CLI{Host: e.Host}.Run(ctx, "network", "ls", "--filter", "label="+networkLabel, "--format", `{{.Label "`+networkLabel+`"}}`)
	if err != nil {
		return fmt.Errorf("looking for clusters that were left behind: %w", err)
	}
	var problems []error
	for _, name := range strings.Fields(out) {
		problems = append(problems, sweep(ctx, e.Host, name))
	}
	return errors.Join(problems...)
}

func sweep(ctx context.Context, engine, name string) error {
	if _, err := os.Stat(lockOf(name)); err != nil {
		return nil // nobody's process has made it
	}
	left := flock.New(lockOf(name))
	if ok, err := left.TryLock(); err != nil || !ok {
		return err // its process lives
	}
	defer left.Close()
	if err := Delete(ctx, name, engine); err != nil {
		return fmt.Errorf("deleting cluster %s, which was left behind: %w", name, err)
	}
	return os.Remove(lockOf(name))
}

// lockOf is the lock that a process holds for as long as its cluster is to be there.
func lockOf(cluster string) string {
	return filepath.Join(system.StateRoot(), ".kind-"+cluster+".lock")
}
