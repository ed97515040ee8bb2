package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
)

func TestMain(m *testing.M) {
	Main(standIn{})
	os.Exit(m.Run())
}

// standIn is a provider of clusters that are one HTTP server and a file in the directory of
// engineVariable, which outlives the process that created it.
type standIn struct{}

const (
	engineVariable = "HOLDFAST_TEST_ENGINE"
	// behaviour is how clusters are made: empty, fails, panics, killed, hangs, unready, taken, or
	// stuck when they are deleted.
	behaviour = "HOLDFAST_TEST_BEHAVIOUR"
)

func mark(name string) string { return filepath.Join(os.Getenv(engineVariable), name) }

func (standIn) Name() string                   { return "stand-in" }
func (standIn) Lacks(*clusters.Cluster) string { return "" }
func (standIn) Explain(err error) error        { return err }

func (standIn) Prepare(context.Context, clusters.Preparation, ...*clusters.Cluster) error {
	return nil
}

func (standIn) Command(ctx context.Context, args ...string) (*exec.Cmd, error) {
	cmd := system.Again(ctx, args...)
	null, err := os.Open(os.DevNull)
	cmd.ExtraFiles = []*os.File{null} // some provider's own
	return cmd, err
}

func (standIn) Create(ctx context.Context, c *clusters.Cluster, o clusters.Options) (clusters.Made, error) {
	name := c.Metadata.Name
	o.Progress("making " + name)
	if err := os.WriteFile(mark(name), nil, 0o600); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	made := &standInCluster{name: name, behaviour: os.Getenv(behaviour), l: l, progress: o.Progress}
	switch made.behaviour {
	case "fails":
		return nil, errors.Join(errors.New("there is no power"), made.Close(ctx))
	case "panics":
		_ = made.Close(ctx)
		panic("the wire is cut")
	case "killed":
		err := syscall.Kill(os.Getppid(), syscall.SIGKILL)
		<-ctx.Done()
		return nil, errors.Join(ctx.Err(), err, made.Close(ctx))
	case "taken":
		return nil, errors.Join(fmt.Errorf("%w: by another", clusters.ErrTaken), made.Close(ctx))
	case "hangs":
		<-ctx.Done()
		return nil, errors.Join(ctx.Err(), made.Close(ctx))
	}
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `{"path":%q,"spec":{"holderIdentity":"one_1"}}`, r.URL.Path)
		}))
	}()
	return made, nil
}

// Describe knows the clusters of which there is a mark.
func (standIn) Describe(_ context.Context, name string) (*clusters.Cluster, error) {
	c := clusters.Default()
	c.Metadata.Name = name
	_, err := os.Stat(mark(name))
	return c, err
}

// Attach puts a mark of its own beside that of the cluster.
func (standIn) Attach(ctx context.Context, c *clusters.Cluster, o clusters.Options) (clusters.Made, error) {
	agents := *c
	agents.Metadata.Name += agentsMark
	made, err := standIn{}.Create(ctx, &agents, o)
	return made, err
}

const agentsMark = "-agents"

func (standIn) Detach(_ context.Context, c *clusters.Cluster, deleted bool) error {
	for _, file := range []string{c.Metadata.Name + agentsMark, c.Metadata.Name} {
		if err := os.Remove(mark(file)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if !deleted {
			break
		}
	}
	return nil
}

func (standIn) Remove(_ context.Context, name string) (bool, error) {
	err := os.Remove(mark(name))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (standIn) EndLimit() time.Duration {
	if os.Getenv(behaviour) == "stuck" {
		return 200 * time.Millisecond
	}
	return 20 * time.Second
}

// Sweep only leaves a mark.
func (standIn) Sweep(context.Context) error { return os.WriteFile(mark("swept"), nil, 0o600) }

func (standIn) Shell(ctx context.Context, _ *Handle, host *HostStatus, argv ...string) (*exec.Cmd, error) {
	return exec.CommandContext(ctx, "echo", append([]string{host.Name}, argv...)...), nil
}

func (standIn) Log(_ context.Context, _ *Handle, host, component string, _ bool, out io.Writer) error {
	_, err := fmt.Fprintln(out, host, component)
	return err
}

func (standIn) PrepareUpgrade(_ context.Context, _ *Handle, r ChangeRequest, p clusters.Preparation) error {
	p.Progress("getting " + r.Version)
	return nil
}

func (standIn) Kubectl(context.Context, *Handle) (string, error) { return "kubectl", nil }

type standInCluster struct {
	name, behaviour string
	l               net.Listener
	progress        func(string)
	changing        sync.Mutex
}

func (c *standInCluster) Name() string                 { return c.name }
func (c *standInCluster) Nodes() []framework.Node      { return nil }
func (c *standInCluster) Settings() framework.Settings { return framework.Settings{} }

func (c *standInCluster) Versions() map[string]map[framework.Component]string {
	return map[string]map[framework.Component]string{"one": {framework.Etcd: "v3.9.9"}}
}

func (c *standInCluster) Entrances() []framework.Entrance {
	return []framework.Entrance{{Name: "balancer", Config: &rest.Config{Host: "http://" + c.l.Addr().String()}}}
}

func (c *standInCluster) Close(context.Context) error {
	if c.behaviour == "stuck" {
		select {}
	}
	c.changing.Lock()
	defer c.changing.Unlock()
	return errors.Join(c.l.Close(), os.Remove(mark(c.name)))
}

func (c *standInCluster) Ready(ctx context.Context) error {
	if c.behaviour == "unready" {
		return errors.New("no member leads")
	}
	return nil
}

func (c *standInCluster) Kubeconfig(server string) ([]byte, error) { return []byte(server), nil }

func (c *standInCluster) NetworkState() (string, int) { return "a wire", 3 }

func (c *standInCluster) Hosts(context.Context) []HostStatus {
	return []HostStatus{{Name: "one", Powered: true, Components: []framework.Process{{Component: framework.Etcd, PID: 7}}}, {Name: "two"}}
}

func (c *standInCluster) UpgradeOrder() []string { return []string{"one", "two"} }

func (c *standInCluster) CheckUpgrade(_ context.Context, name, version string) error {
	if name == "unknown" {
		return fmt.Errorf("no node %s: %w", name, framework.ErrNothingDone)
	}
	return nil
}

func (c *standInCluster) UpgradeNode(ctx context.Context, name, version string) error {
	if version == "v1" {
		return fmt.Errorf("%s is newer: %w", name, framework.ErrNothingDone)
	}
	c.changing.Lock()
	defer c.changing.Unlock()
	c.progress(name + " becomes " + version)
	switch version {
	case "broken":
		return errors.New(name + " is broken now")
	case "stepwise": // fails on the second node
		err := framework.Restart(ctx, name, framework.APIServer, version, func(context.Context) (string, error) { return "it serves", nil })
		if err != nil || name == "one" {
			return err
		}
		return framework.Restart(ctx, name, framework.Scheduler, version, func(context.Context) (string, error) { return "", errors.New("it is not ready") })
	case "slow":
		if err := framework.DoStep(ctx, name, "stop", func(context.Context) (string, error) { return "it exited", nil }); err != nil {
			return err
		}
		<-ctx.Done()
		c.progress(name + " is left") // to nobody
		return errors.Join(ctx.Err(), os.Remove(mark(c.name+"-slow")))
	}
	return nil
}
