package fault

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-ha/holdfast/framework"
)

// DiskFlip damages a file of an etcd member.
var DiskFlip Fault = diskFlip{}

type diskFlip struct{}

func (diskFlip) Name() string { return "disk-flip" }

func (diskFlip) Doc() Doc {
	return Doc{
		Summary: "inverts bytes of a file of an etcd member behind its back. Healing inverts them again, except those that were written since; what the member made of damage that it has read stays",
		Targets: []string{"etcd"},
		Params: map[string]string{
			"file":    "pattern of the file's name, relative to etcd's data directory; the first that fits is taken; default " + boltFile + ", the database",
			"offset":  "of the first byte, from 0; default half of the file",
			"bytes":   "how many, from 1 to 1Mi; default 1",
			"restore": "true (default); false: the damage stays after healing, and the member may never be well again",
		},
		Needs:   []string{diskNeeds, "DiskDamager", "ProcessReporter"},
		Example: "etcd/follower file=member/wal/*.wal offset=4096 bytes=16",
	}
}

// boltFile is etcd's database.
const boltFile = "member/snap/db"

type flipped struct {
	badDisk
	damager framework.DiskDamager
	flip    framework.DiskFlip
}

func (f diskFlip) Check(c framework.Cluster, t Target, p Params) error {
	_, err := f.parts(c, t, p)
	return err
}

func (f diskFlip) parts(c framework.Cluster, t Target, p Params) (d flipped, err error) {
	if d.badDisk, err = newBadDisk(f, c, t, p); err != nil {
		return
	}
	if d.damager, err = damager(f, c, t); err != nil {
		return
	}
	d.flip.File = boltFile
	if file := p.Values["file"]; file != "" {
		d.flip.File = file
	}
	if !localPattern(d.flip.File) {
		return d, badParam(f, p, "file", "a pattern of a name below etcd's data directory, such as member/wal/*.wal")
	}
	if d.flip.Offset, err = sizeParam(f, p, "offset", -1, 0, 1<<40); err != nil {
		return
	}
	n, err := sizeParam(f, p, "bytes", 1, 1, 1<<20)
	if err != nil {
		return d, err
	}
	d.flip.Bytes = int(n)
	switch p.Values["restore"] {
	case "", "true":
	case "false":
		d.flip.Keep = true
	default:
		err = badParam(f, p, "restore", "true or false")
	}
	return d, err
}

func (f diskFlip) Inject(ctx context.Context, c framework.Cluster, t Target, p Params) (Injection, error) {
	d, err := f.parts(c, t, p)
	if err != nil {
		return nil, err
	}
	if _, absent, err := d.before(ctx); err != nil {
		return nil, err
	} else if absent != "" {
		return notInjected(t, "%s, so nothing uses its disk", absent), nil
	}
	var done framework.DiskFlipped
	i, err := attempt{
		target: t,
		what:   fmt.Sprintf("flipping %d bytes of %s of %s", d.flip.Bytes, d.flip.File, t.String()),
		ask: func(ctx context.Context) (err error) {
			done, err = d.damager.FlipDisk(ctx, d.flip, p.TTL)
			return err
		},
		effect: func(ctx context.Context) (bool, string) {
			if done.Handle == "" {
				return true, "" // nothing was done, see below
			}
			inverted, seen := d.inverted(ctx, done)
			return inverted > 0, fmt.Sprintf("%s; %s", seen, d.memberNow(ctx))
		},
		undo: func(ctx context.Context) error { return d.restore(ctx, done.Handle) },
		healed: func(ctx context.Context) (bool, string) {
			inverted, seen := d.inverted(ctx, done)
			if d.flip.Keep {
				// Whether the member can live with it is its own affair.
				return true, "the damage was to stay: " + seen
			}
			if inverted != 0 {
				return false, seen
			}
			held, said := d.memberRuns(ctx)
			return held, seen + "; " + said
		},
	}.inject(ctx)
	if err != nil {
		return nil, err
	}
	if done.Handle == "" {
		return notInjected(t, "bytes %d to %d of %s on %s are flipped already", done.Offset, done.Offset+int64(d.flip.Bytes)-1, done.File, t.Node), nil
	}
	return i, nil
}

// inverted reads the bytes through the disk and counts those that are flipped;
// -1 where they cannot be read. A file that is gone has none.
func (d flipped) inverted(ctx context.Context, done framework.DiskFlipped) (n int, seen string) {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	files, err := d.damager.ListDisk(ctx)
	if err == nil && !slices.Contains(files, done.File) {
		return 0, fmt.Sprintf("%s is there no more", done.File)
	}
	now, err := d.damager.ReadDisk(ctx, done.File, done.Offset, len(done.Was))
	if err != nil {
		return -1, fmt.Sprintf("reading what was flipped: %v", err)
	}
	changed := 0
	for i := range min(len(now), len(done.Was)) {
		if now[i] == ^done.Was[i] {
			n++
		} else if now[i] != done.Was[i] {
			changed++
		}
	}
	seen = fmt.Sprintf("of %d bytes at offset %d of %s, read through the disk, %d are inverted", len(done.Was), done.Offset, done.File, n)
	if bytes.Equal(now, done.Was) {
		seen += ", and all are as they were"
	}
	if changed > 0 {
		seen += fmt.Sprintf(", and %d were written since", changed)
	}
	return n, seen
}

// damager returns the ability to damage the disk of a target.
func damager(f Fault, c framework.Cluster, t Target) (framework.DiskDamager, error) {
	holder, of, err := componentHolder(f, c, t)
	if err != nil {
		return nil, err
	}
	return ability[framework.DiskDamager](holder, of, "fault "+f.Name())
}
