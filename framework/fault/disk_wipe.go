package fault

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// DiskWipe wipes an etcd member's data.
var DiskWipe = &Fault{
	Name:    "disk-wipe",
	Summary: "kills an etcd member, replaces its disk with an empty one and starts it, without its data (a member of a larger cluster refuses to run, a sole member starts empty). Healing kills it again and brings back its own disk with its data; what was written in between is lost",
	Targets: []string{"etcd"},
	Needs:   []string{"DiskWiper" + diskProviders, "Killer", "Starter", "ProcessReporter"},
	Example: "etcd/follower",
	Effects: does(record.EffectDisk),
	Prepare: func(r Request) (Inject, error) {
		d := wiped{ttl: r.TTL}
		var err error
		if d.disk, err = onTarget[framework.DiskWiper](r); err != nil {
			return nil, err
		}
		if d.process, err = r.member(); err != nil {
			return nil, err
		}
		if d.killer, err = onTarget[framework.Killer](r); err != nil {
			return nil, err
		}
		d.starter, err = onTarget[framework.Starter](r)
		return d.inject, err
	},
}

type wiped struct {
	process
	disk    framework.DiskWiper
	killer  framework.Killer
	starter framework.Starter
	ttl     time.Duration
}

func (d wiped) inject(ctx context.Context) (Injection, error) {
	t := d.target
	if _, none, err := d.before(ctx); err != nil || none != nil {
		return none, err
	}
	had, err := d.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("failed to wipe the disk of %s: before the fault: %w", t.String(), err)
	}
	if len(had) == 0 {
		return notInjected(t, "%s has no data", t.String()), nil
	}
	var w wipe
	i, err := attempt{
		target: t,
		what:   "wiping the disk of " + t.String(),
		ask: func(ctx context.Context) (err error) {
			// Held down while the disk is away: the hold ends below, or on the node if this
			// process is gone.
			err = d.killer.Kill(ctx, t.Component, d.ttl)
			if w.refused = errors.Is(err, framework.ErrNothingDone); err != nil {
				return err
			}
			w.handle, err = d.disk.WipeDisk(ctx, d.ttl)
			return err
		},
		effect: func(ctx context.Context) (bool, string) { return d.gone(ctx, &w, had) },
		undo:   func(ctx context.Context) error { return d.unwipe(ctx, &w) },
		healed: func(ctx context.Context) (bool, string) { return d.back(ctx, had) },
	}.inject(ctx)
	if err != nil {
		return nil, err
	}
	if w.handle == "" {
		return notInjected(t, "the disk of %s is already wiped", t.String()), d.unwipe(ctx, &w)
	}
	return i, nil
}

// wipe is the progress of a wipe.
type wipe struct {
	handle  string
	started bool
	refused bool // the member is held down by another fault that started in the meantime
}

func (d wiped) list(ctx context.Context) ([]string, error) {
	return tried(ctx, "list the data of", d.target, d.disk.ListDisk)
}

// gone checks whether the data are gone and the process that had them has exited, and starts the
// member again.
func (d wiped) gone(ctx context.Context, w *wipe, had []string) (bool, string) {
	if w.handle == "" {
		return true, "" // nothing was wiped, see Inject
	}
	now, err := d.reporter.Process(ctx, d.target.Component)
	switch {
	case err != nil:
		return false, fmt.Sprintf("failed to read the state of %s: %v", d.target.String(), err)
	case !now.Ended():
		return false, fmt.Sprintf("%s still runs as %s", d.target.String(), now.ID())
	}
	files, err := d.list(ctx)
	if err != nil {
		return false, err.Error()
	}
	if len(files) > 0 {
		return false, fmt.Sprintf("%d files are in the data directory of %s, %d before", len(files), d.target.String(), len(had))
	}
	if err := d.starter.Start(ctx, d.target.Component); err != nil {
		return false, fmt.Sprintf("starting %s without its data: %v", d.target.String(), err)
	}
	w.started = true
	return true, fmt.Sprintf("the %d files of %s are gone, and it is started without them", len(had), d.target.String())
}

// unwipe brings the disk back, under a stopped member.
func (d wiped) unwipe(ctx context.Context, w *wipe) error {
	if w.refused {
		return nil
	}
	restore := ifGiven(&w.handle, d.disk.RestoreDisk)
	now, err := d.reporter.Process(ctx, d.target.Component)
	if err == nil && now.Held && w.started { // by another fault
		return restore(ctx)
	}
	// It may have exited on its own, which is as good.
	_ = d.killer.Kill(ctx, d.target.Component, undoLimit)
	err = restore(ctx)
	return errors.Join(err, d.starter.Start(ctx, d.target.Component))
}

// back checks whether the data are back and the member runs on them.
func (d wiped) back(ctx context.Context, had []string) (bool, string) {
	files, err := d.list(ctx)
	if err != nil {
		return false, err.Error()
	}
	// The member may have truncated its log since; the database has one name.
	var missing []string
	for _, f := range had {
		if path.Base(f) == "db" && !slices.Contains(files, f) {
			missing = append(missing, f)
		}
	}
	if len(missing) > 0 || len(files) < len(had)/2 {
		return false, fmt.Sprintf("%d files are in the data directory of %s, %d before; missing are %s", len(files), d.target.String(), len(had), strings.Join(missing, ", "))
	}
	held, said := d.memberRuns(ctx)
	return held, fmt.Sprintf("%d files are in the data directory of %s, as %d before; %s", len(files), d.target.String(), len(had), said)
}

// localPattern reports whether a pattern is well formed and stays below the
// directory that it is relative to.
func localPattern(pattern string) bool {
	_, err := path.Match(pattern, "")
	return err == nil && !path.IsAbs(pattern) && !slices.Contains(strings.Split(pattern, "/"), "..")
}
