package kind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/clusters/internal/upgrading"
	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/framework"
)

const (
	// settled is how long a node has to be ready after its upgrade: a new kubelet starts
	// containers again whose specification it reads in another way, some time after it
	// has said that it is ready.
	settled = 5 * time.Second
	// lookLimit is how long looking at a node may take.
	lookLimit = 20 * time.Second
)

// upgrade is that of one node.
type upgrade struct {
	*node
	version string
	// image is a node image of the version.
	image string
	// running reports that the node runs it already.
	running bool
	// apply reports that kubeadm's configuration of the cluster has another version yet.
	apply bool
	// needy are other nodes on which add-ons of the version will run.
	needy []*node
}

// UpgradeNode implements framework.Upgrader: `kubeadm upgrade apply` on the first node
// that changes to a version, `kubeadm upgrade node` on the others, then the kubelet.
// kubeadm upgrades etcd before the components and renews their certificates, as it does
// by default; each component restarts once for that. It takes the arguments of the
// components from its own configuration, and those of a node from the patches that the
// node was made with. Pods stay where they are: nothing is drained.
func (c *Cluster) UpgradeNode(ctx context.Context, name, version string) error {
	c.scaling.Lock()
	defer c.scaling.Unlock()
	u, err := c.planUpgrade(ctx, name, version)
	if err == nil && !u.running {
		u.image, err = c.image(ctx, u.version)
	}
	if err != nil {
		err = framework.Untouched{Err: explain(err)}
	} else if err = u.carryOut(ctx); err != nil {
		err = explain(err)
	}
	return c.upgradeError(name, version, err)
}

// CheckUpgrade implements framework.Upgrader.
func (c *Cluster) CheckUpgrade(ctx context.Context, name, version string) error {
	c.scaling.Lock()
	defer c.scaling.Unlock()
	_, err := c.planUpgrade(ctx, name, version)
	if err != nil {
		err = framework.Untouched{Err: explain(err)}
	}
	return c.upgradeError(name, version, err)
}

func (c *Cluster) upgradeError(name, version string, err error) error {
	if err != nil {
		err = fmt.Errorf("upgrading %s of cluster %s to Kubernetes %s: %w", name, c.Name(), version, err)
	}
	return err
}

// planUpgrade checks whether a node can change to a version.
func (c *Cluster) planUpgrade(ctx context.Context, name, version string) (*upgrade, error) {
	version, err := release.ParseVersion(release.Kubernetes, version)
	if err != nil {
		return nil, err
	}
	controlPlane := c.controlPlane()
	all := slices.Concat(controlPlane, c.workers)
	i := slices.IndexFunc(all, func(n *node) bool { return n.name == name })
	if i < 0 {
		return nil, fmt.Errorf("no such node; the nodes are %v", nodeNames(all))
	}
	u := &upgrade{node: all[i], version: version}
	look, cancel := agenthttp.Within(ctx, lookLimit)
	defer cancel()
	configured, err := c.configured(look)
	if err != nil {
		return nil, err
	}
	found, err := c.look(look)
	if err != nil {
		return nil, err
	}
	c.upgraded, u.apply = configured, configured != version
	if found.runs(u.node, version) {
		u.running = true
		return u, nil
	}
	if err := found.refusal(u.node, version, configured, controlPlane, c.workers); err != nil {
		return nil, err
	}
	if err := u.undisturbed(look); err != nil {
		return nil, err
	}
	if found.addonsFollow(u.node, version) {
		for _, n := range all {
			if n != u.node && found.kubelet(n.name) != version {
				u.needy = append(u.needy, n)
			}
		}
	}
	return u, nil
}

// undisturbed checks whether a fault is active on the node that its upgrade would meet,
// such as a manifest that is not in its place.
func (n *node) undisturbed(ctx context.Context) error {
	if !n.works(ctx) {
		return errors.New("its container does not run, or is paused: bring it back (`holdfast heal`) first")
	}
	all, err := n.Processes(ctx)
	if err != nil {
		return fmt.Errorf("asking its agent: %w", err)
	}
	return upgrading.Undisturbed(all)
}

// carryOut upgrades the node. What it leaves where it fails is a node between two
// versions, on which the same can be done again.
func (u *upgrade) carryOut(ctx context.Context) error {
	began := time.Now()
	if u.running {
		u.cluster.o.Progress(fmt.Sprintf("%s runs %s already", u.name, u.version))
	} else if err := u.change(ctx); err != nil {
		return err
	}
	if err := u.awaitServing(ctx); err != nil {
		return fmt.Errorf("it runs that version, but does not serve: %w", err)
	}
	if err := u.note(ctx); err != nil {
		return err
	}
	u.cluster.o.Progress(fmt.Sprintf("%s serves in %s after %s", u.name, u.version, time.Since(began).Round(time.Second)))
	u.cluster.dropParts(u.version)
	return nil
}

// change has everything on the node started in the version.
func (u *upgrade) change(ctx context.Context) error {
	c := u.cluster
	parts, err := c.parts(ctx, u.version, u.image)
	if err != nil {
		return err
	}
	// Images have to be there before kubeadm runs: no registry may answer.
	c.o.Progress(fmt.Sprintf("putting %s on %s", u.version, u.name))
	defer u.removeParts(ctx)
	if err := u.receive(ctx, parts); err != nil {
		return fmt.Errorf("putting %s on it: %w", u.version, err)
	}
	for _, n := range u.needy {
		if !n.works(ctx) {
			c.o.Progress(fmt.Sprintf("%s does not run, and has no images of %s for add-ons until it is upgraded itself", n.name, u.version))
			continue
		}
		err := n.receive(ctx, parts)
		n.removeParts(ctx)
		if err != nil {
			return fmt.Errorf("putting images of %s on %s, for add-ons: %w", u.version, n.name, err)
		}
	}
	if err := u.kubeadm(ctx); err != nil {
		return err
	}
	if u.apply && u.role == controlPlaneRole {
		c.upgraded = u.version
	}
	c.o.Progress("starting the kubelet of " + u.name + " in " + u.version)
	err = framework.DoStep(ctx, u.name, "restart kubelet in "+u.version, func(ctx context.Context) (string, error) {
		_, err := u.docker(ctx, "exec", u.name, "sh", "-c", installScript(u.version))
		return "systemd started it", err
	})
	u.upgraded = u.upgraded || err == nil
	return err
}

// kubeadm has kubeadm of the version upgrade what it has set up on the node. Whoever
// ends docker leaves what that has started in the node, so kubeadm is ended there.
func (u *upgrade) kubeadm(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	last := time.Now()
	err := u.cluster.cli.RunTold(ctx, func(line string) {
		step := u.kubeadmStep(line)
		if step == nil {
			return
		}
		step.Began, step.Done, last = last, time.Now(), time.Now()
		if err := framework.ReportStep(ctx, *step); err != nil {
			stop(err)
		}
	}, "exec", u.name, "sh", "-c", u.command())
	if err == nil {
		return context.Cause(ctx)
	}
	if ctx.Err() != nil {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardLimit)
		defer cancel()
		_, _ = u.docker(end, "exec", u.name, "pkill", "-x", "kubeadm")
	}
	return fmt.Errorf("kubeadm did not upgrade it (what it replaced is in /etc/kubernetes/tmp there): %w", err)
}

// command is what runs kubeadm. Its preflight checks are left out, as they are when kind
// makes nodes: they look at the machine, whose kernel and images they do not know, and
// have a job run that may be placed where its image is not. The version skew is checked
// before.
func (u *upgrade) command() string {
	args := []string{"exec", upgradeDir + "/bin/kubeadm", "upgrade", "node"}
	if u.role == controlPlaneRole {
		if u.apply {
			args = append(args[:3], "apply", u.version, "--yes")
		}
		// What kind has told kubeadm, which does not remember it.
		args = append(args, `$(sed -n '/^patches:/,/directory:/s/^ *directory: */--patches=/p' `+kubeadmConfig+` | head -n 1)`)
	}
	return strings.Join(append(args, "--skip-phases=preflight"), " ")
}

// kubeadmStep is the step that a line of kubeadm's reports; nil for none. The version of
// etcd is up to kubeadm.
func (u *upgrade) kubeadmStep(line string) *framework.Step {
	if after, ok := strings.CutPrefix(line, "[upgrade/staticpods] Component "); ok {
		name, _, _ := strings.Cut(after, " upgraded")
		c := framework.Component(strings.Trim(name, `"`))
		s := &framework.Step{Node: u.name, Name: "restart " + string(c), Proof: "kubeadm: " + line}
		if slices.Contains(components, c) {
			s.Component, s.Version = c, u.version
		}
		return s
	}
	if addon, ok := strings.CutPrefix(line, "[addons] Applied essential addon: "); ok {
		return &framework.Step{Node: u.name, Name: "apply add-on " + addon, Proof: "kubeadm: " + line}
	}
	return nil
}

// awaitServing returns when the node has been ready in the version for a while.
func (u *upgrade) awaitServing(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyLimit, fmt.Errorf("not ready after %s", readyLimit))
	defer cancel()
	settle := u.cluster.settled
	if u.running {
		settle = 0
	}
	var since time.Time
	return await.Until(ctx, 500*time.Millisecond, func(ctx context.Context) error {
		if err := u.serves(ctx); err != nil {
			since = time.Time{}
			return err
		}
		if since.IsZero() {
			since = time.Now()
		}
		if took := time.Since(since); took < settle {
			return fmt.Errorf("it has been ready for no longer than %s", took.Round(time.Millisecond))
		}
		return nil
	})
}

// serves checks whether the node is ready in the version now.
func (u *upgrade) serves(ctx context.Context) error {
	ctx, cancel := agenthttp.Within(ctx, lookLimit)
	defer cancel()
	if u.role == controlPlaneRole {
		e := u.cluster.entrance(u.node)
		if _, err := await.API(ctx, e, "/version", func(body []byte) error { return servesVersion(body, u.version) }); err != nil {
			return fmt.Errorf("its API server: %w", err)
		}
		if _, err := await.API(ctx, e, "/readyz", await.Anything); err != nil {
			return fmt.Errorf("its API server is not ready: %w", err)
		}
	}
	found, err := u.cluster.look(ctx)
	if err != nil {
		return err
	}
	return found.notYet(u.node, u.version)
}

// note keeps what the node runs now.
func (u *upgrade) note(ctx context.Context) error {
	etcd := u.etcd
	if u.role == controlPlaneRole {
		var err error
		if etcd, err = u.cluster.etcdVersion(ctx, u.node); err != nil {
			return fmt.Errorf("asking its etcd for its version: %w", err)
		}
	}
	u.cluster.mu.Lock()
	defer u.cluster.mu.Unlock()
	u.spec.KubernetesVersion, u.etcd = u.version, etcd
	return nil
}

// UpgradeOrder implements framework.Upgrader.
func (c *Cluster) UpgradeOrder() []string {
	return nodeNames(slices.Concat(c.controlPlane(), c.workers))
}

// dropParts removes the file with a version's parts when no node needs it any more.
func (c *Cluster) dropParts(version string) {
	for _, n := range slices.Concat(c.controlPlane(), c.workers) {
		if n.spec.KubernetesVersion != version {
			return
		}
	}
	_ = os.Remove(c.partsFile(version)) // else it goes with the cluster
}
