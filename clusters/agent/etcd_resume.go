package agent

import (
	"fmt"
	"os"
	"time"
)

// resume takes over what an earlier agent left. When the node starts nothing runs yet, and data
// whose time is over are put back before the member starts. over means that the time of all is.
func (e *etcd) resume(restarted, over bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dropRestored()
	_ = os.Remove(e.snapshot())
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

// dropRestored removes what a restore that did not complete has left: a copy of all of etcd.
func (e *etcd) dropRestored() {
	dir := ""
	e.store.read(func(st *state) { dir = st.Restoring })
	if dir == "" {
		return
	}
	if err := os.RemoveAll(dir); err != nil {
		complain(fmt.Errorf("removing what a restore of etcd has left: %w", err))
		return
	}
	e.store.note(func(st *state) { st.Restoring = "" })
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
