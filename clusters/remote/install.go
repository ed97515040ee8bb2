package remote

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"al.essio.dev/pkg/shellescape"

	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/clusters/release"
)

// agentUp is how long an agent may take until it answers.
const agentUp = 30 * time.Second

// healed returns when no fault of another run is active on the node.
func (n *node) healed(ctx context.Context) error {
	if err := n.HealAll(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, agentUp, fmt.Errorf("it was not healed within %s", agentUp))
	defer cancel()
	return await.Until(ctx, 100*time.Millisecond, func(ctx context.Context) error {
		left, err := n.Active(ctx)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("on %s a fault of another run is active (%s)", n.Name(), strings.Join(left, ", "))
		}
		return err
	})
}

// putAgent copies the agent to the node, unless it exists, and starts it. It refuses one that another
// run has started meanwhile.
func (n *node) putAgent(ctx context.Context) error {
	n.put = true
	config := n.found.config()
	config.Run, config.PeerControlPorts = agenthttp.Run(), n.cluster.portsBut(n)
	files, err := agent.Files(config)
	if err != nil {
		return err
	}
	start := agent.SetUp()
	if !n.found.sight.systemd {
		delete(files, agent.UnitPath)
		delete(files, agent.GuardUnitPath)
		start = "setsid sh -c " + shellescape.Quote(agent.Keep()) + " </dev/null >/dev/null 2>&1 &\n" + agent.KeepGuard()
	}
	file, err := agent.Program()
	if err != nil {
		return err
	}
	sum, err := release.HashFile(file)
	if err != nil {
		return err
	}
	there, err := n.shell.run(ctx, "sha256sum "+agent.BinaryPath+" 2>/dev/null || true")
	if err != nil {
		return err
	}
	var program []byte
	install := unpack
	if !strings.HasPrefix(strings.TrimSpace(there), sum) {
		// The file of a running program cannot be written to.
		install = "rm -f " + agent.BinaryPath + " && " + unpack
		if program, err = n.cluster.program(); err != nil {
			return err
		}
	}
	own, err := packFiles(files)
	if err != nil {
		return err
	}
	out, err := n.shell.runFor(ctx, transferLimit, installing(install, start), io.MultiReader(bytes.NewReader(program), bytes.NewReader(own)))
	if err != nil {
		return fmt.Errorf("failed to start the agent: %w", err)
	}
	if err := n.shell.used(out); err != nil {
		n.put = false
		return err
	}
	waiting, cancel := context.WithTimeoutCause(ctx, agentUp, fmt.Errorf("its agent did not answer within %s", agentUp))
	defer cancel()
	if err := await.Until(waiting, 100*time.Millisecond, n.Ping); err != nil {
		said, _ := n.shell.run(context.WithoutCancel(ctx), agent.LastWords)
		return fmt.Errorf("failed to start the agent on %s: %w; its output: %s", n.Name(), err, strings.TrimSpace(said))
	}
	return n.healed(ctx)
}

// installing returns the script that unpacks the files of an agent and starts it, unless another run
// uses the node's agent: its files stay as they are. Copying the files takes time, in which that run may
// begin.
func installing(install, start string) string {
	return unlessUsed() + orNothing(install) + unlessUsed() + start
}

// orNothing returns the script that unpacks the files of an agent, or exits without any of them, since the
// guard that would remove them does not run yet: the archive is incomplete if this process is killed.
func orNothing(install string) string {
	return "{ " + install + "; } || { " + agent.RemoveUnused() + "; exit 1; }\n"
}

// portsBut returns the ports of sshd on all nodes but one, as those nodes see them.
func (c *Cluster) portsBut(one *node) (ports []uint16) {
	for _, n := range c.reached {
		if n != one && n.found.sight.port != 0 {
			ports = append(ports, n.found.sight.port)
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}
