package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// keeper speaks to whoever starts a component. Each method can be repeated.
type keeper interface {
	// hold has the component left down.
	hold(ctx context.Context) error
	// early tells whether hold can come right before what runs is killed:
	// nothing is done to it for some milliseconds at least.
	early() bool
	// release ends that and has the component started; it does nothing where
	// the component runs.
	release(ctx context.Context) error
	// hurry has a component that is down started at once, without the
	// back-off of one that fails.
	hurry(ctx context.Context) error
}

func keeperOf(c Component) keeper {
	switch {
	case c.Manifest != "":
		return podKeeper{manifest(c.Manifest)}
	case c.Unit != "":
		return unitKeeper(c.Unit)
	}
	return nobody{}
}

// podKeeper has the kubelet leave a static pod down by taking its manifest away.
type podKeeper struct{ manifest }

// early: a kubelet takes its time to end what has no manifest any more.
func (podKeeper) early() bool { return true }

func (k podKeeper) hold(context.Context) error {
	if err := os.MkdirAll(filepath.Dir(k.aside()), 0o700); err != nil {
		return err
	}
	err := os.Rename(k.path(), k.aside())
	if errors.Is(err, fs.ErrNotExist) {
		if _, heldErr := os.Stat(k.aside()); heldErr == nil {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("taking the manifest away: %w", err)
	}
	return nil
}

// release puts the manifest back as it was: a pod with another UID would have to wait for
// its predecessor's mirror pod to be deleted, through an API server that may need it.
func (k podKeeper) release(context.Context) error {
	err := os.Rename(k.aside(), k.path())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("putting the manifest back: %w", err)
	}
	return nil
}

// hurry makes the pod another one, to whom no back-off applies. For etcd that takes
// longer than any back-off: see release.
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
