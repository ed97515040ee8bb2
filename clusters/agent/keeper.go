package agent

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"al.essio.dev/pkg/shellescape"
)

// keeper controls what starts a component: kubelet, systemd or agent. Methods can be repeated.
type keeper interface {
	// hold leaves the component down.
	hold(ctx context.Context) error
	// early reports whether hold can come right before the kill: it does not affect the running
	// process for some milliseconds at least.
	early() bool
	// release ends the hold and has the component started; it does nothing if the component
	// runs.
	release(ctx context.Context) error
	// hurry starts a component that is down immediately, without the back-off after failures.
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
	return unstoppable{}
}

// podKeeper leaves a static pod down by stopping its shim: the kubelet and the container
// runtime then do not notice that the process has exited, and new processes of the pod wait at
// the shim. The pod's manifest stays. If it were gone, the kubelet would delete the mirror pod,
// for which an API server without its etcd needs more than half a minute, and start the pod
// only after that.
type podKeeper struct {
	manifest
	w *watcher
}

// early: a process whose shim is stopped runs on, unless it writes more than a pipe holds.
func (podKeeper) early() bool { return true }

// hold stops the shim of the process seen last, and those that were stopped before. It records
// each before stopping it.
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

// release lets the shims continue, which then report the exits since, and puts back a manifest
// that rejoin removed. The kubelet's back-off counts from then.
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

// hurry turns the pod into a new one, without back-off. For etcd this takes longer than any
// back-off: the mirror pod of the old one is deleted first.
func (k podKeeper) hurry(context.Context) error {
	if filepath.Base(k.path()) == "etcd.yaml" {
		return nil
	}
	if err := k.edit(renew); err != nil {
		return fmt.Errorf("failed to renew the manifest: %w", err)
	}
	return nil
}

// unitKeeper leaves a unit down by stopping it: systemd restarts only what exited on its own.
type unitKeeper string

// early: systemd kills the running process first.
func (unitKeeper) early() bool { return false }

func (u unitKeeper) hold(ctx context.Context) error {
	return systemctl(ctx, "stop", aloneFlag, string(u))
}

// release does not wait: while the node boots, the unit waits for the agent.
func (u unitKeeper) release(ctx context.Context) error {
	_ = systemctl(ctx, "reset-failed", string(u)) // see startUnit
	return systemctl(ctx, "start", "--no-block", string(u))
}

// hurry starts a unit that waits for its restart, and the restart is then dropped.
func (u unitKeeper) hurry(ctx context.Context) error { return u.release(ctx) }

// aloneFlag has a unit stopped alone. Without it, systemd also stops the units that have Requires= or
// PartOf= on it, and nothing starts them again. A process that exits stops only those with BindsTo=,
// as here (transaction_add_job_and_dependencies and unit_notify in systemd's src/core).
const aloneFlag = "--job-mode=ignore-requirements"

// stopUnit returns the shell command that stops a unit alone.
func stopUnit(unit string) string {
	return "systemctl stop " + aloneFlag + " " + shellescape.Quote(unit)
}

// startUnit returns the shell commands that start a unit, also one that has reached its start limit, as
// in a crash loop: systemd refuses to start it until reset-failed, which fails if the unit is not loaded.
func startUnit(unit string) string {
	unit = shellescape.Quote(unit)
	return "systemctl reset-failed " + unit + " 2>/dev/null\nsystemctl start --no-block " + unit
}

func systemctl(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// unstoppable is the keeper of a component whose starter cannot be stopped: its watcher kills each
// process that starts while the component is held down.
type unstoppable struct{}

func (unstoppable) early() bool                   { return true }
func (unstoppable) hold(context.Context) error    { return nil }
func (unstoppable) release(context.Context) error { return nil }
func (unstoppable) hurry(context.Context) error   { return nil }
