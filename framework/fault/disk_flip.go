package fault

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// boltFile is etcd's database.
const boltFile = "member/snap/db"

type flipped struct {
	badDisk
	damager framework.DiskDamager
	flip    framework.DiskFlip
	ttl     time.Duration
}

// DiskFlip damages a file of an etcd member.
var DiskFlip = &Fault{
	Name:    "disk-flip",
	Summary: "inverts bytes in a file of an etcd member without its knowledge. Healing inverts them again, except bytes that were written since; whatever the member wrote because it read the damage stays",
	Targets: []string{"etcd"},
	Params: []Param{
		{Name: "file", Doc: "the first file whose name matches", Default: boltFile + ", the database",
			Allowed: "a pattern of a name below etcd's data directory, such as member/wal/*.wal",
			Parse:   func(v string) (any, bool) { return cmp.Or(v, boltFile), localPattern(cmp.Or(v, boltFile)) }},
		sizeParam("offset", "offset of the first byte", -1, 0, 1<<40).unless("half of the file; in a log (*.wal), the middle of a record"),
		sizeParam("bytes", "how many bytes", 1, 1, 1<<20),
		boolParam("restore", "false: the damage stays after healing, and the member may never recover", true),
	},
	Needs:   append([]string{"DiskDamager"}, diskNeeds...),
	Example: "etcd/follower file=member/wal/*.wal bytes=16",
	Effects: does(record.EffectDisk),
	Prepare: func(r Request) (Inject, error) {
		d := flipped{ttl: r.TTL, flip: framework.DiskFlip{File: Value[string](r, "file"), Offset: Value[int64](r, "offset"),
			Bytes: int(Value[int64](r, "bytes")), Keep: !Value[bool](r, "restore")}}
		var err error
		if d.badDisk, err = r.disk(); err != nil {
			return nil, err
		}
		d.damager, err = onTarget[framework.DiskDamager](r)
		return d.inject, err
	},
}

func (d flipped) inject(ctx context.Context) (Injection, error) {
	t := d.target
	if _, none, err := d.before(ctx); err != nil || none != nil {
		return none, err
	}
	if path.Ext(d.flip.File) == ".wal" && d.flip.Offset < 0 {
		if err := d.intoRecord(ctx); err != nil {
			return nil, err
		}
	}
	var done framework.DiskFlipped
	i, err := attempt{
		target: t,
		what:   fmt.Sprintf("flipping %d bytes of %s of %s", d.flip.Bytes, d.flip.File, t.String()),
		ask: func(ctx context.Context) (err error) {
			done, err = d.damager.FlipDisk(ctx, d.flip, d.ttl)
			return err
		},
		effect: func(ctx context.Context) (bool, string) {
			if done.Handle == "" {
				return true, "" // nothing was changed, see below
			}
			inverted, seen := d.inverted(ctx, done)
			return inverted > 0, fmt.Sprintf("%s; %s", seen, d.memberNow(ctx))
		},
		undo: ifGiven(&done.Handle, d.disk.RestoreDisk),
		healed: func(ctx context.Context) (bool, string) {
			inverted, seen := d.inverted(ctx, done)
			if d.flip.Keep {
				// Whether the member can cope with the damage is up to the member.
				return true, "the damage stays, as requested: " + seen
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
		return notInjected(t, "bytes %d to %d of %s on %s are already flipped", done.Offset, done.Offset+int64(d.flip.Bytes)-1, done.File, t.Node), nil
	}
	return i, nil
}

// inverted reads the bytes through the disk and counts the flipped ones; -1 if they cannot be
// read. A missing file has none.
func (d flipped) inverted(ctx context.Context, done framework.DiskFlipped) (n int, seen string) {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	files, err := d.damager.ListDisk(ctx)
	if err == nil && !slices.Contains(files, done.File) {
		return 0, fmt.Sprintf("%s no longer exists", done.File)
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
	seen = fmt.Sprintf("%d bytes at offset %d of %s, read through the disk: %d are inverted", len(done.Was), done.Offset, done.File, n)
	if bytes.Equal(now, done.Was) {
		seen += ", and all are as they were"
	}
	if changed > 0 {
		seen += fmt.Sprintf(", and %d were written since", changed)
	}
	return n, seen
}

const (
	// walStart is where the search for a record of a log begins, and walWindow where it ends.
	walStart, walWindow = 4 << 10, 1 << 20
)

// intoRecord moves the flip into the data of a record of etcd's log. If the damage hit the record's
// length, etcd would take it for a write that was torn by a loss of power, cut off the log there
// (wal.Repair), and start.
func (d *flipped) intoRecord(ctx context.Context) error {
	files, err := d.damager.ListDisk(ctx)
	if err != nil {
		return fmt.Errorf("failed to find the log of %s: %w", d.target, err)
	}
	slices.Sort(files)
	i := slices.IndexFunc(files, func(f string) bool { ok, _ := path.Match(d.flip.File, f); return ok })
	if i < 0 {
		return nil // flipping says so
	}
	log, err := d.damager.ReadDisk(ctx, files[i], 0, walWindow)
	if err != nil {
		return fmt.Errorf("failed to read the log of %s: %w", d.target, err)
	}
	offset, ok := insideRecord(log, d.flip.Bytes)
	if !ok {
		return fmt.Errorf("failed to damage the log of %s: %s has no record of more than %d bytes between %d and %d; name an offset",
			d.target, files[i], 2*d.flip.Bytes, walStart, len(log))
	}
	d.flip.Offset = offset
	return nil
}

// insideRecord returns the offset of n bytes in the middle of a record of a log that has more than
// twice as many. Before each record is its length: 8 bytes, little-endian, of which the highest one
// has the number of padding bytes after the record.
func insideRecord(log []byte, n int) (int64, bool) {
	for at := int64(0); at+8 <= int64(len(log)); {
		word := binary.LittleEndian.Uint64(log[at:])
		size, padding := int64(word&(1<<56-1)), int64(0)
		if word>>63 == 1 {
			padding = int64(word >> 56 & 7)
		}
		end := at + 8 + size
		if size == 0 || end > int64(len(log)) {
			break
		}
		if at >= walStart && size > 2*int64(n) {
			return at + 8 + (size-int64(n))/2, true
		}
		at = end + padding
	}
	return 0, false
}
