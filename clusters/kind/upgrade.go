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
	// settled is how long a node must be ready after its upgrade: some time after reporting
	// ready, a new kubelet restarts containers whose specification it reads in another way.
	settled = 5 * time.Second
	// lookLimit is how long a check of a node may take.
	lookLimit = 20 * time.Second
)

// upgrade is the upgrade of one node.
type upgrade struct {
	*node
	version string
	// image is a node image of the version.
	image string
	// running reports whether the node runs it already.
	running bool
	// apply reports whether kubeadm's configuration of the cluster still has another version.
	apply bool
	// needy are other nodes on which add-ons of the version will run.
	needy []*node
}

// UpgradeNode implements framework.Upgrader: `kubeadm upgrade apply` on the first node that
// changes to a version, `kubeadm upgrade node` on the others, then the kubelet. kubeadm
// upgrades etcd before the components and renews their certificates, its default; each
// component restarts once for that. It reads the arguments of the components from its own
// configuration, and those of a node from the patches that the node was created with. Pods stay
// where they are: nodes are not drained.
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
		err = fmt.Errorf("failed to upgrade %s of cluster %s to Kubernetes %s: %w", name, c.Name(), version, err)
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
		return nil, fmt.Errorf("no such node; the nodes are %s", strings.Join(framework.NodeNames(all), ", "))
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

// undisturbed checks whether a fault that would affect the upgrade is active on the node, such
// as a missing manifest.
func (n *node) undisturbed(ctx context.Context) error {
	if !n.works(ctx) {
		return errors.New("its container is not running, or is paused: bring it back (`holdfast heal`) first")
	}
	all, err := n.Processes(ctx)
	if err != nil {
		return fmt.Errorf("failed to ask its agent: %w", err)
	}
	if err := upgrading.Undisturbed(all); err != nil {
		return err
	}
	return n.ownCertificates(ctx)
}

// ownCertificates returns an error while defective certificates are in place of the node's own. kubeadm
// reads the names for a new certificate from the old one, and makes a new key, so the own one could not
// be put back.
func (n *node) ownCertificates(ctx context.Context) error {
	defective, err := n.DefectiveCertificates(ctx)
	if err == nil && len(defective) > 0 {
		err = fmt.Errorf("its %s serves with defective certificates: heal that (`holdfast heal`) first", defective[0])
	}
	return err
}

// carryOut upgrades the node. If it fails, the node is between two versions, and the upgrade
// can be repeated.
func (u *upgrade) carryOut(ctx context.Context) error {
	began := time.Now()
	if u.running {
		u.cluster.o.Progress(fmt.Sprintf("%s already runs %s", u.name, u.version))
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

// change changes everything on the node to the version.
func (u *upgrade) change(ctx context.Context) error {
	c := u.cluster
	parts, err := c.parts(ctx, u.version, u.image)
	if err != nil {
		return err
	}
	// Import images before kubeadm runs: a registry may not be available.
	c.o.Progress(fmt.Sprintf("putting %s on %s", u.version, u.name))
	defer u.removeParts(ctx)
	if err := u.receive(ctx, parts); err != nil {
		return fmt.Errorf("failed to install %s on it: %w", u.version, err)
	}
	for _, n := range u.needy {
		if !n.works(ctx) {
			c.o.Progress(fmt.Sprintf("%s does not run, and has no images of %s for add-ons until it is upgraded itself", n.name, u.version))
			continue
		}
		err := n.receive(ctx, parts)
		n.removeParts(ctx)
		if err != nil {
			return fmt.Errorf("failed to load images of %s on %s, for add-ons: %w", u.version, n.name, err)
		}
	}
	if err := u.ownCertificates(ctx); err != nil { // all of the above takes minutes
		return err
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

// kubeadm runs kubeadm of the version to upgrade the node. Killing docker's client leaves its
// process running in the node, so kubeadm is killed there.
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

// command runs kubeadm. Its preflight checks are skipped, as when kind creates nodes: they
// check the machine, whose kernel and images they do not know, and run a job that may be
// scheduled where its image is not available. The version skew is checked before.
func (u *upgrade) command() string {
	args := []string{"exec", upgradeDir + "/bin/kubeadm", "upgrade", "node"}
	if u.role == controlPlaneRole {
		if u.apply {
			args = append(args[:3], "apply", u.version, "--yes")
		}
		// Kind's arguments of kubeadm, which does not store them.
		args = append(args, `$(sed -n '/^patches:/,/directory:/s/^ *directory: */--patches=/p' `+kubeadmConfig+` | head -n 1)`)
	}
	return strings.Join(append(args, "--skip-phases=preflight"), " ")
}

// kubeadmStep returns the step that a line of kubeadm's reports; nil for none. kubeadm chooses
// the version of etcd.
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
			return fmt.Errorf("it has been ready for only %s", took.Round(time.Millisecond))
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

// note records what the node runs now.
func (u *upgrade) note(ctx context.Context) error {
	etcd := u.etcd
	if u.role == controlPlaneRole {
		var err error
		if etcd, err = u.cluster.etcdVersion(ctx, u.node); err != nil {
			return fmt.Errorf("failed to ask its etcd for its version: %w", err)
		}
	}
	u.cluster.mu.Lock()
	defer u.cluster.mu.Unlock()
	u.spec.KubernetesVersion, u.etcd = u.version, etcd
	return nil
}

// UpgradeOrder implements framework.Upgrader.
func (c *Cluster) UpgradeOrder() []string {
	return framework.NodeNames(slices.Concat(c.controlPlane(), c.workers))
}

// dropParts removes the file with a version's parts when no node needs it any more.
func (c *Cluster) dropParts(version string) {
	for _, n := range slices.Concat(c.controlPlane(), c.workers) {
		if n.spec.KubernetesVersion != version {
			return
		}
	}
	_ = os.Remove(c.partsFile(version)) // otherwise it is deleted with the cluster
}
