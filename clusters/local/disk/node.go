package disk

import (
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// node is a file or a directory.
type node struct {
	id  uint64 // FUSE's, never used again; also the inode number
	dir bool

	// Guarded by fileSystem.names.
	tree     *tree
	parent   *node // nil for a root and for what was removed
	name     string
	kept     string           // where the file is while its removal may be undone
	children map[string]*node // those of a directory that are known
	lookups  uint64           // references that the kernel holds
	changes  int              // entries of the journal that concern it

	mu    sync.Mutex // guards what follows
	fd    int        // of the file behind it, while opens > 0
	opens int
	size  int64 // valid while opens > 0
	undo  undo
	flips []*flip
}

// tree is a directory that is, was or will be the file system's content.
type tree struct {
	base string
	root *node
	gone bool // it was removed, and another may be in its place
}

// path returns the path of the file behind the node; empty if it was deleted permanently.
func (n *node) path() string {
	switch {
	case n.kept != "":
		return n.kept
	case n == n.tree.root:
		return n.tree.base
	case n.parent == nil:
		return "" // the file does not exist any more
	}
	return filepath.Join(n.parent.path(), n.name)
}

// relative returns the node's name in its tree.
func (n *node) relative() string {
	if n.parent == nil {
		return ""
	}
	return filepath.Join(n.parent.relative(), n.name)
}

// removed reports whether the node has no name any more.
func (n *node) removed() bool { return n.parent == nil && n != n.tree.root }

func (n *node) attach(parent *node, name string) {
	n.parent, n.name = parent, name
	parent.children[name] = n
}

func (n *node) detach() {
	if n.parent != nil && n.parent.children[n.name] == n {
		delete(n.parent.children, n.name)
	}
	n.parent = nil
}

// acquire opens the file behind a node, found at path, unless it is open.
func (n *node) acquire(path string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.opens > 0 {
		n.opens++
		return nil
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	return n.adopt(fd)
}

// adopt takes a descriptor of the file behind the node, with n.mu held.
func (n *node) adopt(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return err
	}
	n.fd, n.size, n.opens = fd, st.Size, 1
	return nil
}

func (n *node) release() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.opens--; n.opens == 0 {
		_ = unix.Close(n.fd)
		n.fd = -1
	}
}

// The operations below are on a node that is open.

func (n *node) write(data []byte, off int64) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.undo.begin(n.size)
	end := off + int64(len(data))
	if off < n.undo.size {
		if err := n.undo.save(n.fd, off, end); err != nil {
			return 0, err
		}
	}
	wrote, err := unix.Pwrite(n.fd, data, off)
	n.size = max(n.size, off+int64(wrote))
	n.overwritten(off, off+int64(wrote))
	return wrote, err
}

func (n *node) truncate(size int64) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.undo.begin(n.size)
	if err := n.undo.save(n.fd, size, n.size); err != nil {
		return err
	}
	if err := unix.Ftruncate(n.fd, size); err != nil {
		return err
	}
	n.overwritten(size, n.size)
	n.size = size
	return nil
}

// allocate implements fallocate, without its modes that move data.
func (n *node) allocate(mode uint32, off, length int64) error {
	const keeps = unix.FALLOC_FL_KEEP_SIZE
	const clears = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_ZERO_RANGE
	if mode&^(keeps|clears) != 0 {
		return syscall.EOPNOTSUPP
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.undo.begin(n.size)
	if mode&clears != 0 {
		if err := n.undo.save(n.fd, off, off+length); err != nil {
			return err
		}
		n.overwritten(off, off+length)
	}
	if err := unix.Fallocate(n.fd, mode, off, length); err != nil {
		return err
	}
	if mode&keeps == 0 {
		n.size = max(n.size, off+length)
	}
	return nil
}

// sync makes the data durable. Writers wait meanwhile, as they do in the kernel.
func (n *node) sync(dataOnly bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var err error
	if dataOnly {
		err = unix.Fdatasync(n.fd)
	} else {
		err = unix.Fsync(n.fd)
	}
	if err == nil {
		n.clean()
	}
	return err
}

func (n *node) dirty() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.undo.dirty
}
