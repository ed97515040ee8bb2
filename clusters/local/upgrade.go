package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/semver"
	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/clusters/internal/upgrading"
	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/workload"
)

var (
	_ framework.Upgrader     = (*Cluster)(nil)
	_ framework.EtcdUpgrader = (*Cluster)(nil)
	_ framework.Reconfigurer = (*Cluster)(nil)
)

// restartOrder is the order in which the components of a node change to a newer version,
// which is that of the version skew policy: neither the controller manager nor the
// scheduler may be newer than the API server that it talks to. The way back is the reverse.
var restartOrder = []framework.Component{framework.APIServer, framework.ControllerManager, framework.Scheduler}

const (
	// restartHold is after what time a component is started again whose restart was
	// interrupted.
	restartHold = time.Minute
	// servingLimit is how long a restarted component may take until it is ready.
	servingLimit = 2 * time.Minute
)

// UpgradeOrder implements framework.Upgrader.
func (c *Cluster) UpgradeOrder() []string { return framework.NodeNames(c.controlPlane()) }

// CheckUpgrade implements framework.Upgrader.
func (c *Cluster) CheckUpgrade(ctx context.Context, name, version string) error {
	c.scaling.Lock()
	defer c.scaling.Unlock()
	_, err := c.planUpgrade(ctx, name, version)
	return upgradeError(name, "Kubernetes "+version, err, true)
}

// CheckEtcdUpgrade implements framework.EtcdUpgrader.
func (c *Cluster) CheckEtcdUpgrade(ctx context.Context, name, version string) error {
	c.scaling.Lock()
	defer c.scaling.Unlock()
	_, err := c.planEtcd(ctx, name, version)
	return upgradeError(name, "etcd "+version, err, true)
}

// UpgradeNode implements framework.Upgrader. API server, controller manager and scheduler
// are stopped gracefully and started in the version, one after the other; the machine and
// its etcd member stay as they are.
func (c *Cluster) UpgradeNode(ctx context.Context, name, version string) error {
	c.scaling.Lock()
	defer c.scaling.Unlock()
	n, err := c.planUpgrade(ctx, name, version)
	if err == nil {
		_, err = c.binary(release.Kubernetes, version, "kube-apiserver")
	}
	if err != nil {
		return upgradeError(name, "Kubernetes "+version, err, true)
	}
	order := slices.Clone(restartOrder)
	if semver.Compare(version, n.version(framework.APIServer)) < 0 {
		slices.Reverse(order)
	}
	for _, component := range order {
		if n.runs(component, version) {
			if err := n.awaitServing(ctx, component); err != nil {
				return upgradeError(name, "Kubernetes "+version, err, false)
			}
			continue
		}
		err := framework.Restart(ctx, name, component, version, func(ctx context.Context) (string, error) {
			return n.changeTo(ctx, component, version, nil)
		})
		if err != nil {
			return upgradeError(name, "Kubernetes "+version, err, false)
		}
	}
	if err := n.upgradeAddons(ctx, version); err != nil {
		return upgradeError(name, "Kubernetes "+version, err, false)
	}
	return nil
}

func upgradeError(name, to string, err error, untouched bool) error {
	if err != nil && untouched {
		err = framework.Untouched{Err: err}
	}
	if err != nil {
		return fmt.Errorf("failed to upgrade %s to %s: %w", name, to, err)
	}
	return nil
}

// planUpgrade returns the node if it can change to a version.
func (c *Cluster) planUpgrade(ctx context.Context, name, version string) (*node, error) {
	if _, err := release.ParseVersion(release.Kubernetes, version); err != nil {
		return nil, err
	}
	n, err := c.changeable(ctx, name)
	if err != nil {
		return nil, err
	}
	return n, upgrading.APIServer(version, c.Versions())
}

// changeable returns the node of a name if its components can be restarted now.
func (c *Cluster) changeable(ctx context.Context, name string) (*node, error) {
	if c.ended {
		return nil, errEnded
	}
	nodes := c.controlPlane()
	i := slices.IndexFunc(nodes, func(n *node) bool { return n.Name() == name })
	if i < 0 {
		return nil, fmt.Errorf("no such node; the nodes are %s", strings.Join(framework.NodeNames(nodes), ", "))
	}
	if !nodes[i].machine.powered() {
		return nil, errors.New("its machine has no power: bring it back (`holdfast heal`) first")
	}
	all, err := nodes[i].machine.agent.Processes(ctx)
	if err != nil {
		return nil, err
	}
	return nodes[i], upgrading.Undisturbed(all)
}

// UpgradeEtcd implements framework.EtcdUpgrader.
func (c *Cluster) UpgradeEtcd(ctx context.Context, name, version string) error {
	c.scaling.Lock()
	defer c.scaling.Unlock()
	n, err := c.planEtcd(ctx, name, version)
	if err == nil && version != release.EmbeddedEtcd {
		_, err = c.binary(release.Etcd, version, "etcd")
	}
	if err != nil {
		return upgradeError(name, "etcd "+version, err, true)
	}
	if n.runs(framework.Etcd, version) {
		return upgradeError(name, "etcd "+version, n.awaitServing(ctx, framework.Etcd), false)
	}
	// Otherwise the others wait for an election timeout until they elect another leader.
	if err := c.etcdMembers().HandOn(ctx, name); err != nil {
		return upgradeError(name, "etcd "+version, err, true)
	}
	err = framework.Restart(ctx, name, framework.Etcd, version, func(ctx context.Context) (string, error) {
		return n.changeTo(ctx, framework.Etcd, version, nil)
	})
	return upgradeError(name, "etcd "+version, err, false)
}

// planEtcd returns the node if its etcd member can change to a version.
func (c *Cluster) planEtcd(ctx context.Context, name, version string) (*node, error) {
	if _, err := release.ParseVersion(release.Etcd, version); err != nil {
		return nil, err
	}
	n, err := c.changeable(ctx, name)
	if err != nil {
		return nil, err
	}
	for _, other := range c.controlPlane() {
		v := other.version(framework.Etcd)
		switch {
		case semver.Major(v) != semver.Major(version) || upgrading.Minor(version)-upgrading.Minor(v) > 1:
			return nil, fmt.Errorf("etcd members must be within one minor version, and that of %s is %s: upgrade all members to the next minor version first", other.Name(), v)
		case other == n && semver.Compare(version, v) < 0:
			return nil, fmt.Errorf("it runs etcd %s, and a member cannot be downgraded: %w", v, errors.ErrUnsupported)
		}
	}
	return n, c.etcdMembers().QuorumBeside(ctx, name)
}

// Reconfigure implements framework.Reconfigurer, in the order of an upgrade, etcd first.
func (c *Cluster) Reconfigure(ctx context.Context, name string, args map[framework.Component]map[string]string) error {
	c.scaling.Lock()
	defer c.scaling.Unlock()
	n, err := c.changeable(ctx, name)
	if err == nil && args[framework.Etcd] != nil {
		err = c.etcdMembers().QuorumBeside(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("failed to reconfigure %s: %w", name, framework.Untouched{Err: err})
	}
	for _, component := range append([]framework.Component{framework.Etcd}, restartOrder...) {
		if args[component] == nil {
			continue
		}
		if component == framework.Etcd {
			err = c.etcdMembers().HandOn(ctx, name)
		}
		if err == nil {
			err = framework.Restart(ctx, name, component, n.version(component), func(ctx context.Context) (string, error) {
				return n.changeTo(ctx, component, n.version(component), args[component])
			})
		}
		if err != nil {
			return fmt.Errorf("failed to reconfigure %s: %w", name, err)
		}
	}
	return nil
}

// version returns that of a component.
func (n *node) version(c framework.Component) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.versions[c]
}

// runs reports whether a component is of a version, also after its next start.
func (n *node) runs(c framework.Component, version string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.versions[c] == version && !n.unsettled[c]
}

// oldest returns the oldest version of a component on the nodes, in which another node can
// join: etcd refuses a member whose minor version is below that of the oldest one.
func (c *Cluster) oldest(component framework.Component) string {
	return slices.MinFunc(framework.Map(c.controlPlane(), func(n *node) string { return n.version(component) }), semver.Compare)
}

// changeTo restarts a component in a version, with further arguments, and returns when it
// serves, with what proves it. What is interrupted is started all the same.
func (n *node) changeTo(ctx context.Context, c framework.Component, version string, args map[string]string) (proof string, err error) {
	n.mu.Lock()
	spec := n.spec
	further := n.reconfigured.Merge(clusters.ExtraArgs{c: args})
	n.mu.Unlock()
	spec.ExtraArgs = spec.ExtraArgs.Merge(further)
	if spec.KubernetesVersion, spec.EtcdVersion = version, n.version(framework.Etcd); c == framework.Etcd {
		spec.KubernetesVersion, spec.EtcdVersion = n.spec.KubernetesVersion, version
	}
	commands, err := n.commands(spec)
	if err != nil {
		return "", err
	}
	before, err := n.Process(ctx, c)
	if err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	n.mu.Lock()
	n.unsettled[c] = true
	n.mu.Unlock()
	// Of a stop that is interrupted it is not known when the agent acts on it: it may hold
	// the component down after the start.
	uninterrupted := context.WithoutCancel(ctx)
	i := slices.IndexFunc(commands, func(cs agent.Component) bool { return cs.Name == c })
	if err := n.machine.renew(uninterrupted, commands[i]); err != nil {
		return "", err
	}
	err = n.Stop(uninterrupted, c, restartHold)
	if errors.Is(err, framework.ErrNothingDone) {
		err = nil // it is down
	}
	if err = errors.Join(err, n.Start(uninterrupted, c)); err != nil {
		return "", err
	}
	n.mu.Lock()
	n.versions[c], n.unsettled[c], n.reconfigured = version, false, further
	n.mu.Unlock()
	if err := n.awaitServing(ctx, c); err != nil {
		return "", err
	}
	now, err := n.Process(ctx, c)
	switch {
	case err != nil:
		return "", err
	case now.Standby:
		return "it stands by in " + version, nil
	case now.PID == before.PID:
		return "", fmt.Errorf("the old process %d is still running", now.PID)
	}
	return fmt.Sprintf("process %d serves in %s, after process %d", now.PID, version, before.PID), nil
}

// awaitServing returns when a component serves in its version, or stands by.
func (n *node) awaitServing(ctx context.Context, c framework.Component) error {
	ctx, cancel := context.WithTimeoutCause(ctx, servingLimit, fmt.Errorf("not ready after %s", servingLimit))
	defer cancel()
	return await.Until(ctx, 50*time.Millisecond, func(ctx context.Context) error {
		p, err := n.Process(ctx, c)
		switch {
		case err != nil || p.Standby:
			return err
		case p.PID == 0:
			return fmt.Errorf("%s is not running (last exit: %s; see %s)", c, p.LastExit, n.machine.logs)
		}
		return n.serves(ctx, c, n.version(c))
	})
}

// serves returns an error unless a component answers that it is of a version, and is ready.
func (n *node) serves(ctx context.Context, c framework.Component, version string) error {
	ctx, cancel := context.WithTimeout(ctx, agentLimit)
	defer cancel()
	if c == framework.Etcd {
		others := n.cluster.etcdMembers().Statuses(ctx)
		own, err := n.cluster.etcdMember(n).Status(ctx)
		if err != nil {
			return err
		}
		if "v"+own.Version != version {
			return fmt.Errorf("it is v%s", own.Version)
		}
		for node, other := range others {
			if own.RaftAppliedIndex < other.RaftAppliedIndex {
				return fmt.Errorf("it has applied index %d, and the member on %s index %d", own.RaftAppliedIndex, node, other.RaftAppliedIndex)
			}
		}
		return nil
	}
	i := slices.IndexFunc(n.cluster.Entrances(), func(e framework.Entrance) bool { return e.Node == n.Name() })
	config := rest.CopyConfig(n.cluster.Entrances()[i].Config)
	asked, ready := "/version", "/readyz"
	read := workload.GitVersion
	if c != framework.APIServer {
		endpoints, err := n.ServingEndpoints(c)
		if err != nil {
			return err
		}
		config.Host, asked, ready, read = "https://"+endpoints[0].Address, "/metrics", endpoints[0].Path, workload.BuildInfo
	}
	client, err := await.Client(config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	body, err := await.Request(ctx, client, "GET", config.Host+asked, "")
	if err != nil {
		return fmt.Errorf("failed to ask for its version: %w", err)
	}
	if has, err := read(body); err != nil || has != version {
		return errors.Join(err, fmt.Errorf("it has version %s", has))
	}
	if _, err := await.Request(ctx, client, "GET", config.Host+ready, ""); err != nil {
		return fmt.Errorf("it is not ready: %w", err)
	}
	return nil
}
