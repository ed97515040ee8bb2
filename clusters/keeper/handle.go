package keeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gofrs/flock"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
)

// ErrNoCluster is the error of Open if no such cluster runs, or a name is needed.
var ErrNoCluster = errors.New("no such cluster")

// notFound is an ErrNoCluster that says what to do.
type notFound string

func (e notFound) Error() string { return string(e) }

func (e notFound) Is(target error) bool { return target == ErrNoCluster }

// ErrNoHost is returned for a host that the cluster does not have.
var ErrNoHost = errors.New("no such host")

// ErrNoLog is in the error for a log that does not exist.
var ErrNoLog = errors.New("no such log")

// Handle is a cluster made by Up.
type Handle struct {
	// Name is the cluster's.
	Name     string
	dir      string
	provider clusters.Provider
	access   Access
}

// handle returns the handle of a kept cluster's state directory.
func handle(providers []clusters.Provider, name string) (*Handle, error) {
	h := &Handle{Name: name, dir: stateDir(name)}
	cfg, err := loadConfig(h.dir)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", name, err)
	}
	if h.provider, err = provider(providers, cfg.Provider); err == nil {
		h.access, err = access(h.provider)
	}
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", name, err)
	}
	return h, nil
}

// stateDir returns the state directory of a cluster.
func stateDir(name string) string { return filepath.Join(system.StateRoot(), name) }

// running reports whether a cluster is kept: its keeper or its server has the lock.
func running(dir string) bool {
	path := filepath.Join(dir, lockFile)
	if _, err := os.Stat(path); err != nil {
		return false
	}
	lock := flock.New(path)
	// Shared, so that two concurrent checks do not take each other for a keeper.
	ok, err := lock.TryRLock()
	if ok {
		_ = lock.Unlock()
	}
	return err == nil && !ok
}

// List returns the names of the clusters that run, sorted.
func List() ([]string, error) {
	running, _, err := list()
	return running, err
}

// list returns the names of the kept clusters, and of those that are only partly left without a
// keeper; sorted.
func list() (kept, left []string, err error) {
	if _, err := os.Lstat(system.StateRoot()); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err := system.MakeStateRoot(); err != nil {
		return nil, nil, err
	}
	entries, err := os.ReadDir(system.StateRoot())
	if err != nil {
		return nil, nil, fmt.Errorf("failed to list clusters: %w", err)
	}
	for _, e := range entries {
		dir := filepath.Join(system.StateRoot(), e.Name())
		if !e.IsDir() {
			continue
		}
		if running(dir) {
			kept = append(kept, e.Name())
		} else if _, err := os.Stat(filepath.Join(dir, clusterFile)); err == nil {
			left = append(left, e.Name())
		}
	}
	slices.Sort(kept)
	slices.Sort(left)
	return kept, left, nil
}

// Open finds the cluster of a name made by Up, of one of these providers; the empty name means
// the only one. The error for a name that no cluster can have is a *clusters.InputError.
func Open(providers []clusters.Provider, name string) (*Handle, error) {
	if name != "" {
		if err := clusters.CheckName(name); err != nil {
			return nil, err
		}
	}
	names, err := List()
	if err != nil {
		return nil, err
	}
	switch {
	case name == "" && len(names) == 1:
		name = names[0]
	case name == "" && len(names) > 1:
		return nil, notFound("several clusters are running; choose one with --name: " + strings.Join(names, ", "))
	case name == "":
		return nil, notFound("no cluster is running; create one with: holdfast up")
	case !slices.Contains(names, name):
		return nil, notFound(fmt.Sprintf("cluster %q is not running; running: %s", name, cmp.Or(strings.Join(names, ", "), "none")))
	}
	return handle(providers, name)
}

// Provider returns the name of the provider that made the cluster.
func (h *Handle) Provider() string { return h.provider.Name() }

// Dir returns the directory of the cluster's state. Its logs are in
// logs/HOST/COMPONENT.log.
func (h *Handle) Dir() string { return h.dir }

// Kubeconfig returns the path of a kubeconfig for clients on this machine. It works while the
// cluster exists.
func (h *Handle) Kubeconfig() string { return filepath.Join(h.dir, kubeconfigFile) }

// DataDir returns the directory of the cluster's data on disk.
func (h *Handle) DataDir() (string, error) {
	cfg, err := loadConfig(h.dir)
	return cfg.DataDir, err
}

// Spec returns the description that the cluster was made from.
func (h *Handle) Spec() (*clusters.Cluster, error) {
	spec, err := loadSpec(h.dir)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", h.Name, err)
	}
	return spec, nil
}

func loadSpec(dir string) (*clusters.Cluster, error) {
	var spec clusters.Cluster
	if err := system.ReadJSON(filepath.Join(dir, clusterFile), &spec); err != nil {
		return nil, fmt.Errorf("failed to read the description of the cluster: %w", err)
	}
	return &spec, nil
}

// Kubectl returns the path of a kubectl of the cluster's version.
func (h *Handle) Kubectl(ctx context.Context) (string, error) { return h.access.Kubectl(ctx, h) }

// Shell returns a command that runs argv, or a shell if argv is empty, on a machine of the
// cluster, or on the harness's if host is empty. KUBECONFIG and etcdctl's variables are set if
// the files that they name exist on the machine. The caller sets its streams.
func (h *Handle) Shell(ctx context.Context, host string, argv ...string) (*exec.Cmd, error) {
	if host == "" {
		return h.access.Shell(ctx, h, nil, argv...)
	}
	status, err := h.Status(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(status.Hosts, func(s HostStatus) bool { return s.Name == host })
	switch {
	case i < 0:
		names := framework.Names(status.Hosts, func(s HostStatus) string { return s.Name })
		return nil, fmt.Errorf("%w: cluster %s has no host %q; it has %s", ErrNoHost, h.Name, host, strings.Join(names, ", "))
	case !status.Hosts[i].Powered:
		return nil, fmt.Errorf("%s of cluster %s is powered off", host, h.Name)
	}
	return h.access.Shell(ctx, h, &status.Hosts[i], argv...)
}

// Log writes the log of a component on a machine to out. If follow is set, it also writes what
// is appended until ctx ends.
func (h *Handle) Log(ctx context.Context, host, component string, follow bool, out io.Writer) error {
	return h.access.Log(ctx, h, host, component, follow, out)
}

// Status requests the cluster's state.
func (h *Handle) Status(ctx context.Context) (*Status, error) {
	c := h.server()
	defer c.Close()
	var status Status
	if err := c.Call(ctx, http.MethodGet, "status", nil, &status); err != nil {
		return nil, fmt.Errorf("failed to ask cluster %s for its state: %w", h.Name, err)
	}
	status.Kubeconfig = h.Kubeconfig()
	return &status, nil
}

// server returns a client of the server, which the caller closes.
func (h *Handle) server() *agenthttp.Client {
	return agenthttp.NewUnix("cluster "+h.Name, filepath.Join(h.dir, controlSocket))
}

// PID returns the PID of the keeper, which has the lock.
func (h *Handle) PID() (int, error) {
	b, err := os.ReadFile(filepath.Join(h.dir, lockFile))
	if err != nil {
		return 0, fmt.Errorf("failed to find the keeper of cluster %s: %w", h.Name, err)
	}
	pid, err := strconv.Atoi(string(b))
	if err != nil || !running(h.dir) {
		return 0, fmt.Errorf("failed to find the keeper of cluster %s: its lock file contains %q", h.Name, b)
	}
	return pid, nil
}
