package disk

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Requests on the data of files.

func (fs *fileSystem) Open(cancel <-chan struct{}, in *fuse.OpenIn, _ *fuse.OpenOut) fuse.Status {
	return fs.on(cancel, &in.InHeader, opLook, 0, func(n *node, _ bool) error { return n.acquire(fs.pathOf(n)) })
}

func (fs *fileSystem) Release(_ <-chan struct{}, in *fuse.ReleaseIn) {
	fs.names.Lock()
	defer fs.names.Unlock()
	if n := fs.nodes[in.NodeId]; n != nil { // of any tree
		n.release()
		fs.reap(n)
	}
}

func (fs *fileSystem) Read(cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	var got int
	status := fs.on(cancel, &in.InHeader, opRead, 0, func(n *node, _ bool) (err error) {
		got, err = unix.Pread(n.fd, buf[:in.Size], int64(in.Offset))
		return err
	})
	if status != fuse.OK {
		return nil, status
	}
	return fuse.ReadResultData(buf[:got]), fuse.OK
}

func (fs *fileSystem) Write(cancel <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	var wrote int
	status := fs.on(cancel, &in.InHeader, opWrite, int64(len(data)), func(n *node, _ bool) (err error) {
		wrote, err = n.write(data, int64(in.Offset))
		return err
	})
	if status != fuse.OK {
		return 0, status
	}
	return uint32(wrote), fuse.OK
}

func (fs *fileSystem) Fallocate(cancel <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	return fs.on(cancel, &in.InHeader, opWrite, int64(in.Length), func(n *node, _ bool) error {
		return n.allocate(in.Mode, int64(in.Offset), int64(in.Length))
	})
}

// dataOnly is the flag of a sync request that comes from fdatasync.
const dataOnly = 1

func (fs *fileSystem) Fsync(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return fs.sync(cancel, in, func(n *node) error { return n.sync(in.FsyncFlags&dataOnly != 0) })
}

func (fs *fileSystem) FsyncDir(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return fs.sync(cancel, in, func(n *node) error {
		fd, err := unix.Open(fs.pathOf(n), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Fsync(fd)
	})
}

// sync syncs a file or directory with do, unless a fault only acknowledges it.
func (fs *fileSystem) sync(cancel <-chan struct{}, in *fuse.FsyncIn, do func(*node) error) fuse.Status {
	return fs.on(cancel, &in.InHeader, opSync, 0, func(n *node, lie bool) error {
		if lie {
			return nil
		}
		if err := do(n); err != nil {
			return err
		}
		fs.commit(n)
		return nil
	})
}

// commit makes the changes of names durable that come with a sync of n.
func (fs *fileSystem) commit(n *node) {
	fs.names.RLock()
	concerned := n.changes > 0
	fs.names.RUnlock()
	if concerned {
		fs.names.Lock()
		fs.journal.commit(n)
		fs.names.Unlock()
	}
}

// Flush is what close asks for; refused once, it is not asked again.
func (fs *fileSystem) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status {
	return fuse.Status(syscall.ENOSYS)
}
