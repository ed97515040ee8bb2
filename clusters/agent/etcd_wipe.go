package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/etcddata"
	"github.com/holdfast-ha/holdfast/clusters/system"
)

// aside returns the directory for the data of a wiped member. It is in the data directory, since that
// may be a mount point, and a rename works within a file system only.
func (e *etcd) aside() string { return filepath.Join(e.data, etcddata.Others+"aside") }

// wipedState describes a member's data to put back.
type wipedState struct {
	Handle string    `json:"handle"`
	Until  time.Time `json:"until"`
	Mount  string    `json:"mount"` // of the file system of the data
	Data   string    `json:"data"`  // the data directory
}

const errWiped = agenthttp.NothingDone("a fault has taken the member's data away")

func (e *etcd) wiped() (w *wipedState) {
	e.store.read(func(st *state) { w = st.Wiped })
	return w
}

// wipe takes the member's data away for a while. If they are already away it does nothing and
// returns no handle.
func (e *etcd) wipe(ctx context.Context, ttl time.Duration) (string, error) {
	if ttl <= 0 {
		return "", ErrNoTTL
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.wiped() != nil {
		return "", nil
	}
	point, err := mountPoint(e.data)
	if err != nil {
		return "", fmt.Errorf("failed to find the member's data: %w", err)
	}
	w := &wipedState{Handle: strings.ToLower(rand.Text()[:12]), Until: time.Now().Add(ttl), Mount: point, Data: e.data}
	err = e.whileDown(ctx, leaveDown, func() error {
		switch _, err := os.Lstat(e.aside()); {
		case err == nil:
			return fmt.Errorf("%s has data that an earlier fault moved aside: move it back to %s, or delete it", e.aside(), etcddata.Member)
		case !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("failed to look for data that an earlier fault took away: %w", err)
		}
		if err := e.store.update(func(st *state) { st.Wiped = w }); err != nil {
			e.store.note(func(st *state) { st.Wiped = nil })
			return err
		}
		e.unwipeIn(ttl)
		if err := os.Rename(filepath.Join(e.data, etcddata.Member), e.aside()); err != nil {
			e.timers.Stop(w.Handle)
			e.store.note(func(st *state) { st.Wiped = nil })
			return fmt.Errorf("failed to move the member's data aside: %w", err)
		}
		return nil
	})
	if err == nil {
		err = context.Cause(ctx) // the caller would not learn of it
	}
	if err != nil {
		if e.wiped() != nil { // the member was not started, or the caller has given up
			e.unwipeIn(retryPause)
		}
		return "", err
	}
	return w.Handle, nil
}

// unwipe puts the member's data back; it does nothing if they are in place.
func (e *etcd) unwipe(ctx context.Context, handle string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w := e.wiped(); w == nil || w.Handle != handle {
		return nil
	}
	err := e.whileDown(ctx, leaveDown, e.putBack)
	if err != nil && e.wiped() != nil { // otherwise only the member's start failed
		e.unwipeIn(retryPause)
	}
	return err
}

// putBack puts the data back under a member that does not run. It can be repeated, and fails while a
// script is healing the node.
func (e *etcd) putBack() error {
	release, err := takeUndoLock(undoLock(e.store.config))
	if err != nil {
		return fmt.Errorf("failed to put the member's data back: %w", err)
	}
	defer release()
	w, place, own := e.wiped(), filepath.Join(e.data, etcddata.Member), e.aside()
	if w != nil {
		if err := mountedAt(e.data, w.Mount); err != nil {
			return fmt.Errorf("failed to put the member's data back: %w", err)
		}
	}
	if _, err := os.Stat(own); err == nil {
		if err := os.RemoveAll(place); err != nil {
			return fmt.Errorf("failed to make room for the member's data: %w", err)
		}
		if err := os.Rename(own, place); err != nil {
			return fmt.Errorf("failed to put the member's data back: %w", err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if w != nil {
		// The state may be on another file system.
		if err := system.Sync(e.data); err != nil {
			return fmt.Errorf("failed to put the member's data back: %w", err)
		}
		e.timers.Stop(w.Handle)
		e.store.note(func(st *state) { st.Wiped = nil })
	}
	return nil
}

// unwipeIn puts the data back later, and retries until it succeeds; with mu held.
func (e *etcd) unwipeIn(d time.Duration) {
	e.timers.Start(&e.mu, e.wiped().Handle, d, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), changeLimit)
		defer cancel()
		return e.whileDown(ctx, leaveDown, e.putBack)
	})
}
