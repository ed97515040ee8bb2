package disk

import (
	"os"
	"path/filepath"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Changes of names: each is carried out immediately, and recorded in the journal with its undo
// action.

// inDirectory runs f with a directory and the lock on names.
func (fs *fileSystem) inDirectory(c caller, o operation, dir uint64, f func(parent *node) fuse.Status) fuse.Status {
	if _, status := fs.enter(c, o, 0); status != fuse.OK {
		return status
	}
	defer fs.leave()
	fs.names.Lock()
	defer fs.names.Unlock()
	parent, status := fs.nodeLocked(dir)
	if status != fuse.OK {
		return status
	}
	return f(parent)
}

func (fs *fileSystem) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	return fs.inDirectory(caller{cancel, in.Pid}, opWrite, in.NodeId, func(parent *node) fuse.Status {
		path := filepath.Join(parent.path(), name)
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, in.Mode)
		if err != nil {
			return fuse.ToStatus(err)
		}
		// The mode already includes the caller's umask.
		_ = unix.Fchmod(fd, in.Mode&0o7777)
		n := fs.newNode(parent, name, false)
		if err := fs.made(n, path, &in.InHeader, &out.EntryOut); err != nil {
			_ = unix.Close(fd)
			return fuse.ToStatus(err)
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		return fuse.ToStatus(n.adopt(fd))
	})
}

func (fs *fileSystem) Mkdir(cancel <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	return fs.inDirectory(caller{cancel, in.Pid}, opWrite, in.NodeId, func(parent *node) fuse.Status {
		path := filepath.Join(parent.path(), name)
		if err := unix.Mkdir(path, in.Mode); err != nil {
			return fuse.ToStatus(err)
		}
		_ = unix.Chmod(path, in.Mode&0o7777)
		return fuse.ToStatus(fs.made(fs.newNode(parent, name, true), path, &in.InHeader, out))
	})
}

// made records a new file or directory and answers with it.
func (fs *fileSystem) made(n *node, path string, h *fuse.InHeader, out *fuse.EntryOut) error {
	fs.journal.add(change{nodes: []*node{n.parent, n}, undo: func() error {
		path := n.path()
		n.detach()
		return os.Remove(path)
	}})
	if h.Uid != euid {
		_ = os.Lchown(path, int(h.Uid), int(h.Gid))
	}
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		return err
	}
	fs.entry(n, &st, out)
	return nil
}

// child returns the child of a name, known or not.
func (fs *fileSystem) child(parent *node, name string) (*node, error) {
	if n := parent.children[name]; n != nil {
		return n, nil
	}
	var st syscall.Stat_t
	if err := syscall.Lstat(filepath.Join(parent.path(), name), &st); err != nil {
		return nil, err
	}
	return fs.newNode(parent, name, st.Mode&syscall.S_IFMT == syscall.S_IFDIR), nil
}

func (fs *fileSystem) Unlink(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	return fs.removeName(cancel, h, name, func(*node) error { return nil })
}

func (fs *fileSystem) Rmdir(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	return fs.removeName(cancel, h, name, func(n *node) error { return empty(n.path()) })
}

// removeName removes a name if check allows it.
func (fs *fileSystem) removeName(cancel <-chan struct{}, h *fuse.InHeader, name string, check func(*node) error) fuse.Status {
	return fs.inDirectory(caller{cancel, h.Pid}, opChange, h.NodeId, func(parent *node) fuse.Status {
		n, err := fs.child(parent, name)
		if err != nil {
			return fuse.ToStatus(err)
		}
		if err := check(n); err != nil {
			return fuse.ToStatus(err)
		}
		back, final, err := fs.remove(n)
		if err != nil {
			return fuse.ToStatus(err)
		}
		fs.journal.add(change{nodes: []*node{parent, n}, undo: back, final: final})
		return fuse.OK
	})
}

// remove takes a file out of its directory and returns how to put it back, and how to delete it
// permanently.
func (fs *fileSystem) remove(n *node) (back func() error, final func(), err error) {
	parent, name := n.parent, n.name
	kept, err := fs.journal.keep(n.path())
	if err != nil {
		return nil, nil, err
	}
	n.detach()
	n.kept = kept
	back = func() error {
		n.kept = ""
		n.attach(parent, name)
		return os.Rename(kept, n.path())
	}
	final = func() {
		n.kept = ""
		_ = os.RemoveAll(kept) // a directory was empty
	}
	return back, final, nil
}

func empty(dir string) error {
	found, err := os.ReadDir(dir)
	if err == nil && len(found) > 0 {
		return syscall.ENOTEMPTY
	}
	return err
}

func (fs *fileSystem) Rename(cancel <-chan struct{}, in *fuse.RenameIn, oldName, newName string) fuse.Status {
	if in.Flags&^unix.RENAME_NOREPLACE != 0 {
		return fuse.EINVAL
	}
	return fs.inDirectory(caller{cancel, in.Pid}, opChange, in.NodeId, func(from *node) fuse.Status {
		to, status := fs.nodeLocked(in.Newdir)
		if status != fuse.OK {
			return status
		}
		n, err := fs.child(from, oldName)
		if err != nil {
			return fuse.ToStatus(err)
		}
		c := change{nodes: []*node{from, to, n}}
		back := func() error { return nil }
		replaced, err := fs.child(to, newName)
		switch {
		case err == syscall.ENOENT:
		case err != nil:
			return fuse.ToStatus(err)
		case in.Flags&unix.RENAME_NOREPLACE != 0:
			return fuse.Status(syscall.EEXIST)
		case replaced == n:
			return fuse.OK
		default:
			if replaced.dir {
				if err := empty(replaced.path()); err != nil {
					return fuse.ToStatus(err)
				}
			}
			if back, c.final, err = fs.remove(replaced); err != nil {
				return fuse.ToStatus(err)
			}
			c.nodes = append(c.nodes, replaced)
		}
		if err := os.Rename(n.path(), filepath.Join(to.path(), newName)); err != nil {
			_ = back()
			return fuse.ToStatus(err)
		}
		n.detach()
		n.attach(to, newName)
		c.undo = func() error {
			there := n.path()
			n.detach()
			n.attach(from, oldName)
			if err := os.Rename(there, n.path()); err != nil {
				return err
			}
			return back()
		}
		fs.journal.add(c)
		return fuse.OK
	})
}

// A database's directory needs no links or devices.

func (fs *fileSystem) Link(<-chan struct{}, *fuse.LinkIn, string, *fuse.EntryOut) fuse.Status {
	return fuse.EPERM
}

func (fs *fileSystem) Symlink(<-chan struct{}, *fuse.InHeader, string, string, *fuse.EntryOut) fuse.Status {
	return fuse.EPERM
}

func (fs *fileSystem) Mknod(<-chan struct{}, *fuse.MknodIn, string, *fuse.EntryOut) fuse.Status {
	return fuse.EPERM
}
