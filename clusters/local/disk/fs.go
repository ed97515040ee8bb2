package disk

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// fileSystem answers the kernel's requests.
type fileSystem struct {
	fuse.RawFileSystem // what is not implemented is refused with ENOSYS
	gate

	// names guards the tree of nodes and the journal.
	names   sync.RWMutex
	tree    *tree
	nodes   map[uint64]*node
	lastID  uint64
	journal journal

	dirsMu  sync.Mutex
	dirs    map[uint64][]fuse.DirEntry // open directories
	lastDir uint64

	server *fuse.Server
}

// Names and attributes change only through this process, which notifies the
// kernel when it changes them on its own.
const validFor = 3600 // seconds

// euid is the owner of files until they are chowned.
var euid = uint32(os.Geteuid())

func (fs *fileSystem) String() string { return "holdfast" }

func (fs *fileSystem) Init(s *fuse.Server) { fs.server = s }

// on carries out a request about a node with do, unless a fault answers it. lie reports that do must
// only acknowledge it.
func (fs *fileSystem) on(cancel <-chan struct{}, h *fuse.InHeader, o operation, size int64, do func(n *node, lie bool) error) fuse.Status {
	lie, status := fs.enter(caller{cancel, h.Pid}, o, size)
	if status != fuse.OK {
		return status
	}
	defer fs.leave()
	fs.names.RLock()
	n, status := fs.nodeLocked(h.NodeId)
	fs.names.RUnlock()
	if status != fuse.OK {
		return status
	}
	return fuse.ToStatus(do(n, lie))
}

// nodeLocked returns a node of the current tree; others belong to an old disk.
func (fs *fileSystem) nodeLocked(id uint64) (*node, fuse.Status) {
	if id == fuse.FUSE_ROOT_ID {
		return fs.tree.root, fuse.OK
	}
	n := fs.nodes[id]
	if n == nil {
		return nil, fuse.Status(syscall.ESTALE)
	}
	if n.tree != fs.tree {
		return nil, fuse.EIO
	}
	return n, fuse.OK
}

// newNode creates a node for a file that was just found or created.
func (fs *fileSystem) newNode(parent *node, name string, dir bool) *node {
	fs.lastID++
	n := &node{id: fs.lastID, dir: dir, tree: fs.tree, fd: -1}
	if dir {
		n.children = map[string]*node{}
	}
	n.attach(parent, name)
	fs.nodes[n.id] = n
	return n
}

// entry answers with a node, to which the kernel then holds a reference.
func (fs *fileSystem) entry(n *node, st *syscall.Stat_t, out *fuse.EntryOut) {
	n.lookups++
	out.NodeId, out.Generation = n.id, 1
	out.EntryValid, out.AttrValid = validFor, validFor
	out.FromStat(st)
	out.Ino = n.id
}

// reap forgets a node that nothing refers to; names is held.
func (fs *fileSystem) reap(n *node) {
	if n.lookups > 0 || n.changes > 0 || len(n.children) > 0 || n == n.tree.root {
		return
	}
	n.mu.Lock()
	if n.opens == 0 && n.path() == "" {
		n.undo, n.flips = undo{}, nil // no request can reach them
	}
	used := n.opens > 0 || n.undo.dirty || len(n.flips) > 0
	n.mu.Unlock()
	if !used {
		n.detach()
		delete(fs.nodes, n.id)
	}
}

func (fs *fileSystem) Forget(id, lookups uint64) {
	fs.names.Lock()
	defer fs.names.Unlock()
	if n := fs.nodes[id]; n != nil {
		n.lookups -= min(n.lookups, lookups)
		fs.reap(n)
	}
}

func (fs *fileSystem) Lookup(cancel <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	return fs.inDirectory(caller{cancel, h.Pid}, opLook, h.NodeId, func(parent *node) fuse.Status {
		var st syscall.Stat_t
		if err := syscall.Lstat(filepath.Join(parent.path(), name), &st); err != nil {
			return fuse.ToStatus(err)
		}
		n := parent.children[name]
		if n == nil {
			switch st.Mode & syscall.S_IFMT {
			case syscall.S_IFREG, syscall.S_IFDIR:
			default:
				return fuse.Status(syscall.EOPNOTSUPP)
			}
			n = fs.newNode(parent, name, st.Mode&syscall.S_IFMT == syscall.S_IFDIR)
		}
		fs.entry(n, &st, out)
		return fuse.OK
	})
}

// stat reads the attributes of the file behind a node.
func (fs *fileSystem) stat(n *node, out *fuse.Attr) error {
	var st syscall.Stat_t
	n.mu.Lock()
	open := n.opens > 0
	var err error
	if open {
		err = syscall.Fstat(n.fd, &st)
	}
	n.mu.Unlock()
	if !open {
		fs.names.RLock()
		path, removed := n.path(), n.removed() && n.kept == ""
		fs.names.RUnlock()
		if removed {
			return syscall.ESTALE
		}
		err = syscall.Lstat(path, &st)
	}
	if err != nil {
		return err
	}
	out.FromStat(&st)
	out.Ino = n.id
	return nil
}

func (fs *fileSystem) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	return fs.on(cancel, &in.InHeader, opLook, 0, func(n *node, _ bool) error {
		out.AttrValid = validFor
		return fs.stat(n, &out.Attr)
	})
}

func (fs *fileSystem) SetAttr(cancel <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	return fs.on(cancel, &in.InHeader, opChange, 0, func(n *node, _ bool) error {
		path := fs.pathOf(n)
		if size, ok := in.GetSize(); ok {
			if n.dir {
				return syscall.EISDIR
			}
			err := n.acquire(path)
			if err == nil {
				err = n.truncate(int64(size))
				n.release()
			}
			if err != nil {
				return err
			}
		}
		if err := setAttributes(path, in); err != nil {
			return err
		}
		out.AttrValid = validFor
		return fs.stat(n, &out.Attr)
	})
}

func (fs *fileSystem) pathOf(n *node) string {
	fs.names.RLock()
	defer fs.names.RUnlock()
	return n.path()
}

func setAttributes(path string, in *fuse.SetAttrIn) error {
	if mode, ok := in.GetMode(); ok {
		if err := syscall.Chmod(path, mode); err != nil {
			return err
		}
	}
	uid, hasUID := in.GetUID()
	gid, hasGID := in.GetGID()
	if hasUID || hasGID {
		owner := [2]int{-1, -1}
		if hasUID {
			owner[0] = int(uid)
		}
		if hasGID {
			owner[1] = int(gid)
		}
		if err := syscall.Lchown(path, owner[0], owner[1]); err != nil {
			return err
		}
	}
	times := [2]unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Nsec: unix.UTIME_OMIT}}
	if at, ok := in.GetATime(); ok {
		times[0] = unix.NsecToTimespec(at.UnixNano())
	}
	if mt, ok := in.GetMTime(); ok {
		times[1] = unix.NsecToTimespec(mt.UnixNano())
	}
	if times[0].Nsec == unix.UTIME_OMIT && times[1].Nsec == unix.UTIME_OMIT {
		return nil
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, path, times[:], unix.AT_SYMLINK_NOFOLLOW)
}

func (fs *fileSystem) StatFs(cancel <-chan struct{}, h *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	if _, status := fs.enter(caller{cancel, h.Pid}, opLook, 0); status != fuse.OK {
		return status
	}
	defer fs.leave()
	var st syscall.Statfs_t
	if err := syscall.Statfs(fs.pathOf(fs.root()), &st); err != nil {
		return fuse.ToStatus(err)
	}
	out.FromStatfsT(&st)
	if left, full := fs.free(); full && out.Bsize > 0 {
		blocks := uint64(left) / uint64(out.Bsize)
		out.Bfree, out.Bavail = min(out.Bfree, blocks), min(out.Bavail, blocks)
	}
	return fuse.OK
}

func (fs *fileSystem) root() *node {
	fs.names.RLock()
	defer fs.names.RUnlock()
	return fs.tree.root
}

// Directories are listed when they are opened.

func (fs *fileSystem) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	return fs.on(cancel, &in.InHeader, opLook, 0, func(n *node, _ bool) error {
		found, err := os.ReadDir(fs.pathOf(n))
		if err != nil {
			return err
		}
		var entries []fuse.DirEntry
		for i, e := range found {
			mode := uint32(syscall.S_IFREG)
			if e.IsDir() {
				mode = syscall.S_IFDIR
			}
			entries = append(entries, fuse.DirEntry{Name: e.Name(), Mode: mode, Ino: unknownInode, Off: uint64(i + 1)})
		}
		fs.dirsMu.Lock()
		defer fs.dirsMu.Unlock()
		fs.lastDir++
		fs.dirs[fs.lastDir] = entries
		out.Fh = fs.lastDir
		return nil
	})
}

// unknownInode is the number that the FUSE library uses for entries whose inode it does not
// know.
const unknownInode = 0xffffffff

func (fs *fileSystem) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	fs.dirsMu.Lock()
	entries := fs.dirs[in.Fh]
	fs.dirsMu.Unlock()
	if in.Offset > uint64(len(entries)) {
		return fuse.OK
	}
	for _, e := range entries[in.Offset:] {
		if !out.AddDirEntry(e) {
			break
		}
	}
	return fuse.OK
}

func (fs *fileSystem) ReleaseDir(in *fuse.ReleaseIn) {
	fs.dirsMu.Lock()
	defer fs.dirsMu.Unlock()
	delete(fs.dirs, in.Fh)
}

// tell makes the kernel forget what it has cached of some nodes: attributes,
// data and, for directories, the names in them. No lock may be held.
func (fs *fileSystem) tell(stale []*node, names []staleName) {
	if fs.server == nil {
		return
	}
	for _, n := range stale {
		fs.server.InodeNotify(n.kernelID(), 0, 0)
	}
	for _, s := range names {
		fs.server.EntryNotify(s.parent, s.name)
	}
}

type staleName struct {
	parent uint64
	name   string
}

// kernelID is the number by which the kernel knows the node.
func (n *node) kernelID() uint64 {
	if n == n.tree.root {
		return fuse.FUSE_ROOT_ID
	}
	return n.id
}

// everything returns all nodes, and all names that the kernel may know.
func (fs *fileSystem) everything() (all []*node, names []staleName) {
	for _, n := range fs.nodes {
		all = append(all, n)
		if n.parent != nil {
			names = append(names, staleName{n.parent.kernelID(), n.name})
		}
	}
	slices.SortFunc(all, func(a, b *node) int { return cmp.Compare(a.id, b.id) })
	return all, names
}
