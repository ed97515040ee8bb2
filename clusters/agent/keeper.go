package agent

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// keeper speaks to whoever starts a component. Each method can be repeated.
type keeper interface {
	// hold has the component left down.
	hold(ctx context.Context) error
	// early reports whether hold can come right before what runs is killed:
	// nothing is done to it for some milliseconds at least.
	early() bool
	// release ends that and has the component started; it does nothing where
	// the component runs.
	release(ctx context.Context) error
	// hurry has a component that is down started at once, without the
	// back-off of one that fails.
	hurry(ctx context.Context) error
}

func keeperOf(w *watcher, clocks *clocks) keeper {
	switch c := w.spec; {
	case c.Exec != nil:
		return &starter{w: w, clocks: clocks, config: w.store.config, wake: make(chan struct{}, 1)}
	case c.Manifest != "":
		return podKeeper{manifest(c.Manifest), w}
	case c.Unit != "":
		return unitKeeper(c.Unit)
	}
	return nobody{}
}

// podKeeper has a static pod left down by stopping its shim: the kubelet and the
// container runtime then do not learn that the process has ended, and what is to be
// started in the pod waits at the shim. The pod's manifest stays. A kubelet that finds
// it gone deletes the mirror pod, for which an API server without its etcd needs more
// than half a minute, and starts the pod only after that.
type podKeeper struct {
	manifest
	w *watcher
}

// early: a process whose shim is stopped runs on, unless it writes more than a pipe holds.
func (podKeeper) early() bool { return true }

// hold stops the shim of the process seen last, and those that were stopped before. It
// notes each before it does.
func (k podKeeper) hold(ctx context.Context) error {
	saved := k.w.saved()
	all := saved.Stopped
	if !saved.Shim.none() && !slices.Contains(all, saved.Shim) {
		all = append(slices.Clip(all), saved.Shim)
		if err := k.w.update(func(st *componentState) { st.Stopped = all }); err != nil {
			return err
		}
	}
	var errs []error
	for _, s := range all {
		errs = append(errs, s.stop(ctx))
	}
	return errors.Join(errs...)
}

// release has the shims continue, which tell of what has ended meanwhile, and puts back
// a manifest that rejoin had taken away. The kubelet's back-off counts from then.
func (k podKeeper) release(context.Context) error {
	err := k.putBack()
	for _, s := range k.w.saved().Stopped {
		err = errors.Join(err, s.letGo())
	}
	if err == nil && len(k.w.saved().Stopped) > 0 {
		k.w.note(func(st *componentState) { st.Stopped = nil })
	}
	return err
}

// hurry makes the pod another one, to whom no back-off applies. For etcd that takes
// longer than any back-off: the mirror pod of the old one is deleted first.
func (k podKeeper) hurry(context.Context) error {
	if filepath.Base(k.path()) == "etcd.yaml" {
		return nil
	}
	if err := k.edit(renew); err != nil {
		return fmt.Errorf("renewing the manifest: %w", err)
	}
	return nil
}

// unitKeeper has systemd leave a unit down by stopping it: only what ended by
// itself is started again.
type unitKeeper string

// early: systemd ends what runs before anything else.
func (unitKeeper) early() bool { return false }

func (u unitKeeper) hold(ctx context.Context) error { return systemctl(ctx, "stop", string(u)) }

// release does not wait: while the node boots, the unit waits for the agent.
func (u unitKeeper) release(ctx context.Context) error {
	return systemctl(ctx, "start", "--no-block", string(u))
}

// hurry starts a unit that waits for its restart, which it does no more then.
func (u unitKeeper) hurry(ctx context.Context) error { return u.release(ctx) }

func systemctl(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// nobody starts a component that can be told to leave it: its watcher ends
// whatever is started while it is held down.
type nobody struct{}

func (nobody) early() bool                   { return true }
func (nobody) hold(context.Context) error    { return nil }
func (nobody) release(context.Context) error { return nil }
func (nobody) hurry(context.Context) error   { return nil }
