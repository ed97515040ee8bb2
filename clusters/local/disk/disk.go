package disk

import (
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters/internal/expiry"
	"github.com/holdfast-ha/holdfast/framework"
)

// Config describes a disk and its backing directory.
type Config struct {
	// Mount is the directory on which the disk is mounted. It must exist.
	Mount string `json:"mount"`
	// Backing is the directory that contains the data, in a subdirectory, and undo data. It is
	// created if it does not exist.
	Backing string `json:"backing"`
	// Seed makes what is random repeatable.
	Seed uint64 `json:"seed"`
}

// Disk is a mounted disk.
type Disk struct {
	cfg Config
	fs  *fileSystem

	wiped   *tree // what a wipe put aside; guarded by fs.names
	closing sync.Once

	mu     sync.Mutex // guards what follows
	last   uint64
	faults map[string]*fault // by handle; expired faults keep their counters

	ending sync.Mutex            // held while a fault ends, and taken before mu
	timers expiry.Timers[string] // by handle; guarded by ending
}

// fault is a rule, a flip or a wipe, with its end.
type fault struct {
	rule *rule // nil for a flip or a wipe
	end  func() error
	over bool // guarded by the disk's ending
}

// Mount mounts a disk and serves it until Close.
func Mount(cfg Config) (*Disk, error) {
	data, kept := filepath.Join(cfg.Backing, "data"), filepath.Join(cfg.Backing, "undo")
	if err := os.RemoveAll(kept); err != nil {
		return nil, fmt.Errorf("failed to clear what an earlier disk kept: %w", err)
	}
	for _, dir := range []string{data, kept} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("failed to make the directory behind the disk: %w", err)
		}
	}
	fs := &fileSystem{
		RawFileSystem: fuse.NewDefaultRawFileSystem(),
		gate:          gate{closed: make(chan struct{}), rand: rand.New(rand.NewPCG(cfg.Seed, 0))},
		nodes:         map[uint64]*node{}, dirs: map[uint64][]fuse.DirEntry{},
		journal: journal{dir: kept}, lastID: fuse.FUSE_ROOT_ID,
	}
	fs.journal.reap = fs.reap
	fs.tree = fs.newTree(data)
	server, err := fuse.NewServer(fs, cfg.Mount, &fuse.MountOptions{
		DirectMountStrict: true, AllowOther: true, Options: []string{"default_permissions"},
		FsName: "holdfast", Name: "disk",
		// Only this process changes anything, so the page cache stays valid until this process
		// invalidates it.
		ExplicitDataCacheControl: true, ExtraCapabilities: fuse.CAP_EXPLICIT_INVAL_DATA,
		DisableXAttrs: true, DisableReadDirPlus: true, DisableSplice: true,
		MaxBackground: 64, MaxWrite: 1 << 20, MaxReadAhead: 128 << 10,
		Logger: log.New(io.Discard, "", 0),
	})
	if err != nil {
		return nil, fmt.Errorf("failed to mount a FUSE file system on %s: %w; `holdfast doctor` checks whether /dev/fuse can be used", cfg.Mount, err)
	}
	go server.Serve()
	if err := server.WaitMount(); err != nil {
		return nil, fmt.Errorf("failed to wait for the FUSE file system on %s: %w", cfg.Mount, err)
	}
	return &Disk{cfg: cfg, fs: fs, faults: map[string]*fault{}}, nil
}

// newTree returns the tree of a directory.
func (fs *fileSystem) newTree(base string) *tree {
	fs.lastID++
	t := &tree{base: base, root: &node{id: fs.lastID, dir: true, fd: -1, children: map[string]*node{}}}
	t.root.tree = t
	return t
}

// Close unmounts the disk, in the mount namespace of this process. Waiting requests are
// answered. Processes with open files get errors as soon as the last of the files is closed or
// this process exits.
func (d *Disk) Close() error {
	var err error
	d.closing.Do(func() {
		close(d.fs.closed)
		d.ending.Lock()
		d.timers.StopAll()
		d.ending.Unlock()
		if err = unix.Unmount(d.cfg.Mount, unix.MNT_DETACH); err != nil {
			err = fmt.Errorf("failed to unmount %s: %w", d.cfg.Mount, err)
		}
	})
	return err
}

// Freeze blocks every request until Thaw, and returns when the running ones are done.
func (d *Disk) Freeze() { d.fs.freeze() }

// Thaw ends Freeze.
func (d *Disk) Thaw() { d.fs.thaw() }

// Fault makes the disk misbehave for ttl, or until Restore.
func (d *Disk) Fault(f framework.DiskFault, ttl time.Duration) (handle string, err error) {
	if f.Error != "" && errnos[f.Error] == 0 {
		return "", fmt.Errorf("a disk cannot be made to return %s: want EIO or EROFS", f.Error)
	}
	if f.Delay < f.Jitter || f.Jitter < 0 || f.Share < 0 || f.Share > 1 || f.Free < 0 {
		return "", fmt.Errorf("this is not a disk fault: %+v", f)
	}
	if ttl <= 0 {
		return "", errNoTTL
	}
	r := newRule(f)
	d.setRules(func(rules []*rule) []*rule { return append(rules, r) })
	if r.covers(opRead) {
		d.dropCaches() // so that reads come here
	}
	// Last, or its time might be over before it is active.
	return d.add(&fault{rule: r, end: func() error { return d.remove(r) }}, ttl)
}

// errNoTTL refuses a fault that would never heal automatically.
var errNoTTL = errors.New("a fault needs a time to live above zero")

// add records a fault that ends after ttl.
func (d *Disk) add(f *fault, ttl time.Duration) (handle string, err error) {
	if ttl <= 0 {
		return "", errNoTTL
	}
	d.ending.Lock()
	defer d.ending.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last++
	handle = strconv.FormatUint(d.last, 10)
	d.faults[handle] = f
	d.timers.Start(&d.ending, handle, ttl, func() error { return d.finish(handle, f) })
	return handle, nil
}

// Restore ends a fault. It does nothing if the fault is over.
func (d *Disk) Restore(handle string) error {
	f := d.fault(handle)
	if f == nil {
		return fmt.Errorf("this disk has had no fault %q", handle)
	}
	d.ending.Lock()
	defer d.ending.Unlock()
	return d.finish(handle, f)
}

// finish ends a fault that is not over, with ending held.
func (d *Disk) finish(handle string, f *fault) error {
	if f.over {
		return nil
	}
	if err := f.end(); err != nil {
		return fmt.Errorf("failed to heal fault %s of the disk on %s: %w", handle, d.cfg.Mount, err)
	}
	f.over = true
	d.timers.Stop(handle)
	return nil
}

func (d *Disk) fault(handle string) *fault {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.faults[handle]
}

// Counters reports what a fault has done so far.
func (d *Disk) Counters(handle string) (framework.DiskCounters, error) {
	f := d.fault(handle)
	if f == nil || f.rule == nil {
		return framework.DiskCounters{}, fmt.Errorf("this disk has had no fault %q that counts", handle)
	}
	return f.rule.counters(), nil
}

func (d *Disk) setRules(change func([]*rule) []*rule) {
	for {
		old := d.fs.rules.Load()
		var rules []*rule
		if old != nil {
			rules = slices.Clone(*old)
		}
		rules = change(rules)
		now := &rules
		if len(rules) == 0 {
			now = nil
		}
		if d.fs.rules.CompareAndSwap(old, now) {
			return
		}
	}
}

// remove ends a rule.
func (d *Disk) remove(r *rule) error {
	d.setRules(func(rules []*rule) []*rule {
		return slices.DeleteFunc(rules, func(other *rule) bool { return other == r })
	})
	select {
	case <-r.ended:
	default:
		close(r.ended)
	}
	if r.Lie {
		return d.syncAll()
	}
	return nil
}

// dropCaches makes the kernel forget all data.
func (d *Disk) dropCaches() {
	d.fs.names.RLock()
	all, _ := d.fs.everything()
	d.fs.names.RUnlock()
	d.fs.tell(all, nil)
}

// Unsynced reports whether a loss of power would lose data of a file, whose name is relative to
// the mount.
func (d *Disk) Unsynced(file string) bool {
	d.fs.names.RLock()
	defer d.fs.names.RUnlock()
	for _, n := range d.fs.nodes {
		if n.tree == d.fs.tree && !n.removed() && n.relative() == file {
			return n.changes > 0 || n.dirty()
		}
	}
	return false
}

// Available returns why a disk cannot be mounted; nil if it can. The FUSE device may be
// missing, or not accessible to the user.
func Available() error {
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("FUSE cannot be used: %w", err)
	}
	return f.Close()
}
