package keeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
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

// Down ends the cluster of a name, or the only one there is, and returns its name when
// nothing of it is left. That includes what is left of a cluster whose processes were
// killed, which Open does not find any more.
func Down(ctx context.Context, providers []clusters.Provider, name string) (string, error) {
	h, err := Open(providers, name)
	if err == nil {
		return h.Name, h.Down(ctx)
	}
	if !errors.Is(err, ErrNoCluster) {
		return name, err
	}
	kept, left, listing := list()
	if listing != nil {
		return name, listing
	}
	if name == "" && len(kept) == 0 && len(left) == 1 {
		name = left[0]
	}
	if name == "" {
		return "", err
	}
	found, removing := removeLeft(ctx, providers, name)
	if removing == nil && !found {
		return name, err
	}
	return name, removing
}

// removeLeft removes what is left of a cluster that nobody keeps, and returns whether
// there was something.
func removeLeft(ctx context.Context, providers []clusters.Provider, name string) (found bool, err error) {
	starting, err := lockStart(ctx, name)
	if err != nil {
		return false, err
	}
	defer starting.Unlock()
	dir := stateDir(name)
	if running(dir) {
		return true, fmt.Errorf("cluster %s was started just now", name)
	}
	for _, p := range providers {
		there, err := remove(ctx, p, name)
		if found = found || there; err != nil {
			return found, err
		}
	}
	data, err := dataDir(name)
	if err != nil {
		return found, err
	}
	for _, d := range []string{data, dir} {
		if _, err := os.Lstat(d); err == nil {
			found = true
		}
		if err := os.RemoveAll(d); err != nil {
			return found, fmt.Errorf("removing what is left of cluster %s: %w", name, err)
		}
	}
	return found, nil
}

// remove has a provider end what it may have of a cluster.
func remove(ctx context.Context, p clusters.Provider, name string) (bool, error) {
	r, ok := p.(clusters.Remover)
	if !ok {
		return false, nil
	}
	return r.Remove(ctx, name)
}

// Down ends the cluster and returns when nothing of it is left.
func (h *Handle) Down(ctx context.Context) error {
	if resp, err := h.call(ctx, http.MethodPost, "down", nil); err == nil {
		_ = resp.Body.Close()
	}
	grace, cancel := context.WithTimeout(ctx, h.access.EndLimit())
	defer cancel()
	ended := func(context.Context) error {
		if running(h.dir) {
			return fmt.Errorf("cluster %s still runs", h.Name)
		}
		return nil
	}
	if await.Until(grace, 10*time.Millisecond, ended) != nil {
		// The keeper's end ends the cluster, whatever state it is in.
		if err := h.kill(); err != nil {
			return err
		}
		if err := await.Until(ctx, 10*time.Millisecond, ended); err != nil {
			return err
		}
	}
	// A server that failed to end it says so in a log that goes now: try again.
	if _, err := remove(ctx, h.provider, h.Name); err != nil {
		return err
	}
	if err := os.RemoveAll(h.dir); err != nil {
		return fmt.Errorf("removing the state of cluster %s: %w", h.Name, err)
	}
	return nil
}

// kill ends the keeper. Where that has ended already and the server goes on, its number
// may be another process's.
func (h *Handle) kill() error {
	pid, err := h.PID()
	if err != nil {
		return err
	}
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if !bytes.HasPrefix(line, []byte(role+"\x00")) {
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
		return fmt.Errorf("ending the keeper of cluster %s: %w", h.Name, err)
	}
	return nil
}
