package kind

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/clusters/kind/engine"
	"github.com/holdfast-ha/holdfast/clusters/kind/internal/docker"
	"github.com/holdfast-ha/holdfast/framework"
)

// Attaching to a cluster that another tool created with kind pins its addresses and installs
// agents. Detaching removes the agents, and nodes that were added, and the cluster stays.

var _ clusters.Attacher = Provider{}

// Describe implements clusters.Attacher.
func (Provider) Describe(ctx context.Context, name string) (*clusters.Cluster, error) {
	e, err := engine.Find(ctx)
	if err != nil {
		return nil, err
	}
	return describe(ctx, docker.CLI{Host: e.Host}, name)
}

func describe(ctx context.Context, cli docker.CLI, name string) (*clusters.Cluster, error) {
	all, err := machines(ctx, cli, name)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		there, _ := cli.Run(ctx, "ps", "--all", "--filter", "label="+clusterLabel, "--format", `{{.Label "`+clusterLabel+`"}}`)
		names := slices.Compact(slices.Sorted(slices.Values(strings.Fields(there))))
		return nil, fmt.Errorf("%w: the engine has no kind cluster %s; it has %s", clusters.ErrMissing, name, cmp.Or(strings.Join(names, ", "), "none"))
	}
	all = slices.DeleteFunc(all, isAdded) // they are about to be removed
	spec := clusters.Default()
	spec.Metadata.Name, spec.Spec.Nodes, spec.Spec.Workers = name, nil, 0
	for _, c := range all {
		switch _, own := c.NetworkSettings.Networks[networkName(name)]; {
		case own:
			return nil, fmt.Errorf("%w: cluster %s was made by holdfast", clusters.ErrTaken, name)
		case !c.State.Running || c.State.Paused:
			return nil, fmt.Errorf("%s of cluster %s is not running: bring it back (docker start, docker unpause) first", c.Name, name)
		}
		switch c.Config.Labels[roleLabel] {
		case workerRole:
			spec.Spec.Workers++
		case controlPlaneRole:
			n, err := describeNode(ctx, cli, c.Name)
			if err != nil {
				return nil, fmt.Errorf("failed to inspect %s of cluster %s: %w", c.Name, name, err)
			}
			spec.Spec.Nodes = append(spec.Spec.Nodes, n)
		}
	}
	if len(spec.Spec.Nodes) > 0 {
		spec.Spec.KubernetesVersion = spec.Spec.Nodes[0].KubernetesVersion
		spec.Spec.UID = all[0].ID // a cluster that is made again has other containers
	}
	if err := spec.Validate(); err != nil {
		return nil, fmt.Errorf("cluster %s: %w", name, err)
	}
	return spec, nil
}

// machines are the containers of a cluster, in kind's order.
func machines(ctx context.Context, cli docker.CLI, cluster string) ([]docker.Container, error) {
	names, err := cli.List(ctx, clusterLabel+"="+cluster)
	if err != nil {
		return nil, fmt.Errorf("failed to look for cluster %s: %w", cluster, err)
	}
	if len(names) == 0 {
		return nil, nil
	}
	all, err := cli.Inspect(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("failed to inspect cluster %s: %w", cluster, err)
	}
	slices.SortFunc(all, func(a, b docker.Container) int { return kindOrder(a.Name, b.Name) })
	return all, nil
}

// describeNode reads the values from which bounds are computed.
func describeNode(ctx context.Context, cli docker.CLI, name string) (clusters.NodeSpec, error) {
	version, err := cli.Run(ctx, "exec", name, "cat", "/kind/version")
	if err != nil {
		return clusters.NodeSpec{}, err
	}
	n := clusters.NodeSpec{KubernetesVersion: clusters.Version(version), ExtraArgs: clusters.ExtraArgs{}}
	for c, wanted := range clusters.BoundFlags {
		manifest, err := cli.Run(ctx, "exec", name, "cat", manifestOf(c))
		if err != nil {
			return clusters.NodeSpec{}, err
		}
		if flags := flagsOf(manifest, wanted); len(flags) > 0 {
			n.ExtraArgs[c] = flags
		}
	}
	return n, nil
}

// flagsOf returns those of the wanted flags that are in a static pod's manifest.
func flagsOf(manifest string, wanted []string) map[string]string {
	flags := map[string]string{}
	for line := range strings.Lines(manifest) {
		name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "- --"), "=")
		if ok && slices.Contains(wanted, name) {
			flags[name] = value
		}
	}
	return flags
}

// Attach implements clusters.Attacher.
func (Provider) Attach(ctx context.Context, c *clusters.Cluster, o clusters.Options) (clusters.Made, error) {
	e, err := engine.Find(ctx)
	if err != nil {
		return nil, err
	}
	mine := Options{Engine: e.Host, Dir: cmp.Or(o.DataDir, o.Dir), NoWait: o.NoWait, Progress: o.Progress,
		EnsureImage: ensureImage(e, o.Progress)}
	if err := keptOptions(&mine, o); err != nil {
		return nil, err
	}
	held, err := hold(c.Metadata.Name)
	if err != nil {
		return nil, err
	}
	a := &attached{Cluster: newCluster(c, mine), lock: held, data: o.DataDir}
	a.foreign = true
	err = a.takeOver(ctx)
	if err == nil {
		err = a.writeInside(o.Dir)
	}
	if err != nil {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteLimit)
		defer cancel()
		return nil, errors.Join(explain(fmt.Errorf("failed to take over cluster %s: %w", c.Metadata.Name, err)), a.Close(undo))
	}
	a.used = true
	return a, nil
}

// attached is a cluster that another tool created.
type attached struct {
	*Cluster
	lock *flock.Flock
	data string
	// used reports whether faults may be active.
	used bool
}

func (c *attached) takeOver(ctx context.Context) (err error) {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return fmt.Errorf("failed to make its directory: %w", err)
	}
	if c.settings, err = settings(c.spec); err != nil {
		return err
	}
	if c.network, err = pinExisting(ctx, c.cli, c.Name(), c.o.Progress); err != nil {
		return err
	}
	if err := c.find(ctx); err != nil {
		return err
	}
	if c.audit, err = c.findAudit(ctx); err != nil {
		return err
	}
	c.o.Progress("installing agents")
	if err := c.startAgents(ctx); err != nil {
		return err
	}
	// A killed process may have left some.
	if err := c.removeAdded(ctx); err != nil || c.o.NoWait {
		return err
	}
	return c.Ready(ctx)
}

// findAudit returns the path of the audit log on the nodes, from the manifest of one of the API servers:
// kubeadm gives all of them the same flags.
func (c *Cluster) findAudit(ctx context.Context) (string, error) {
	manifest, err := c.cli.Run(ctx, "exec", c.controlPlane()[0].name, "cat", manifestOf(framework.APIServer))
	if err != nil {
		return "", err
	}
	return auditLogOf(manifest)
}

// auditLogOf returns the path of the audit log on the node of an API server with this manifest; empty if
// it writes none to a file.
func auditLogOf(manifest string) (string, error) {
	var pod corev1.Pod
	if err := yaml.Unmarshal([]byte(manifest), &pod); err != nil {
		return "", fmt.Errorf("failed to parse the manifest of the API server: %w", err)
	}
	path := flagsOf(manifest, []string{"audit-log-path"})["audit-log-path"]
	if path == "-" {
		path = ""
	}
	return clusters.OnNode(pod, path), nil
}

// AuditSupport implements framework.AuditSupporter.
func (n *node) AuditSupport() error {
	if n.cluster.audit == "" {
		return fmt.Errorf("the API server on %s writes no audit log to a file (--audit-log-path)", n.name)
	}
	return nil
}

// manifestOf is the path of a component's static pod.
func manifestOf(c framework.Component) string {
	return "/etc/kubernetes/manifests/" + string(c) + ".yaml"
}

// Close removes the agents, and nodes that were added, and leaves the cluster.
func (c *attached) Close(ctx context.Context) error {
	var err error
	c.closeOnce.Do(func() {
		left := c.removeAdded(ctx)
		if err = detach(ctx, c.cli, c.Name(), c.used); err == nil {
			err = errors.Join(os.RemoveAll(c.data), os.Remove(c.lock.Path()))
			for _, n := range c.containers() {
				n.endGuards() // before that, one may be all that brings the container back
			}
		}
		for _, n := range c.containers() {
			n.Client.Close()
		}
		err = errors.Join(left, err, c.lock.Close())
	})
	return err
}

// Detach implements clusters.Attacher.
func (Provider) Detach(ctx context.Context, c *clusters.Cluster, deleted bool) error {
	name := c.Metadata.Name
	e, err := engine.Find(ctx)
	if err != nil {
		return fmt.Errorf("failed to release cluster %s: %w", name, err)
	}
	held, err := hold(name)
	if err != nil {
		return err
	}
	defer held.Close()
	if deleted {
		err = Delete(ctx, name, e.Host)
	} else {
		cli := docker.CLI{Host: e.Host}
		if err = detach(ctx, cli, name, true); err == nil {
			err = removeLeft(ctx, cli, name)
		}
	}
	if err != nil {
		return err
	}
	return os.Remove(held.Path())
}

// detach removes the agents from a cluster. If they were used, it first waits until they have
// nothing left to heal. It leaves out nodes that were added: their containers are removed, and
// what they would have to heal is deleted with them.
func detach(ctx context.Context, cli docker.CLI, name string, used bool) error {
	if err := finishPinning(ctx, cli, name); err != nil {
		return err
	}
	all, err := machines(ctx, cli, name)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, isAdded)
	// An upgrade that was killed may have left a container, and parts on its node.
	if err := removeLabelled(ctx, cli, name, upgradeLabel); err != nil {
		return fmt.Errorf("failed to remove what is left of an upgrade of cluster %s: %w", name, err)
	}
	return framework.Each(all, func(container docker.Container) error {
		if err := takeOut(ctx, cli, container, used); err != nil {
			return fmt.Errorf("failed to remove the agent from %s: %w", container.Name, err)
		}
		return nil
	})
}

func takeOut(ctx context.Context, cli docker.CLI, container docker.Container, used bool) error {
	for verb, away := range map[string]bool{"unpause": container.State.Paused, "start": !container.State.Running} {
		if !away {
			continue
		}
		if _, err := cli.Run(ctx, verb, container.Name); err != nil {
			return err
		}
	}
	if has, err := hasAgent(ctx, cli, container.Name); err != nil || !has {
		return err
	}
	// The balancer's agent, and all that it would have to heal, is deleted with its container.
	if used && (container.Config.Labels[roleLabel] != balancerRole || container.State.Running) {
		if err := awaitHealed(ctx, cli, container.Name); err != nil {
			return err
		}
	}
	_, err := cli.Run(ctx, "exec", "--privileged", container.Name, "sh", "-c", "rm -rf "+upgradeDir+"\n"+agent.TakeOut())
	return err
}

// hasAgent reports whether a node has an agent.
func hasAgent(ctx context.Context, cli docker.CLI, name string) (bool, error) {
	there, err := cli.Run(ctx, "exec", name, "sh", "-c", "! [ -e "+agent.BinaryPath+" ] || echo agent")
	return there != "", err
}

// notAttached returns an error if a cluster that another tool created has agents or nodes that holdfast
// added, and the state of its processes is lost, for example with a restart of this machine.
func notAttached(ctx context.Context, cli docker.CLI, name string) error {
	left := func(what string) error {
		return fmt.Errorf("cluster %s was taken over, and %s, but this machine no longer has its state: run `holdfast up --provider kind --attach %[1]s`, then `holdfast down --name %[1]s`", name, what)
	}
	all, err := machines(ctx, cli, name)
	if err != nil || len(all) == 0 {
		return err
	}
	if plan, err := pinPlan(ctx, cli, name); err != nil {
		return err
	} else if plan != "" {
		return left("its addresses are not all pinned")
	}
	for _, c := range all {
		has, what := isAdded(c), "is a node that was added"
		if !has && c.State.Running && !c.State.Paused {
			what = "has a node agent"
			if has, err = hasAgent(ctx, cli, c.Name); err != nil {
				return fmt.Errorf("failed to look for what is left on %s of cluster %s: %w", c.Name, name, err)
			}
		}
		if has {
			return left(c.Name + " " + what)
		}
	}
	return nil
}

// awaitHealed returns when an agent has nothing left to heal. The agent heals automatically.
func awaitHealed(ctx context.Context, cli docker.CLI, name string) error {
	n := &node{cluster: &Cluster{cli: cli}, name: name}
	n.Client = agent.NewClient(name, n.dial)
	defer n.Client.Close()
	return await.Until(ctx, 500*time.Millisecond, func(ctx context.Context) error {
		switch left, err := n.Client.Active(ctx); {
		case err != nil:
			return err
		case len(left) > 0:
			return fmt.Errorf("a fault is active (%s): try again when it is healed", strings.Join(left, ", "))
		}
		return nil
	})
}
