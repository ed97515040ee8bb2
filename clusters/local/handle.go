package local

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/clusters/system"
)

// UpOptions say how Up makes a cluster.
type UpOptions struct {
	// Wait returns when the cluster is ready rather than when its machines run.
	Wait bool
	// Port is the loopback port on which clients of this machine reach the
	// cluster; 0 for any free one.
	Port int
	// CacheDir is that of clusters/release; empty for the default.
	CacheDir string
	// Progress is told what happens, one line a step; nil for silence.
	Progress func(string)
}

// ErrRunning is returned by Up for a name that is taken.
var ErrRunning = errors.New("a cluster of this name runs already")

// ErrNoCluster is returned by Open where there is no cluster to open.
var ErrNoCluster = errors.New("no such cluster")

// ErrNoHost is returned for a host that the cluster does not have.
var ErrNoHost = errors.New("no such host")

// Handle is a cluster made by Up.
type Handle struct {
	// Name is the cluster's.
	Name string
	dir  string
}

// Up makes a cluster that runs until it is taken down, also when this process
// ends before. When it fails or ctx ends before it is done, nothing is left,
// but for one case: a cluster that runs without becoming ready stays, so that
// it can be looked into.
func Up(ctx context.Context, spec *clusters.Cluster, o UpOptions) (*Handle, error) {
	name := spec.Metadata.Name
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if err := system.MakeStateRoot(); err != nil {
		return nil, err
	}
	// One at a time: what is left of a dead cluster must not be what another
	// command is just making.
	starting := flock.New(filepath.Join(system.StateRoot(), "."+name+".lock"))
	if _, err := starting.TryLockContext(ctx, 50*time.Millisecond); err != nil {
		return nil, fmt.Errorf("waiting for another start of cluster %s: %w", name, err)
	}
	defer starting.Unlock()
	h := &Handle{Name: name, dir: filepath.Join(system.StateRoot(), name)}
	if h.running() {
		return nil, fmt.Errorf("%w: %s; take it down with `holdfast down --name %s`, or give this one another --name", ErrRunning, name, name)
	}
	// What is left of a cluster whose keeper was killed.
	if err := os.RemoveAll(h.dir); err != nil {
		return nil, fmt.Errorf("clearing what is left of an earlier cluster %s: %w", name, err)
	}
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the state directory of cluster %s: %w", name, err)
	}
	b, err := json.Marshal(spec)
	if err == nil {
		err = os.WriteFile(filepath.Join(h.dir, clusterFile), b, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("writing the description of cluster %s: %w", name, err)
	}
	if err := h.startKeeper(ctx, o); err != nil {
		return nil, fmt.Errorf("cluster %s: %w", name, err)
	}
	return h, nil
}

func (h *Handle) startKeeper(ctx context.Context, o UpOptions) error {
	data, err := h.dataDir(o.CacheDir)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(data); err != nil {
		return fmt.Errorf("clearing the data of an earlier cluster: %w", err)
	}
	config, err := json.Marshal(keeperConfig{Dir: h.dir, DataDir: data, CacheDir: o.CacheDir, Port: o.Port})
	if err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(h.dir, keeperLog), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	keeper := &exec.Cmd{Path: exe, Args: []string{roleKeeper, string(config)}, Dir: "/", Stdout: log, Stderr: log,
		ExtraFiles: []*os.File{w}, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	err = keeper.Start()
	_ = w.Close()
	if err != nil {
		return fmt.Errorf("starting its keeper: %w", err)
	}
	gone := make(chan struct{})
	go func() { _ = keeper.Wait(); close(gone) }()
	ok, err := h.follow(ctx, r, o)
	_ = r.Close()
	if !ok {
		_ = keeper.Process.Signal(syscall.SIGTERM)
		select {
		case <-gone:
		case <-time.After(10 * time.Second):
			_ = keeper.Process.Kill()
			<-gone
		}
		_ = os.RemoveAll(h.dir)
	}
	return err
}

// dataDir returns where the cluster keeps what is to be on disk: beside the
// binaries, since the state of running clusters is in memory as a rule.
func (h *Handle) dataDir(cacheDir string) (string, error) {
	if cacheDir == "" {
		var err error
		if cacheDir, err = release.DefaultCacheDir(); err != nil {
			return "", err
		}
	}
	// Clusters of one name may run under different directories of state.
	return filepath.Join(cacheDir, "clusters", fmt.Sprintf("%s-%08x", h.Name, crc32.ChecksumIEEE([]byte(h.dir)))), nil
}

// follow reads what the keeper tells until the cluster is as far as o asks. It
// returns whether the cluster is to stay.
func (h *Handle) follow(ctx context.Context, r *os.File, o UpOptions) (stay bool, err error) {
	stop := context.AfterFunc(ctx, func() { _ = r.SetReadDeadline(time.Now()) })
	defer stop()
	running := false
	for lines := bufio.NewScanner(r); lines.Scan(); {
		var e upEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return false, fmt.Errorf("its keeper said %q", lines.Text())
		}
		switch {
		case e.Error != "" && running:
			return true, fmt.Errorf("%s\nit goes on running: look into it with `holdfast status`, `holdfast logs` and `holdfast shell`, or end it with `holdfast down`", e.Error)
		case e.Error != "":
			return false, errors.New(e.Error)
		case e.Ready:
			return true, nil
		case e.Running:
			running = true
			if !o.Wait {
				return true, nil
			}
		default:
			o.Progress(e.Message)
		}
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	words, _ := os.ReadFile(filepath.Join(h.dir, keeperLog))
	return false, fmt.Errorf("its keeper ended: %s", strings.TrimSpace(string(words)))
}

// running tells whether the cluster's keeper lives: it holds the lock.
func (h *Handle) running() bool {
	path := filepath.Join(h.dir, lockFile)
	if _, err := os.Stat(path); err != nil {
		return false
	}
	lock := flock.New(path)
	// Shared, so that two who ask at once do not take each other for a keeper.
	ok, err := lock.TryRLock()
	if ok {
		_ = lock.Unlock()
	}
	return err == nil && !ok
}

// List returns the names of the clusters that run, sorted.
func List() ([]string, error) {
	if _, err := os.Lstat(system.StateRoot()); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err := system.MakeStateRoot(); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(system.StateRoot())
	if err != nil {
		return nil, fmt.Errorf("listing clusters: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && (&Handle{dir: filepath.Join(system.StateRoot(), e.Name())}).running() {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// Open finds the cluster of a name made by Up; the empty name stands for the
// only one there is.
func Open(name string) (*Handle, error) {
	names, err := List()
	if err != nil {
		return nil, err
	}
	switch {
	case name == "" && len(names) == 1:
		name = names[0]
	case name == "" && len(names) > 1:
		return nil, fmt.Errorf("%w: there are several, say which with --name: %s", ErrNoCluster, strings.Join(names, ", "))
	case name == "":
		return nil, fmt.Errorf("%w: none runs; make one with `holdfast up`", ErrNoCluster)
	case !slices.Contains(names, name):
		if len(names) == 0 {
			names = []string{"none"}
		}
		return nil, fmt.Errorf("%w: %s; running: %s", ErrNoCluster, name, strings.Join(names, ", "))
	}
	return &Handle{Name: name, dir: filepath.Join(system.StateRoot(), name)}, nil
}

// Dir returns the directory of the cluster's state. Its logs are in
// logs/HOST/COMPONENT.log.
func (h *Handle) Dir() string { return h.dir }

// Kubeconfig returns the path of a kubeconfig for clients on this machine. It
// works for as long as the cluster lives.
func (h *Handle) Kubeconfig() string { return filepath.Join(h.dir, kubeconfigFile) }

// Spec returns the description that the cluster was made from.
func (h *Handle) Spec() (*clusters.Cluster, error) {
	b, err := os.ReadFile(filepath.Join(h.dir, clusterFile))
	var spec clusters.Cluster
	if err == nil {
		err = json.Unmarshal(b, &spec)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the description of cluster %s: %w", h.Name, err)
	}
	return &spec, nil
}

// Kubectl returns the path of the kubectl of the cluster's version.
func (h *Handle) Kubectl(cacheDir string) (string, error) {
	spec, err := h.Spec()
	if err != nil {
		return "", err
	}
	e, err := release.Lookup(release.Kubernetes, spec.Spec.KubernetesVersion, release.Options{CacheDir: cacheDir})
	if err != nil {
		return "", err
	}
	return filepath.Join(e.Dir, "kubectl"), nil
}

// Status asks the cluster for its state.
func (h *Handle) Status(ctx context.Context) (*Status, error) {
	resp, err := h.call(ctx, http.MethodGet, "status", nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var status Status
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		return nil, fmt.Errorf("asking cluster %s for its state: %w", h.Name, err)
	}
	status.Kubeconfig = h.Kubeconfig()
	return &status, nil
}

func (h *Handle) call(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", filepath.Join(h.dir, controlSocket))
		}}}
	req, err := http.NewRequestWithContext(ctx, method, "http://cluster/"+path, body)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("talking to cluster %s: %w", h.Name, err)
	}
	return resp, nil
}

// downGrace is how long a cluster may take to end by itself.
const downGrace = 5 * time.Second

// Down ends the cluster and returns when nothing of it is left.
func (h *Handle) Down(ctx context.Context) error {
	if resp, err := h.call(ctx, http.MethodPost, "down", nil); err == nil {
		_ = resp.Body.Close()
	}
	grace, cancel := context.WithTimeout(ctx, downGrace)
	defer cancel()
	ended := func(context.Context) error {
		if h.running() {
			return fmt.Errorf("cluster %s still runs", h.Name)
		}
		return nil
	}
	if await.Until(grace, 10*time.Millisecond, ended) != nil {
		// The keeper's end ends the sandbox, whatever state it is in.
		pid, err := h.keeperPID()
		if err != nil {
			return err
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
			return fmt.Errorf("ending the keeper of cluster %s: %w", h.Name, err)
		}
		if err := await.Until(ctx, 10*time.Millisecond, ended); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(h.dir); err != nil {
		return fmt.Errorf("removing the state of cluster %s: %w", h.Name, err)
	}
	return nil
}

// keeperPID returns the process that holds the lock.
func (h *Handle) keeperPID() (int, error) {
	b, err := os.ReadFile(filepath.Join(h.dir, lockFile))
	if err != nil {
		return 0, fmt.Errorf("finding the keeper of cluster %s: %w", h.Name, err)
	}
	pid, err := strconv.Atoi(string(b))
	if err != nil || !h.running() {
		return 0, fmt.Errorf("finding the keeper of cluster %s: its lock file says %q", h.Name, b)
	}
	return pid, nil
}
