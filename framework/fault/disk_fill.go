package fault

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// fillRest is how much space a filled file system may have left beyond what was asked for: file
// systems keep some blocks that they report as free and do not give away. etcd needs 64 MB for its
// next log file.
const fillRest = 1 << 20

// filledDisk is the file system under an etcd member, which files can fill.
type filledDisk struct {
	process
	disk framework.DiskFiller
	free int64
	ttl  time.Duration
}

// orFilled completes a fault that makes a disk full: on a node without a disk that can fail, a file
// can fill the file system.
func orFilled(f *Fault) *Fault {
	onDisk := f.Prepare
	f.Needs = []string{"DiskFaulter" + diskProviders + " or DiskFiller (remote provider: a volume of its own for etcd's data)", "ProcessReporter"}
	f.Prepare = func(r Request) (Inject, error) {
		d, ok, err := r.filler()
		if err != nil || !ok {
			return onDisk(r)
		}
		if d.process, err = r.member(); err != nil {
			return nil, err
		}
		return d.inject, nil
	}
	f.ask = func(ctx context.Context, r Request) error {
		d, ok, err := r.filler()
		if err != nil || !ok {
			return err
		}
		return d.unsupported(d.disk.CheckFill(ctx))
	}
	return f
}

// filler returns the file system under the target, an etcd member, unless the node has a disk that
// can fail or cannot be filled at all.
func (r Request) filler() (d filledDisk, ok bool, err error) {
	holder, _, err := r.holder()
	if err != nil {
		return d, false, err
	}
	if _, fails := holder.(framework.DiskFaulter); fails {
		return d, false, nil
	}
	d = filledDisk{process: process{target: r.Target}, free: Value[int64](r, "free"), ttl: r.TTL}
	d.disk, ok = holder.(framework.DiskFiller)
	return d, ok, nil
}

// unsupported is for an error that says that the file system must not be filled.
func (d filledDisk) unsupported(err error) error {
	return unsupported(err, "DiskFiller", "node "+d.target.Node, "fault disk-full")
}

// inject fills the file system. A write that fails and the space that is left, as the file system
// reports it, prove the effect; a write that succeeds, the space and a running member prove the
// healing.
func (d filledDisk) inject(ctx context.Context) (Injection, error) {
	if _, none, err := d.before(ctx); err != nil || none != nil {
		return none, err
	}
	if err := d.unsupported(d.disk.CheckFill(ctx)); err != nil {
		return nil, err
	}
	before, err := d.probe(ctx)
	if err != nil {
		return nil, err
	}
	if full, said := d.full(before); full || before.Free <= d.free+fillRest {
		return notInjected(d.target, "the file system already has only %s", said), nil
	}
	var handle string
	return attempt{
		target: d.target,
		what:   "full disk of " + d.target.String(),
		ask: func(ctx context.Context) (err error) {
			handle, err = d.disk.FillDisk(ctx, d.free, d.ttl)
			return d.unsupported(err)
		},
		effect: func(ctx context.Context) (bool, string) {
			probe, err := d.probe(ctx)
			if err != nil {
				return false, err.Error()
			}
			full, said := d.full(probe)
			return full, fmt.Sprintf("the file system had %d bytes free before; now it has %s; %s", before.Free, said, d.memberNow(ctx))
		},
		undo:   ifGiven(&handle, d.disk.EmptyDisk),
		healed: d.emptied,
	}.injection(ctx)
}

// full checks whether the file system is as full as requested. Until the space that is left on
// request is used up, writes succeed, and only its size can be seen.
func (d filledDisk) full(p framework.DiskProbe) (bool, string) {
	refused := p.Write.Error == "ENOSPC" || p.Sync.Error == "ENOSPC"
	return p.Free <= d.free+fillRest && (refused || d.free > 0), fmt.Sprintf("%d bytes left; %s", p.Free, probed(p))
}

// emptied checks whether the member runs on a file system with space.
func (d filledDisk) emptied(ctx context.Context) (bool, string) {
	probe, err := d.probe(ctx)
	if err != nil {
		return false, err.Error()
	}
	seen := fmt.Sprintf("the file system has %d bytes left; %s", probe.Free, probed(probe))
	if !sound(probe) || probe.Free <= d.free+fillRest {
		return false, seen
	}
	runs, said := d.memberRuns(ctx)
	return runs, seen + "; " + said
}

func (d filledDisk) probe(ctx context.Context) (framework.DiskProbe, error) {
	return tried(ctx, "probe the file system under", d.target, d.disk.ProbeDisk)
}
