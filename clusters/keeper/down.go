package keeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/internal/await"
)

// DownLimit is how long Down may take for any cluster of these providers.
func DownLimit(providers []clusters.Provider) time.Duration {
	limit := time.Minute
	for _, p := range providers {
		if a, ok := p.(Access); ok {
			limit = max(limit, 2*a.EndLimit()+time.Minute)
		}
	}
	return limit
}

// DownOptions are options of Down.
type DownOptions struct {
	// Delete deletes a cluster that was taken over.
	Delete bool
	// Found, unless nil, is called with the name of the cluster before anything is deleted.
	Found func(name string)
}

func (o DownOptions) found(name string) {
	if o.Found != nil {
		o.Found(name)
	}
}

// Ended is a cluster that Down has handled.
type Ended struct {
	// Name is the cluster's.
	Name string
	// Stays reports that the cluster was attached, and still runs, without what was installed
	// on it.
	Stays bool
}

// Down deletes the cluster of a name, or the only one, and returns when nothing of it is left.
// An attached cluster stays, unless Delete is set. Down also handles what is left of a cluster
// whose processes were killed; Open does not find those.
func Down(ctx context.Context, providers []clusters.Provider, name string, o DownOptions) (Ended, error) {
	h, err := Open(providers, name)
	if err == nil {
		o.found(h.Name)
		stays, err := h.down(ctx, o)
		return Ended{h.Name, stays}, err
	}
	if !errors.Is(err, ErrNoCluster) {
		return Ended{}, err
	}
	kept, left, listing := list()
	if listing != nil {
		return Ended{}, listing
	}
	if name == "" && len(kept) == 0 && len(left) == 1 {
		name = left[0]
	}
	if name == "" {
		return Ended{}, err
	}
	if slices.Contains(left, name) {
		o.found(name)
	}
	found, stays, removing := removeLeft(ctx, providers, name, config{}, o)
	if removing == nil && !found {
		return Ended{}, err
	}
	return Ended{name, stays}, removing
}

// errStarted is in the error of removeLeft for a cluster that is kept.
var errStarted = errors.New("was started just now")

// removeLeft removes what is left of a cluster without a keeper, whose configuration is cfg unless
// the state directory still has it. It returns whether anything was left, and whether that was
// installed on a cluster that stays.
func removeLeft(ctx context.Context, providers []clusters.Provider, name string, cfg config, o DownOptions) (found, stays bool, err error) {
	starting, err := lockStart(ctx, name)
	if err != nil {
		return false, false, err
	}
	defer starting.Unlock()
	dir := stateDir(name)
	if running(dir) {
		return true, false, fmt.Errorf("cluster %s %w", name, errStarted)
	}
	if left, err := loadConfig(dir); err == nil {
		cfg = left
	}
	for _, p := range providers {
		var there bool
		if cfg.Attach && cfg.Provider == p.Name() {
			there, stays, err = true, !o.Delete, detach(ctx, p, name, o)
		} else if !cfg.Attach {
			there, err = remove(ctx, p, name)
		}
		if found = found || there; err != nil {
			return found, stays, err
		}
	}
	data, err := dataDir(name)
	if err != nil {
		return found, stays, err
	}
	for _, d := range []string{cmp.Or(cfg.DataDir, data), dir} {
		if _, err := os.Lstat(d); err == nil {
			found = true
		}
		if err := os.RemoveAll(d); err != nil {
			return found, stays, fmt.Errorf("failed to remove what is left of cluster %s: %w", name, err)
		}
	}
	return found, stays, nil
}

// detach has a provider detach from a cluster.
func detach(ctx context.Context, p clusters.Provider, name string, o DownOptions) error {
	a, err := attacher(p)
	if err != nil {
		return err
	}
	return a.Detach(ctx, &clusters.Cluster{Metadata: clusters.Metadata{Name: name}}, o.Delete)
}

// remove has a provider delete what may exist of a cluster.
func remove(ctx context.Context, p clusters.Provider, name string) (bool, error) {
	r, ok := p.(clusters.Remover)
	if !ok {
		return false, nil
	}
	return r.Remove(ctx, name)
}

// down deletes the cluster and returns when nothing of it is left; stays is that of Ended.
func (h *Handle) down(ctx context.Context, o DownOptions) (stays bool, err error) {
	cfg, err := loadConfig(h.dir) // which is deleted with the keeper
	if err != nil {
		return false, fmt.Errorf("cluster %s: %w", h.Name, err)
	}
	if err := h.end(ctx); err != nil {
		return false, err
	}
	// A server that failed to delete it logged that, and the log is deleted now: try again.
	_, stays, err = removeLeft(ctx, []clusters.Provider{h.provider}, h.Name, cfg, o)
	if errors.Is(err, errStarted) { // by a command that uses the name again
		return cfg.Attach && !o.Delete, nil
	}
	return stays, err
}

// end stops the processes that keep the cluster.
func (h *Handle) end(ctx context.Context) error {
	pid, err := h.PID()
	if err != nil && running(h.dir) {
		return err
	}
	grace, cancel := context.WithTimeout(ctx, h.access.EndLimit())
	defer cancel()
	c := h.server()
	defer c.Close()
	_ = c.Call(grace, http.MethodPost, "down", nil, nil)
	ended := func(context.Context) error {
		if now, err := h.PID(); err == nil && now == pid { // a later cluster of the name has another keeper
			return fmt.Errorf("cluster %s still runs", h.Name)
		}
		return nil
	}
	if await.Until(grace, 10*time.Millisecond, ended) != nil {
		// Killing the keeper ends the cluster, whatever its state.
		if err := h.kill(pid); err != nil {
			return err
		}
		if err := await.Until(ctx, 10*time.Millisecond, ended); err != nil {
			return err
		}
		return sweep(ctx, h.provider)
	}
	return nil
}

// kill kills the keeper. If the keeper has exited already and the server still runs, its PID
// may be another process's, such as the keeper of another cluster.
func (h *Handle) kill(pid int) error {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if string(line) != strings.Join([]string{role, keeps, h.dir, ""}, "\x00") {
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
		return fmt.Errorf("failed to stop the keeper of cluster %s: %w", h.Name, err)
	}
	return nil
}
