package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/etcddata"
)

// resume takes over what an earlier agent left. When the node starts nothing runs yet, and data
// whose time is over are put back before the member starts. over means that the time of all is.
func (e *etcd) resume(restarted, over bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dropRestored()
	w := e.wiped()
	if w == nil {
		return
	}
	left := time.Until(w.Until)
	switch {
	case !over && (left > 0 || !restarted):
		e.unwipeIn(left)
		return
	case over && e.runs():
		e.unwipeIn(retryPause) // once the agent has started
		return
	}
	if err := e.putBack(); err != nil {
		complain(err)
		e.unwipeIn(retryPause)
	}
}

// restored returns the directory that receives other data of the member. Like aside,
// it is in the data directory.
func (e *etcd) restored() string { return filepath.Join(e.data, etcddata.Others+"restored") }

// restoringState describes such a directory.
type restoringState struct {
	Path  string `json:"path"`
	Mount string `json:"mount"` // of the file system of the data
}

// dropRestored removes what a restore that did not complete has left, a copy of all of etcd, and
// retries until it succeeds; with mu held.
func (e *etcd) dropRestored() {
	drop := func() error {
		var r *restoringState
		e.store.read(func(st *state) { r = st.Restoring })
		if r == nil {
			return nil
		}
		err := mountedAt(e.data, r.Mount)
		if err == nil {
			err = os.RemoveAll(r.Path)
		}
		if err != nil {
			return fmt.Errorf("failed to remove what a restore of etcd has left: %w", err)
		}
		e.store.note(func(st *state) { st.Restoring = nil })
		return nil
	}
	if err := drop(); err != nil {
		complain(err)
		e.timers.Start(&e.mu, e.restored(), retryPause, drop)
	}
}

// runs reports whether a process of the member may run: something may have started it before the
// agent.
func (e *etcd) runs() bool {
	if e.watcher == nil || e.watcher.spec.Exec != nil {
		return false
	}
	p, err := findProcess(e.watcher.spec)
	if p != nil {
		p.close()
	}
	return p != nil || err != nil
}
