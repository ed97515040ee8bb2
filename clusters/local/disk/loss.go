package disk

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/framework"
)

// Drop undoes every change that is not durable, as a loss of power does. Call Freeze first, and
// have no process keep files open for long after it.
func (d *Disk) Drop() (framework.DiskLoss, error) {
	fs := d.fs
	fs.busy.Lock()
	fs.names.Lock()
	all, before := fs.everything()
	var loss framework.DiskLoss
	var err error
	for _, n := range all {
		lost, undone, dropErr := n.drop()
		if undone {
			loss.Files++
			loss.Bytes += lost
		}
		err = errors.Join(err, dropErr)
	}
	names, undoErr := fs.journal.undo()
	loss.Names = names
	_, after := fs.everything()
	fs.names.Unlock()
	fs.busy.Unlock()
	// Call the kernel only when its requests can be answered.
	fs.thaw()
	fs.tell(append(all, fs.root()), append(before, after...))
	if err = errors.Join(err, undoErr); err != nil {
		return loss, fmt.Errorf("failed to undo what was not synced: %w", err)
	}
	return loss, nil
}

// opened runs f on a node that is open. names is held.
func (n *node) opened(f func() error) error {
	if err := n.acquire(n.path()); err != nil {
		return err
	}
	defer n.release()
	n.mu.Lock()
	defer n.mu.Unlock()
	return f()
}

// drop restores the file to its state at the last sync.
func (n *node) drop() (lost int64, undone bool, err error) {
	if n.dir || !n.dirty() {
		return 0, false, nil
	}
	err = n.opened(func() error {
		for _, f := range n.flips {
			copy(f.over, f.synced)
		}
		size := n.undo.size
		var err error
		lost, err = n.undo.restore(n.fd, n.size)
		n.size = size
		return err
	})
	return lost, true, err
}

// syncAll makes everything durable.
func (d *Disk) syncAll() error {
	fs := d.fs
	fs.busy.Lock()
	defer fs.busy.Unlock()
	fs.names.Lock()
	defer fs.names.Unlock()
	var err error
	all, _ := fs.everything()
	for _, n := range all {
		if n.dir || n.tree != fs.tree || !n.dirty() {
			continue
		}
		err = errors.Join(err, n.opened(func() error {
			if err := unix.Fsync(n.fd); err != nil {
				return err
			}
			n.clean()
			return nil
		}))
	}
	fs.journal.commitAll()
	return err
}
