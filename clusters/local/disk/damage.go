package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/framework"
)

// flip is an inverted part of a file, which the user did not write.
type flip struct {
	off  int64
	was  []byte
	over []bool // bytes that were written since
	// synced are the bytes that are over after a loss of power.
	synced []bool
}

// overwritten notes that [off, end) was written, with n.mu held.
func (n *node) overwritten(off, end int64) {
	for _, f := range n.flips {
		for i := max(off, f.off); i < min(end, f.off+int64(len(f.was))); i++ {
			f.over[i-f.off] = true
		}
	}
}

// clean forgets how to undo changes: the file was synced. n.mu is held.
func (n *node) clean() {
	n.undo.clear()
	for _, f := range n.flips {
		copy(f.synced, f.over)
	}
}

// maxFlip bounds the size of one flip.
const maxFlip = 1 << 20

// errFlipped says that some of the bytes are inverted already.
var errFlipped = errors.New("already flipped")

// Flip inverts bytes of a file for ttl, or until Restore. The pattern of its name is relative
// to the mount. If some of them are flipped already it does nothing and returns no handle.
func (d *Disk) Flip(what framework.DiskFlip, ttl time.Duration) (framework.DiskFlipped, error) {
	var done framework.DiskFlipped
	if what.Bytes < 1 || what.Bytes > maxFlip {
		return done, fmt.Errorf("failed to flip %d bytes: want 1 to %d", what.Bytes, maxFlip)
	}
	n, err := d.find(what.File)
	if err != nil {
		return done, err
	}
	f := &flip{off: what.Offset}
	err = d.fs.alone(n, func() error { return n.invert(f, what.Bytes) })
	done = framework.DiskFlipped{File: n.relative(), Offset: f.off, Was: slices.Clone(f.was)}
	if err == errFlipped {
		return done, nil
	}
	if err != nil {
		return done, fmt.Errorf("failed to flip bytes of %s: %w", n.relative(), err)
	}
	d.fs.tell([]*node{n}, nil)
	done.Handle, err = d.add(&fault{end: func() error { return d.unflip(n, f, what.Keep) }}, ttl)
	if err != nil {
		return done, errors.Join(err, d.unflip(n, f, false))
	}
	return done, nil
}

// find returns the first regular file whose name matches a pattern.
func (d *Disk) find(pattern string) (*node, error) {
	fs := d.fs
	fs.names.Lock()
	defer fs.names.Unlock()
	found, err := filepath.Glob(filepath.Join(fs.tree.base, pattern))
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", pattern, err)
	}
	for _, path := range found {
		if st, err := os.Lstat(path); err != nil || !st.Mode().IsRegular() {
			continue
		}
		relative, err := filepath.Rel(fs.tree.base, path)
		if err != nil || !filepath.IsLocal(relative) {
			continue
		}
		n := fs.tree.root
		for name := range strings.SplitSeq(relative, "/") {
			if n, err = fs.child(n, name); err != nil {
				return nil, err
			}
		}
		return n, nil
	}
	return nil, fmt.Errorf("no file on the disk matches %q", pattern)
}

// alone runs f on an open node while no request is being carried out.
func (fs *fileSystem) alone(n *node, f func() error) error {
	fs.busy.Lock()
	defer fs.busy.Unlock()
	fs.names.Lock()
	defer fs.names.Unlock()
	if n.tree.gone {
		return os.ErrNotExist
	}
	return n.opened(f)
}

func (n *node) invert(f *flip, bytes int) error {
	if f.off < 0 {
		f.off = n.size / 2
	}
	if f.off+int64(bytes) > n.size {
		return fmt.Errorf("it has %d bytes: too few to flip %d at offset %d", n.size, bytes, f.off)
	}
	for _, other := range n.flips {
		if f.off < other.off+int64(len(other.was)) && other.off < f.off+int64(bytes) {
			return errFlipped
		}
	}
	f.was, f.over, f.synced = make([]byte, bytes), make([]bool, bytes), make([]bool, bytes)
	for i := range f.synced { // a loss of power restores an older byte, or none
		at := f.off + int64(i)
		_, saved := n.undo.find(at)
		f.synced[i] = saved || n.undo.dirty && at >= n.undo.size
	}
	if _, err := unix.Pread(n.fd, f.was, f.off); err != nil {
		return err
	}
	inverted := make([]byte, bytes)
	for i, b := range f.was {
		inverted[i] = ^b
	}
	if _, err := unix.Pwrite(n.fd, inverted, f.off); err != nil {
		return err
	}
	n.flips = append(n.flips, f)
	return nil
}

// unflip restores the bytes that were not written since, or leaves them if keep is set.
func (d *Disk) unflip(n *node, f *flip, keep bool) error {
	err := d.fs.alone(n, func() error {
		for i := range f.was {
			at := f.off + int64(i)
			if keep || f.over[i] || at >= n.size {
				continue
			}
			if _, err := unix.Pwrite(n.fd, f.was[i:i+1], at); err != nil {
				return err
			}
		}
		n.flips = slices.DeleteFunc(n.flips, func(other *flip) bool { return other == f })
		return nil
	})
	if errors.Is(err, os.ErrNotExist) {
		return nil // the file was removed, or its disk, and the damage with it
	}
	d.fs.tell([]*node{n}, nil)
	return err
}

// errWiped says that the disk is an empty one already.
var errWiped = errors.New("already wiped")

// Wipe replaces the disk by an empty one, for ttl or until Restore, which brings the old one
// back unchanged. If the disk is wiped already it does nothing and returns no handle.
func (d *Disk) Wipe(ttl time.Duration) (handle string, err error) {
	if ttl <= 0 {
		return "", errNoTTL
	}
	if err := d.syncAll(); err != nil {
		return "", fmt.Errorf("failed to wipe the disk: %w", err)
	}
	err = d.swap(func(data string) error {
		if d.wiped != nil {
			return errWiped
		}
		aside := filepath.Join(d.cfg.Backing, "aside")
		if err := os.Rename(data, aside); err != nil {
			return err
		}
		if err := os.Mkdir(data, 0o700); err != nil {
			return errors.Join(err, os.Rename(aside, data))
		}
		d.wiped = d.fs.tree
		d.wiped.base = aside
		d.fs.tree = d.fs.newTree(data)
		return nil
	})
	if err == errWiped {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("failed to wipe the disk: %w", err)
	}
	return d.add(&fault{end: d.unwipe}, ttl)
}

// unwipe brings the old disk back.
func (d *Disk) unwipe() error {
	err := d.swap(func(data string) error {
		// Drop changes that were made in the meantime.
		d.fs.journal.commitAll()
		for _, n := range d.fs.nodes {
			if n.tree == d.fs.tree {
				n.mu.Lock()
				n.undo, n.flips = undo{}, nil
				n.mu.Unlock()
			}
		}
		if err := os.RemoveAll(data); err != nil {
			return err
		}
		if err := os.Rename(d.wiped.base, data); err != nil {
			return err
		}
		d.wiped.base = data
		d.fs.tree.gone = true
		d.fs.tree = d.wiped
		d.wiped = nil
		return nil
	})
	if err != nil {
		return fmt.Errorf("failed to bring back what was wiped: %w", err)
	}
	return nil
}

// swap exchanges the tree while no request is being carried out.
func (d *Disk) swap(exchange func(data string) error) error {
	fs := d.fs
	fs.busy.Lock()
	fs.names.Lock()
	all, names := fs.everything()
	err := exchange(fs.tree.base)
	root := fs.tree.root
	fs.names.Unlock()
	fs.busy.Unlock()
	fs.tell(append(all, root), names)
	return err
}
