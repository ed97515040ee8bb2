package kind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/kind/engine"
	"github.com/holdfast-ha/holdfast/clusters/kind/image"
	"github.com/holdfast-ha/holdfast/clusters/kind/internal/docker"
	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework/scratch"
)

// Provider creates clusters of kind's nodes in a Docker engine: a running one, if it is
// suitable, or one of its own.
type Provider struct{}

var (
	_ clusters.Provider = Provider{}
	_ clusters.Launcher = Provider{}
	_ clusters.Sizer    = Provider{}
	_ clusters.Settler  = Provider{}
	_ clusters.Sweeper  = Provider{}
	_ clusters.Remover  = Provider{}

	_ clusters.ChangeLimiter = Provider{}
)

// Name implements clusters.Provider.
func (Provider) Name() string { return "kind" }

// Main implements clusters.Reexecuter.
func (Provider) Main() { Main() }

// Lacks implements clusters.Provider.
func (Provider) Lacks(c *clusters.Cluster) string {
	if err := cannot(c); err != nil {
		return err.Error()
	}
	return ""
}

// LacksChange implements clusters.ChangeLimiter.
func (Provider) LacksChange(change string) string {
	switch change {
	case "upgrade-etcd":
		return "kubeadm upgrades etcd together with the node"
	case "downgrade":
		return "kubeadm does not downgrade a node"
	case "reconfigure":
		return "arguments of running components are not changed"
	case "rotate-ca":
		return "kubeadm renews certificates, not the CAs that issue them"
	case "replace-node":
		return "a new node has a name and an address of its own"
	}
	return ""
}

// Machines implements clusters.Sizer: a worker is a machine like the others, and each has a
// kubelet and a container runtime.
func (Provider) Machines(c *clusters.Cluster) int { return len(c.Spec.Nodes) + c.Spec.Workers }

// Creation implements clusters.Sizer: kubeadm joins one node after the other.
func (Provider) Creation() time.Duration { return 2 * time.Minute }

// settling is the time for unpacking images and starting system pods on two processors, several
// times over.
const settling = time.Minute

// Settling implements clusters.Settler.
func (Provider) Settling() time.Duration { return settling }

// Prepare implements clusters.Provider: it starts an engine if none exists, and pulls or builds
// the images.
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

// nodeVersions returns the Kubernetes versions of the cluster's nodes.
func nodeVersions(c *clusters.Cluster) []string {
	versions := []string{c.Spec.KubernetesVersion}
	for _, n := range c.Nodes() {
		versions = append(versions, n.KubernetesVersion)
	}
	return versions
}

func ensureImages(ctx context.Context, e engine.Engine, versions []string, p clusters.Preparation) (image.Images, error) {
	config := image.Config{DockerHost: e.Host, CacheDir: p.Release.CacheDir, Release: p.Release, Progress: func(event release.Event) {
		if event.Lasting && p.Progress != nil {
			p.Progress(event.String())
		}
	}}
	config.Kubernetes = slices.Compact(slices.Sorted(slices.Values(versions)))
	return image.Ensure(ctx, config)
}

// ensureImage returns the function that ensures the node image of a version in the engine.
func ensureImage(e engine.Engine, progress func(string)) func(context.Context, string) (string, error) {
	return func(ctx context.Context, version string) (string, error) {
		images, err := ensureImages(ctx, e, []string{version}, clusters.Preparation{Progress: progress})
		if err != nil {
			return "", err
		}
		name, _ := images.Node(version)
		return name, nil
	}
}

// Command implements clusters.Launcher: the command runs in the engine's network.
func (Provider) Command(ctx context.Context, args ...string) (*exec.Cmd, error) {
	e, err := engine.Find(ctx)
	if err != nil {
		return nil, err
	}
	cmd := system.Again(ctx, args...)
	return cmd, e.Enter(cmd)
}

// Explain implements clusters.Launcher.
func (Provider) Explain(err error) error { return explain(err) }

// Create implements clusters.Provider. A cluster without a log directory is a kept one, and has
// the name in its description. Other clusters may share a name, in several processes: the last
// part of the log directory distinguishes them.
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
	mine := Options{Engine: e.Host, Dir: o.Dir, LogDir: o.LogDir, NoWait: o.NoWait, Progress: o.Progress,
		Image:       func(version string) string { name, _ := images.Node(version); return name },
		EnsureImage: ensureImage(e, o.Progress)}
	if o.DataDir != "" {
		// The engine may have a /run of its own, where the other directory usually is.
		mine.Dir = o.DataDir
	}
	if o.LogDir != "" {
		named.Metadata.Name += "-" + strings.ReplaceAll(filepath.Base(o.LogDir), ".", "-")
	} else if err := keptOptions(&mine, o); err != nil {
		return nil, err
	}
	if err := (Provider{}).Sweep(ctx); err != nil {
		return nil, err
	}
	held, err := hold(named.Metadata.Name)
	if err != nil {
		return nil, err
	}
	made, err := Create(ctx, &named, mine)
	if err != nil {
		if !errors.Is(err, errLeft) {
			err = errors.Join(err, os.Remove(held.Path()))
		}
		return nil, errors.Join(err, os.RemoveAll(o.DataDir), held.Close())
	}
	kept := &heldCluster{Cluster: made, lock: held, data: o.DataDir}
	if o.LogDir == "" {
		if err := made.writeInside(o.Dir); err != nil {
			return nil, errors.Join(err, kept.Close(context.WithoutCancel(ctx)))
		}
	}
	return kept, nil
}

// heldCluster is a cluster that is deleted with this process: if the process cannot, the next
// process that creates a cluster does.
type heldCluster struct {
	*Cluster
	lock *flock.Flock
	data string // a directory of its own; empty for none
}

// Close implements clusters.Made. What it could not delete is left to the next process.
func (c *heldCluster) Close(ctx context.Context) error {
	if err := c.Cluster.Close(ctx); err != nil {
		return errors.Join(err, c.lock.Close())
	}
	return errors.Join(os.RemoveAll(c.data), os.Remove(c.lock.Path()), c.lock.Close())
}

// hold takes the lock of a cluster that is about to be created.
func hold(name string) (*flock.Flock, error) {
	if err := system.MakeStateRoot(); err != nil {
		return nil, err
	}
	for {
		lock := flock.New(lockOf(name))
		if ok, err := lock.TryLock(); err != nil || !ok {
			return nil, errors.Join(fmt.Errorf("%w: %s belongs to another process", ErrExists, name), err)
		}
		if scratch.HasPath(lock, lock.Path()) {
			return lock, nil
		}
		_ = lock.Close() // of a file that its last owner removed
	}
}

// Remove implements clusters.Remover.
func (Provider) Remove(ctx context.Context, name string) (bool, error) {
	e, err := engine.Find(ctx)
	if err == nil {
		return remove(ctx, e.Host, name)
	}
	if _, noted := os.Stat(lockOf(name)); noted != nil {
		return false, nil // no process of this user created it
	}
	return false, fmt.Errorf("failed to look for what is left of cluster %s: %w; its containers restart with their Docker engine: start the engine, then run `holdfast down` again", name, err)
}

// remove finds clusters of this provider by their networks.
func remove(ctx context.Context, engine, name string) (bool, error) {
	out, err := docker.CLI{Host: engine}.Run(ctx, "network", "ls", "--filter", "label="+networkLabel+"="+name, "--format", "{{.Name}}")
	if err != nil {
		return false, fmt.Errorf("failed to look for what is left of cluster %s: %w", name, err)
	}
	cli := docker.CLI{Host: engine}
	if _, noted := os.Stat(lockOf(name)); out == "" && noted != nil {
		return false, notAttached(ctx, cli, name)
	}
	held, err := hold(name)
	if err != nil {
		return false, err
	}
	defer held.Close()
	if out != "" {
		err = Delete(ctx, name, engine)
	} else {
		err = notAttached(ctx, cli, name)
	}
	if err != nil {
		return false, err
	}
	return out != "", os.Remove(held.Path())
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
		return fmt.Errorf("failed to look for clusters that were left behind: %w", err)
	}
	var problems []error
	for _, name := range strings.Fields(out) {
		problems = append(problems, sweep(ctx, e.Host, name))
	}
	return errors.Join(problems...)
}

func sweep(ctx context.Context, engine, name string) error {
	if _, err := os.Stat(lockOf(name)); err != nil {
		return nil // it was not created by such a process
	}
	left := flock.New(lockOf(name))
	if ok, err := left.TryLock(); err != nil || !ok {
		return err // its process still runs
	}
	defer left.Close()
	if !scratch.HasPath(left, left.Path()) {
		return nil // its process has deleted it, and another one may be creating it again
	}
	if err := Delete(ctx, name, engine); err != nil {
		return fmt.Errorf("failed to delete cluster %s, which was left behind: %w", name, err)
	}
	return os.Remove(lockOf(name))
}

// lockOf is the lock that a process holds while its cluster should exist.
func lockOf(cluster string) string {
	// Neither a cluster nor an engine can have a lock with such a name.
	return filepath.Join(system.StateRoot(), ".kind.cluster."+cluster+".lock")
}
