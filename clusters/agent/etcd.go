package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/clusters/etcddata"
	"github.com/holdfast-ha/holdfast/clusters/internal/expiry"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/members"
)

// etcd changes the data of the node's etcd member.
type etcd struct {
	data    string
	watcher *watcher // nil if the node has no member
	store   *store

	receiving sync.Mutex // held while other data arrive

	mu     sync.Mutex            // held through every change of the data
	timers expiry.Timers[string] // by handle
}

const (
	// settleTime is how long no process may have started a member before its data are changed:
	// a kubelet that was stopped from starting it may still be doing so.
	settleTime = time.Second
	// changeLimit is how long a change of the data may take. A member that is down for one is
	// started after it, even if the agent died.
	changeLimit = time.Minute
	// uploadLimit is how long other data may take to arrive.
	uploadLimit = time.Minute
	// podEndLimit is how long a kubelet may take to end a pod whose manifest is gone and whose
	// process has exited.
	podEndLimit = 20 * time.Second
)

// whenDown is what to do with a member that was held down before a change of its data.
type whenDown int

const (
	leaveDown whenDown = iota // one that was not is killed, and started after the change
	startAfter
	onlyDown // one that was not is an error, and nothing is changed
)

const errNoMember = agenthttp.Unsupported("this node has no etcd member")

var errNotDown = errors.New("it is not held down")

// whileDown kills the member if it runs, calls do to change its data, and has it started again.
// If it was held down before, it stays down unless it is to be started, until that hold ends or the
// change is over. No process of the member runs during do: what could start one waits at its
// shim or is killed, and nothing was started for settleTime before. To the kubelet the pod is
// unchanged, so it does not create another one.
func (e *etcd) whileDown(ctx context.Context, down whenDown, do func() error) error {
	if e.watcher == nil || e.data == "" {
		return errNoMember
	}
	w := e.watcher
	w.changing.Lock()
	defer w.changing.Unlock()
	// A client whose machine is gone does not end ctx.
	ctx, cancel := context.WithTimeoutCause(ctx, changeLimit, fmt.Errorf("timed out after %s", changeLimit))
	defer cancel()
	w.mu.Lock()
	w.look()
	p, held := w.proc, w.held()
	if down == onlyDown && (p != nil || !held) {
		w.mu.Unlock()
		return errNotDown
	}
	w.ending = false
	if !held {
		w.note(func(st *componentState) { st.HoldUntil = time.Now().Add(changeLimit) })
		w.holdFor(changeLimit)
	}
	err := w.keep.hold(ctx)
	if err == nil && p != nil {
		err = p.signal(syscall.SIGKILL)
	}
	w.mu.Unlock()
	if err == nil {
		err = w.settle(ctx)
	}
	if err == nil {
		err = do()
	}
	if held && down != startAfter {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if endErr := w.endHold(context.WithoutCancel(ctx)); endErr != nil {
		w.holdFor(retryPause)
		err = errors.Join(err, endErr)
	}
	return err
}

// settle returns when no process has run for settleTime. If the agent itself starts the member,
// and so leaves it down, it returns as soon as none runs.
func (w *watcher) settle(ctx context.Context) error {
	if w.spec.Exec != nil {
		return w.awaitDown(ctx, w.current(), true)
	}
	for quiet := time.Now(); time.Since(quiet) < settleTime; {
		w.mu.Lock()
		if w.look(); w.proc != nil {
			quiet = time.Now()
			_ = w.proc.signal(syscall.SIGKILL)
		} else if quiet.Before(w.began) { // run has seen it first, and killed it
			quiet = w.began
		}
		w.mu.Unlock()
		select {
		case <-time.After(lookPause):
		case <-ctx.Done():
			return fmt.Errorf("it does not stay down: %w", context.Cause(ctx))
		}
	}
	return nil
}

// rejoin starts the member without its data, as a new member of a cluster.
func (e *etcd) rejoin(ctx context.Context, cluster []framework.EtcdPeer) error {
	if len(cluster) == 0 {
		return errors.New("the cluster that etcd is to join has no members")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.watcher != nil && e.watcher.fixed():
		return errFixed
	case e.wiped() != nil:
		return errWiped
	}
	return e.whileDown(ctx, startAfter, func() error {
		// First, so that the member never starts without data as a member of a new cluster. One
		// that has data ignores both arguments.
		if err := e.watcher.joins(ctx, members.InitialCluster(cluster)); err != nil {
			return err
		}
		return etcddata.Replace(e.data, "")
	})
}

// joins makes the member start as a member of an existing cluster; it is held down.
func (w *watcher) joins(ctx context.Context, cluster string) error {
	if w.spec.Exec != nil {
		return w.update(func(st *componentState) { st.Joins = cluster })
	}
	m := manifest(w.spec.Manifest)
	if err := w.endPod(ctx, m); err != nil {
		return err
	}
	return m.aside().edit(setArguments(map[string]string{"initial-cluster": cluster, "initial-cluster-state": "existing"}))
}

// peer returns the member as its arguments have it.
func (e *etcd) peer() (framework.EtcdPeer, error) {
	const nameArg, urlsArg = "name", "initial-advertise-peer-urls"
	if e.watcher == nil {
		return framework.EtcdPeer{}, errNoMember
	}
	var name, urls string
	if spec := e.watcher.spec; spec.Exec != nil {
		name, urls = spec.Exec.Argument(nameArg), spec.Exec.Argument(urlsArg)
	} else {
		args, err := manifest(spec.Manifest).arguments()
		if err != nil {
			return framework.EtcdPeer{}, err
		}
		name, urls = args[nameArg], args[urlsArg]
	}
	if name == "" || urls == "" {
		return framework.EtcdPeer{}, errors.New("the arguments of etcd do not have its name and its peer URLs")
	}
	return framework.EtcdPeer{Name: name, URLs: strings.Split(urls, ",")}, nil
}

// endPod removes the manifest of a pod that is held down, and returns when the kubelet has
// ended the pod: the next process starts with the arguments that the manifest has when it is
// put back. Changing the manifest in place is not enough: we cannot know when the kubelet has
// read it, and until then it starts the container with the old arguments, which no longer fit
// the data.
func (w *watcher) endPod(ctx context.Context, m manifest) error {
	if err := m.takeAway(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, podEndLimit, fmt.Errorf("timed out after %s", podEndLimit))
	defer cancel()
	for {
		over, err := w.letGo()
		if err != nil {
			return err
		}
		if over {
			return w.settle(ctx)
		}
		select {
		case <-time.After(lookPause):
		case <-ctx.Done():
			return fmt.Errorf("its pod still runs without its manifest (%w): is the kubelet running?", context.Cause(ctx))
		}
	}
}

// letGo lets the stopped shims continue, also those of processes that started and exited since,
// and reports whether all processes have exited. The hold continues.
func (w *watcher) letGo() (over bool, err error) {
	w.mu.Lock() // no shim is just being stopped
	defer w.mu.Unlock()
	over = true
	for _, s := range w.saved().Stopped {
		over = s.over() && over
		err = errors.Join(err, s.letGo())
	}
	return over, err
}

// replace replaces the data of a member that is held down by those in an archive, which arrive
// without a lock: other changes of the data must not wait for a client that may be gone.
func (e *etcd) replace(ctx context.Context, archive io.Reader) error {
	if e.watcher == nil || e.data == "" {
		return errNoMember
	}
	e.receiving.Lock()
	defer e.receiving.Unlock()
	restored := e.restored()
	if err := e.makeRoom(restored); err != nil {
		return err
	}
	err := etcddata.Unpack(archive, restored)
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.dropRestored()
	switch {
	case err != nil:
		return fmt.Errorf("failed to receive the data: %w", err)
	case e.wiped() != nil:
		return errWiped
	}
	return e.whileDown(ctx, onlyDown, func() error { return etcddata.Replace(e.data, restored) })
}

// makeRoom prepares for the directory of other data, before it exists: the next agent, or a shell,
// removes it.
func (e *etcd) makeRoom(restored string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.watcher.mu.Lock()
	e.watcher.look()
	down := e.watcher.proc == nil && e.watcher.held()
	e.watcher.mu.Unlock()
	switch {
	case !down:
		return errNotDown
	case e.wiped() != nil:
		return errWiped
	}
	e.timers.Stop(restored) // which would remove it
	if err := os.RemoveAll(restored); err != nil {
		return fmt.Errorf("failed to make room for the data: %w", err)
	}
	point, err := mountPoint(e.data)
	if err != nil {
		return fmt.Errorf("failed to find the member's data: %w", err)
	}
	return e.store.update(func(st *state) { st.Restoring = &restoringState{Path: restored, Mount: point} })
}

// list lists the files of the member's data, relative to their directory.
func (e *etcd) list() (files []string, err error) {
	if e.data == "" {
		return nil, errNoMember
	}
	err = filepath.WalkDir(e.data, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // etcd removes files while it runs
			return nil
		case err == nil && d.IsDir() && strings.HasPrefix(d.Name(), etcddata.Others):
			return fs.SkipDir
		case err == nil && (d.IsDir() || strings.HasPrefix(d.Name(), etcddata.Others)):
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(e.data, path)
		files = append(files, name)
		return err
	})
	return files, err
}

func (e *etcd) handle(mux *http.ServeMux) {
	mux.HandleFunc("PUT /data", func(w http.ResponseWriter, r *http.Request) {
		err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(uploadLimit))
		if err == nil {
			err = e.replace(r.Context(), r.Body)
		}
		if err != nil {
			agenthttp.Error(w, err)
		}
	})
	answer(mux, "POST /rejoin", func(ctx context.Context, r request) (any, error) { return nil, e.rejoin(ctx, r.Cluster) })
	answer(mux, "POST /wipe", func(ctx context.Context, r request) (any, error) { return e.wipe(ctx, r.For) })
	answer(mux, "POST /unwipe", func(ctx context.Context, r request) (any, error) { return nil, e.unwipe(ctx, r.Handle) })
	answer(mux, "GET /etcd-peer", func(context.Context, request) (any, error) { return e.peer() })
	answer(mux, "GET /data", func(context.Context, request) (any, error) { return e.list() })
}
