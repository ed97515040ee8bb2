package keeper

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
)

// An upgrade that is under way ends with the cluster, which cannot be deleted before.
func TestDownDuringChange(t *testing.T) {
	here(t, "")
	h := up(t, "a", UpOptions{Wait: true})
	began := time.Now()
	ended := make(chan error, 1)
	_, err := h.Change(t.Context(), ChangeRequest{Version: "slow"}, clusters.Preparation{Progress: func(s string) {
		if strings.HasPrefix(s, "one: stop: it exited") {
			go func() {
				_, err := h.down(t.Context(), DownOptions{})
				ended <- err
			}()
		}
	}})
	if err == nil || !strings.Contains(err.Error(), "the cluster was deleted in the meantime") {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	nothing(t, "a")
	if took := time.Since(began); took > h.access.EndLimit() {
		t.Errorf("the cluster was killed after %s", took)
	}
}

// A cluster that cannot delete itself leaves nothing either.
func TestDownKillsTheKeeper(t *testing.T) {
	here(t, "stuck")
	h := up(t, "a", UpOptions{Wait: true})
	data, err := h.DataDir()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := h.down(t.Context(), DownOptions{}); err != nil {
		t.Fatal(err)
	}
	nothing(t, "a")
	if _, err := os.Stat(data); err == nil {
		t.Error("its data is left behind")
	}
	if _, err := os.Stat(mark("swept")); err != nil {
		t.Errorf("what is left of it was not swept: %v", err)
	}
}

// Down leaves a cluster of the name that another command has started since.
func TestDownThenUp(t *testing.T) {
	here(t, "")
	h := up(t, "a", UpOptions{Wait: true})
	starting, err := lockStart(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := h.down(t.Context(), DownOptions{})
		ended <- err
	}()
	for _, err := os.Stat(h.dir); err == nil; _, err = os.Stat(h.dir) {
		time.Sleep(time.Millisecond)
	}
	if err := os.Mkdir(h.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := takeLock(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	starting.Unlock()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(h.dir, lockFile)); err != nil {
		t.Error("the state of the second cluster is gone")
	}
	_ = lock.Close()
}

// noUp is a provider that reports an up that could start while it removes a cluster.
type noUp struct {
	standIn
	t *testing.T
}

func (p noUp) Remove(ctx context.Context, name string) (bool, error) {
	soon, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if starting, err := lockStart(soon, name); err == nil {
		starting.Unlock()
		p.t.Error("a cluster of the name can be started now, and would lose its state")
	}
	return p.standIn.Remove(ctx, name)
}

func TestDownKeepsUpOut(t *testing.T) {
	here(t, "")
	h := up(t, "a", UpOptions{Wait: true})
	h.provider = noUp{t: t}
	if _, err := h.down(t.Context(), DownOptions{}); err != nil {
		t.Error(err)
	}
	nothing(t, "a")
}
