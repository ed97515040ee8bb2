package fault

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// diskNeeds is what all faults of the disk need.
var diskNeeds = []string{"DiskFaulter" + diskProviders, "ProcessReporter"}

const diskProviders = " (local provider: disk: fuse in the cluster file, or up --disk fuse)"

// badDisk is the disk under an etcd member, with what the proofs of its faults
// need.
type badDisk struct {
	process
	disk framework.DiskFaulter
}

// badness is what a disk should do.
type badness struct {
	fault framework.DiskFault
	what  string // the fault in words
	// already says, from a probe before the fault, why the disk is as bad without it; nil for a
	// fault that does not need such a probe.
	already func(before framework.DiskProbe) string
	shows   evidence
	// patience is how long to wait for the effect; 0 means effectLimit.
	patience time.Duration
}

// onDisk completes a fault of the disk under an etcd member.
func onDisk(f *Fault, bad func(Request) (badness, error)) *Fault {
	f.Targets, f.Needs = []string{"etcd"}, diskNeeds
	f.Effects = does(record.EffectDisk)
	f.Prepare = func(r Request) (Inject, error) {
		d, err := r.disk()
		if err != nil {
			return nil, err
		}
		bad, err := bad(r)
		return func(ctx context.Context) (Injection, error) { return d.inject(ctx, bad, r.TTL) }, err
	}
	return f
}

// disk returns the disk under the target, an etcd member.
func (r Request) disk() (d badDisk, err error) {
	if d.disk, err = onTarget[framework.DiskFaulter](r); err == nil {
		d.process, err = r.member()
	}
	return d, err
}

// member returns the target, an etcd member that need not be reachable.
func (r Request) member() (p process, err error) {
	p = process{cluster: r.Cluster, target: r.Target}
	p.reporter, err = onTarget[framework.ProcessReporter](r)
	return p, err
}

// evidence checks a probe and the fault's counters for the fault's effect.
type evidence func(framework.DiskProbe, framework.DiskCounters) (shown bool, seen string)

// inject puts a fault on the disk. A probe that uses the disk through the same file system as
// etcd, and the counters, prove its effect; a probe that the fault no longer affects, and a
// running member, prove the healing.
func (d badDisk) inject(ctx context.Context, bad badness, ttl time.Duration) (Injection, error) {
	if _, none, err := d.before(ctx); err != nil || none != nil {
		return none, err
	}
	if bad.already != nil {
		before, err := d.probe(ctx)
		if err != nil {
			return nil, err
		}
		if why := bad.already(before); why != "" {
			return notInjected(d.target, "%s", why), nil
		}
	}
	var handle string
	return attempt{
		target: d.target,
		what:   fmt.Sprintf("%s of %s", bad.what, d.target.String()),
		ask: func(ctx context.Context) (err error) {
			handle, err = d.disk.FaultDisk(ctx, bad.fault, ttl)
			return err
		},
		effect: func(ctx context.Context) (bool, string) {
			probe, err := d.probe(ctx)
			if err != nil {
				return false, err.Error()
			}
			count, err := d.disk.DiskCounters(ctx, handle)
			if err != nil {
				return false, err.Error()
			}
			shown, seen := bad.shows(probe, count)
			return shown, seen + "; " + d.memberNow(ctx)
		},
		undo:     ifGiven(&handle, d.disk.RestoreDisk),
		healed:   d.untouched(&handle),
		patience: bad.patience,
	}.injection(ctx)
}

func (d badDisk) probe(ctx context.Context) (framework.DiskProbe, error) {
	return tried(ctx, "probe the disk of", d.target, d.disk.ProbeDisk)
}

// othersLimit is how long healing waits for a probe without errors before it attributes them to
// other faults on the same disk.
const othersLimit = 5 * time.Second

// untouched checks whether the fault no longer affects a probe: its counters stay the same while
// the disk is used.
func (d badDisk) untouched(handle *string) look {
	var began time.Time // of the first check
	return func(ctx context.Context) (bool, string) {
		if began.IsZero() {
			began = time.Now()
		}
		before, err := d.disk.DiskCounters(ctx, *handle)
		if err != nil {
			return false, err.Error()
		}
		probe, err := d.probe(ctx)
		if err != nil {
			return false, err.Error()
		}
		after, err := d.disk.DiskCounters(ctx, *handle)
		switch {
		case err != nil:
			return false, err.Error()
		case before != after:
			return false, fmt.Sprintf("the fault still affects the disk of %s (%d operations, %s)", d.target.String(), after.Matched, probed(probe))
		}
		seen := fmt.Sprintf("the fault does not affect a probe of the disk (its counter stays at %d): %s", after.Matched, probed(probe))
		if !sound(probe) {
			return time.Since(began) > othersLimit, seen + ": other faults of the disk are active"
		}
		held, said := d.memberRuns(ctx)
		return held, seen + "; " + said
	}
}

// memberRuns checks whether the member runs and answers. A member that another fault holds down,
// or whose node is off, need not.
func (p process) memberRuns(ctx context.Context) (bool, string) {
	if framework.PoweredOff(ctx, p.reporter) {
		return true, fmt.Sprintf("node %s is powered off", p.target.Node)
	}
	now, err := p.reporter.Process(ctx, p.target.Component)
	switch {
	case err != nil:
		return false, fmt.Sprintf("failed to read the state of %s: %v", p.target.String(), err)
	case now.Held, stopped(now):
		return true, p.target.String() + " is kept from running by another fault"
	}
	if _, ok := p.cluster.(framework.EtcdAccess); ok {
		return p.runs(ctx)
	}
	return !now.Ended(), fmt.Sprintf("%s runs as %s", p.target.String(), now.ID())
}

// memberNow describes the state of the member.
func (p process) memberNow(ctx context.Context) string {
	now, err := p.reporter.Process(ctx, p.target.Component)
	switch {
	case err != nil:
		return fmt.Sprintf("failed to read the state of %s: %v", p.target.String(), err)
	case now.Ended():
		return fmt.Sprintf("%s exited%s", p.target.String(), lastExit(now))
	}
	return fmt.Sprintf("%s runs as %s", p.target.String(), now.ID())
}

// sound reports whether a probe saw no fault except perhaps a delay.
func sound(p framework.DiskProbe) bool {
	return !p.Unsynced && !slices.ContainsFunc(steps(p), func(s namedStep) bool { return !s.Done || s.Error != "" })
}

type namedStep struct {
	framework.DiskStep
	name string
}

func steps(p framework.DiskProbe) []namedStep {
	return []namedStep{{p.Write, "write"}, {p.Sync, "fdatasync"}, {p.Read, "read"}}
}

// probed describes a probe.
func probed(p framework.DiskProbe) string {
	var all []string
	for _, s := range steps(p) {
		took := s.Took.Round(10 * time.Microsecond)
		switch {
		case s.Error != "":
			all = append(all, fmt.Sprintf("%s failed with %s", s.name, s.Error))
		case s.Done:
			all = append(all, fmt.Sprintf("%s took %s", s.name, took))
		case s.Took > 0:
			all = append(all, fmt.Sprintf("%s is unanswered after %s", s.name, took))
		}
	}
	if p.Unsynced {
		all = append(all, "what was synced is not durable")
	}
	return strings.Join(all, ", ")
}

// diskOpParam is the kind of operation that a disk fault affects.
func diskOpParam(unset framework.DiskOp) Param {
	ops := []string{string(unset)}
	for _, o := range []framework.DiskOp{framework.DiskAll, framework.DiskFsync, framework.DiskRead, framework.DiskWrite} {
		if o != unset {
			ops = append(ops, string(o))
		}
	}
	return choiceParam("op", "operations it acts on: fsync (and fdatasync), write, read (what the page cache does not hold) or all", ops...)
}

// touched returns the steps of a probe that a fault of these operations affects.
func touched(op framework.DiskOp, p framework.DiskProbe) []namedStep {
	all := steps(p)
	switch op {
	case framework.DiskWrite:
		return all[:1]
	case framework.DiskFsync:
		return all[1:2]
	case framework.DiskRead:
		return all[2:]
	}
	return all
}
