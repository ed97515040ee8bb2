package framework

import (
	"context"
	"time"
)

// DiskFaulter is the ability of a node to have a bad disk under its etcd
// member's data.
type DiskFaulter interface {
	// FaultDisk makes the disk misbehave until RestoreDisk or until ttl has passed, and returns a
	// handle. Faults add up.
	FaultDisk(ctx context.Context, f DiskFault, ttl time.Duration) (handle string, err error)
	// RestoreDisk undoes a fault, a flip or a wipe; it does nothing if that is gone.
	RestoreDisk(ctx context.Context, handle string) error
	// DiskCounters reports what a fault has done so far. The counters can still be read after
	// RestoreDisk.
	DiskCounters(ctx context.Context, handle string) (DiskCounters, error)
	// ProbeDisk uses the disk as etcd does: it writes a small file, syncs it, reads it back past
	// the page cache and removes it. Disk errors are in the result; an error means that it was
	// not tried.
	ProbeDisk(ctx context.Context) (DiskProbe, error)
}

// DiskDamager is the ability of a node to have the data on the disk under its etcd member
// damaged. RestoreDisk of DiskFaulter undoes the damage.
type DiskDamager interface {
	// FlipDisk inverts bytes of a file behind etcd's back, until RestoreDisk or until ttl has
	// passed. Bytes that etcd has rewritten since stay. If some of the bytes are already flipped,
	// it does nothing and returns no handle.
	FlipDisk(ctx context.Context, f DiskFlip, ttl time.Duration) (DiskFlipped, error)
	// ReadDisk reads a file of the member's data as the member would, past
	// the page cache. The name is relative to the data directory.
	ReadDisk(ctx context.Context, file string, offset int64, n int) ([]byte, error)
	// ListDisk is the same as in DiskWiper.
	ListDisk(ctx context.Context) ([]string, error)
}

// DiskWiper is the ability of a node to lose the data of its etcd member. It does not need a disk
// that can fail.
type DiskWiper interface {
	// WipeDisk replaces the disk by an empty one until RestoreDisk or until ttl has passed, when
	// the old one comes back unchanged. A member that runs across either change loses its files
	// (they fail with EIO) or is killed. If the disk is already wiped, it does nothing and
	// returns no handle.
	WipeDisk(ctx context.Context, ttl time.Duration) (handle string, err error)
	// RestoreDisk undoes a wipe; it does nothing if the wipe is gone.
	RestoreDisk(ctx context.Context, handle string) error
	// ListDisk names the files in the member's data directory, relative to it.
	ListDisk(ctx context.Context) ([]string, error)
}

// DiskFiller is the ability of a node to have the file system filled on which its etcd member keeps
// its data. It does not need a disk that can fail: the space is taken from etcd as other files
// would take it, so that writes into space that etcd's files already have succeed.
type DiskFiller interface {
	// CheckFill returns an error that is errors.ErrUnsupported and contains the reason if the file
	// system must not be filled, for example since it holds more than etcd's data. It changes
	// nothing.
	CheckFill(ctx context.Context) error
	// FillDisk takes all but free bytes of the space until EmptyDisk or until ttl has passed, and
	// returns a handle. Its errors include those of CheckFill.
	FillDisk(ctx context.Context, free int64, ttl time.Duration) (handle string, err error)
	// EmptyDisk frees the space; it does nothing if it is free.
	EmptyDisk(ctx context.Context, handle string) error
	// ProbeDisk is the same as in DiskFaulter. It may read from the page cache.
	ProbeDisk(ctx context.Context) (DiskProbe, error)
}

// PowerLoser is the ability of a node to lose power together with everything that its disk has
// not synced.
type PowerLoser interface {
	// PowerLoss is PowerOff, followed by the loss of unsynced changes.
	PowerLoss(ctx context.Context, ttl time.Duration) (DiskLoss, error)
}

// DiskOp is a kind of operation on a disk.
type DiskOp string

const (
	DiskAll   DiskOp = "all"
	DiskFsync DiskOp = "fsync" // fsync and fdatasync, of files and directories
	DiskRead  DiskOp = "read"  // of data outside the page cache
	DiskWrite DiskOp = "write" // of data, sizes and names
)

// DiskFault is what happens to the operations of a disk.
type DiskFault struct {
	// Op is what Delay, Error and Share apply to; empty means all.
	Op DiskOp `json:"op,omitempty"`
	// Delay is added to each operation, varied by ± Jitter.
	Delay  time.Duration `json:"delay,omitempty"`
	Jitter time.Duration `json:"jitter,omitempty"`
	// Error is EIO or EROFS, with which Share of the operations fail
	// (from 0 to 1).
	Error string  `json:"error,omitempty"`
	Share float64 `json:"share,omitempty"`
	// Full makes each write and each allocation fail with ENOSPC once Free
	// more bytes have been written.
	Full bool  `json:"full,omitempty"`
	Free int64 `json:"free,omitempty"`
	// Lie acknowledges each sync without syncing. The unsynced data is synced when the fault
	// ends.
	Lie bool `json:"lie,omitempty"`
}

// DiskCounters counts the operations that a fault affected.
type DiskCounters struct {
	Matched uint64 `json:"matched"` // those that it could have acted on
	Delayed uint64 `json:"delayed"`
	Failed  uint64 `json:"failed"`
	Lied    uint64 `json:"lied"` // syncs acknowledged and not done
}

// DiskProbe is the result of one use of a disk.
type DiskProbe struct {
	Write, Sync, Read DiskStep
	// Free is the space that the disk reports as left, in bytes.
	Free int64
	// Unsynced reports that after an acknowledged sync the file was still only in a cache that a
	// loss of power empties.
	Unsynced bool
}

// DiskStep is one operation of a probe.
type DiskStep struct {
	// Took is how long the operation took, or has taken so far if it is not Done.
	Took time.Duration
	Done bool
	// Error is the name of the error that it failed with, such as EIO.
	Error string
}

// DiskFlip names bytes to be inverted.
type DiskFlip struct {
	// File is a pattern, as of path.Match, relative to the member's data directory. The first
	// match is used.
	File string `json:"file"`
	// Offset is that of the first byte; negative means half of the file.
	Offset int64 `json:"offset"`
	Bytes  int   `json:"bytes"`
	// Keep leaves the damage in place.
	Keep bool `json:"keep,omitempty"`
}

// DiskFlipped is what was inverted.
type DiskFlipped struct {
	Handle string `json:"handle"`
	File   string `json:"file"`
	Offset int64  `json:"offset"`
	// Was is the previous content.
	Was []byte `json:"was"`
}

// DiskLoss is what a loss of power took from a disk.
type DiskLoss struct {
	Files int   `json:"files"` // with unsynced data
	Bytes int64 `json:"bytes"` // that were put back to what they were, or cut off
	Names int   `json:"names"` // creations, renames and removals undone
}
