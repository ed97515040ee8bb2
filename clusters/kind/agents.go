package kind

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/clusters/kind/balancer"
	"github.com/holdfast-ha/holdfast/clusters/system"
)

const (
	// agentUp is how long an agent may take until it answers.
	agentUp = 30 * time.Second
	// lastWordsLimit is how long the engine may take to return the last output of a node that
	// does not come up.
	lastWordsLimit = 5 * time.Second
)

// startAgents installs an agent in every container of the cluster and returns when all of them
// answer. Those of nodes that were added need not.
func (c *Cluster) startAgents(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	for _, n := range c.containers() {
		g.Go(func() error {
			// One that was added is removed next, whatever its state: with an agent, gracefully.
			if err := n.startAgent(gctx); err != nil && !n.added {
				return fmt.Errorf("failed to start the agent on %s: %w", n.name, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return c.Network.Meet(ctx)
}

func (n *node) startAgent(ctx context.Context) error {
	config := agent.Worker()
	switch n.role {
	case controlPlaneRole:
		config = agent.ControlPlane()
		config.Audit = n.cluster.audit
	case balancerRole:
		config = agent.Balancer(balancer.Program)
	}
	if settings := n.cluster.spec.Spec.Sysctls; n.role != balancerRole {
		config.Sysctls = settings
	} else if err := n.setSysctls(ctx, settings); err != nil {
		return err
	}
	files, err := agent.Files(config)
	if err != nil {
		return err
	}
	if n.role == balancerRole {
		delete(files, agent.UnitPath)
	}
	if err := n.put(ctx, func(t *tar.Writer) error { return errors.Join(agent.AddProgram(t), agent.AddFiles(t, files, 0o644)) }); err != nil {
		return err
	}
	if n.role == balancerRole {
		// It has no systemd.
		_, err = n.docker(ctx, "exec", "--detach", "--privileged", n.name, "sh", "-c", agent.Keep())
	} else {
		_, err = n.docker(ctx, "exec", n.name, "sh", "-c", agent.SetUp())
	}
	if err != nil {
		return err
	}
	return n.awaitAgent(ctx)
}

// setSysctls sets kernel settings of the network of an unprivileged container. The container
// itself must not; a second container that shares its network does.
func (n *node) setSysctls(ctx context.Context, settings map[string]string) error {
	if len(settings) == 0 {
		return nil
	}
	containers, err := n.cluster.cli.Inspect(ctx, n.name)
	if err != nil {
		return err
	}
	// Like system.SetSysctls, it skips settings that the kernel does not have.
	const script = `while [ $# -gt 0 ]; do
	if [ -e "$1" ]; then echo "$2" >"$1" || exit; fi
	shift 2
done`
	args := []string{"run", "--rm", "--pull", "never", "--privileged", "--network", "container:" + n.name, "--entrypoint", "sh", containers[0].Config.Image, "-c", script, "sh"}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, system.SysctlFile(name), settings[name])
	}
	if _, err := n.docker(ctx, args...); err != nil {
		return fmt.Errorf("failed to set %v in the network of %s: %w", settings, n.name, err)
	}
	return nil
}

func (n *node) awaitAgent(ctx context.Context) error {
	waiting, cancel := context.WithTimeoutCause(ctx, agentUp, fmt.Errorf("its agent did not answer within %s", agentUp))
	defer cancel()
	err := await.Until(waiting, 100*time.Millisecond, n.Ping)
	if err == nil || ctx.Err() != nil {
		return err
	}
	ctx, cancel = context.WithTimeout(ctx, lastWordsLimit)
	defer cancel()
	if words, _ := n.docker(ctx, "exec", n.name, "sh", "-c", agent.LastWords); words != "" {
		err = fmt.Errorf("%w; its output: %s", err, words)
	}
	return err
}

// put writes the files that add adds into the container.
func (n *node) put(ctx context.Context, add func(*tar.Writer) error) error {
	r, w := io.Pipe()
	go func() {
		t := tar.NewWriter(w)
		err := add(t)
		if err == nil {
			err = t.Close()
		}
		_ = w.CloseWithError(err)
	}()
	defer r.Close()
	_, err := n.cluster.cli.RunWith(ctx, r, "cp", "-", n.name+":/")
	return err
}

func (n *node) docker(ctx context.Context, args ...string) (string, error) {
	return n.cluster.cli.Run(ctx, args...)
}

// dial opens a connection to the node's agent: the streams of a program that runs inside and
// joins them to the agent's socket. It stays open until it is closed.
func (n *node) dial(context.Context) (net.Conn, error) {
	return agent.DialCommand(n.cluster.cli.Start(context.Background(), "exec", "--interactive", n.name, agent.ConnectPath))
}
