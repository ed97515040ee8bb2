package kind

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path"
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
	// lastWordsLimit is how long the engine may take to tell what was said on a node that
	// does not come up.
	lastWordsLimit = 5 * time.Second
)

// startAgents puts an agent into every container of the cluster and returns when all of
// them answer.
func (c *Cluster) startAgents(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	for _, n := range c.containers() {
		g.Go(func() error {
			if err := n.startAgent(gctx); err != nil {
				return fmt.Errorf("starting the agent on %s: %w", n.name, err)
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
		config.Audit = nodeAuditLog
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
	if err := n.put(ctx, func(t *tar.Writer) error { return errors.Join(addProgram(t), addFiles(t, files)) }); err != nil {
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

// setSysctls sets kernel settings of the network of a container without privileges, in
// which nobody may: another container that shares its network does.
func (n *node) setSysctls(ctx context.Context, settings map[string]string) error {
	if len(settings) == 0 {
		return nil
	}
	containers, err := n.cluster.cli.Inspect(ctx, n.name)
	if err != nil {
		return err
	}
	// As system.SetSysctls does, which leaves out what the kernel does not have.
	const script = `while [ $# -gt 0 ]; do
	if [ -e "$1" ]; then echo "$2" >"$1" || exit; fi
	shift 2
done`
	args := []string{"run", "--rm", "--pull", "never", "--privileged", "--network", "container:" + n.name, "--entrypoint", "sh", containers[0].Config.Image, "-c", script, "sh"}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, system.SysctlFile(name), settings[name])
	}
	if _, err := n.docker(ctx, args...); err != nil {
		return fmt.Errorf("setting %v in the network of %s: %w", settings, n.name, err)
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
		err = fmt.Errorf("%w; it said: %s", err, words)
	}
	return err
}

// put writes what add adds into the container.
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

// addProgram adds this program, as the agent's.
func addProgram(t *tar.Writer) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	program, err := os.Open(exe)
	if err != nil {
		return err
	}
	defer program.Close()
	info, err := program.Stat()
	if err != nil {
		return err
	}
	if err := t.WriteHeader(&tar.Header{Name: agent.BinaryPath[1:], Mode: 0o755, Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(t, program)
	return err
}

// addFiles adds files, by path, and their directories, of which outer ones come first.
func addFiles(t *tar.Writer, files map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		b := files[name]
		err := t.WriteHeader(&tar.Header{Name: path.Dir(name)[1:] + "/", Typeflag: tar.TypeDir, Mode: 0o755})
		if err == nil {
			err = t.WriteHeader(&tar.Header{Name: name[1:], Mode: 0o644, Size: int64(len(b))})
		}
		if err == nil {
			_, err = t.Write(b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (n *node) docker(ctx context.Context, args ...string) (string, error) {
	return n.cluster.cli.Run(ctx, args...)
}

// dial opens a connection to the node's agent: the streams of a program that runs
// inside and joins them to the agent's socket. It lasts until it is closed.
func (n *node) dial(context.Context) (net.Conn, error) {
	in, out, err := pipes()
	if err != nil {
		return nil, err
	}
	cmd := n.cluster.cli.Start("exec", "--interactive", n.name, agent.ConnectPath)
	cmd.Stdin, cmd.Stdout = in.r, out.w
	err = cmd.Start()
	_ = in.r.Close()
	_ = out.w.Close()
	if err != nil {
		_ = in.w.Close()
		_ = out.r.Close()
		return nil, err
	}
	return &streams{cmd: cmd, in: in.w, out: out.r}, nil
}

type pipe struct{ r, w *os.File }

func pipes() (in, out pipe, err error) {
	if in.r, in.w, err = os.Pipe(); err != nil {
		return in, out, err
	}
	if out.r, out.w, err = os.Pipe(); err != nil {
		_ = in.r.Close()
		_ = in.w.Close()
	}
	return in, out, err
}

// streams is a connection to a program.
type streams struct {
	cmd *exec.Cmd
	in  *os.File // what it reads
	out *os.File // what it writes
}

func (s *streams) Read(b []byte) (int, error)  { return s.out.Read(b) }
func (s *streams) Write(b []byte) (int, error) { return s.in.Write(b) }

// Close ends the program.
func (s *streams) Close() error {
	_ = s.in.Close()
	err := s.out.Close()
	_ = s.cmd.Process.Kill()
	go func() { _ = s.cmd.Wait() }()
	return err
}

func (s *streams) SetDeadline(t time.Time) error {
	if err := s.in.SetWriteDeadline(t); err != nil {
		return err
	}
	return s.out.SetReadDeadline(t)
}

func (s *streams) SetReadDeadline(t time.Time) error  { return s.out.SetReadDeadline(t) }
func (s *streams) SetWriteDeadline(t time.Time) error { return s.in.SetWriteDeadline(t) }
func (s *streams) LocalAddr() net.Addr                { return streamAddr{} }
func (s *streams) RemoteAddr() net.Addr               { return streamAddr{} }

type streamAddr struct{}

func (streamAddr) Network() string { return "exec" }
func (streamAddr) String() string  { return "exec" }
