package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
)

// probeSize is the size of what a probe writes: an entry of etcd's log.
const probeSize = 2 << 10

// Probe uses the disk mounted on mount like a database: it creates a file, writes and syncs it,
// reads it back bypassing the page cache, and removes it. The result contains the disk's
// answers; a step without an answer when ctx ends is not Done there, and continues in the
// background. unsynced, if not nil, is called on the file once the disk has reported the sync.
func Probe(ctx context.Context, mount string, unsynced func(file string) (bool, error)) (framework.DiskProbe, error) {
	name := ".holdfast-probe-" + strconv.FormatUint(rand.Uint64(), 36)
	steps := make(chan func(*framework.DiskProbe), 8)
	failed := make(chan error, 1)
	go func() {
		cleanUp, err := probe(filepath.Join(mount, name), unsynced, steps)
		failed <- err
		cleanUp()
	}()
	var p framework.DiskProbe
	began := time.Now()
	for {
		select {
		case step := <-steps:
			step(&p)
			began = time.Now()
		case err := <-failed:
			for len(steps) > 0 {
				(<-steps)(&p)
			}
			return p, err
		case <-ctx.Done():
			for _, s := range []*framework.DiskStep{&p.Write, &p.Sync, &p.Read} {
				if !s.Done {
					s.Took = time.Since(began)
					break
				}
			}
			return p, nil
		}
	}
}

func probe(path string, unsynced func(string) (bool, error), steps chan<- func(*framework.DiskProbe)) (cleanUp func(), err error) {
	mount, name := filepath.Split(path)
	written := bytes.Repeat([]byte(name+" "), probeSize/len(name))[:probeSize]
	began := time.Now()
	done := func(which func(*framework.DiskProbe) *framework.DiskStep, err error) bool {
		step := framework.DiskStep{Took: time.Since(began), Done: true}
		if err != nil {
			step.Error = system.ErrnoName(err)
		}
		steps <- func(p *framework.DiskProbe) { *which(p) = step }
		began = time.Now()
		return err == nil
	}
	var st unix.Statfs_t
	if err := unix.Statfs(mount, &st); err == nil {
		steps <- func(p *framework.DiskProbe) { p.Free = int64(st.Bavail) * st.Bsize }
	}
	// Bare system calls: the runtime would retry calls that a signal interrupts.
	cleanUp = func() {}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC|unix.O_DIRECT, 0o600)
	if err == nil {
		cleanUp = func() { _ = unix.Close(fd); remains.remove(path) }
		_, err = unix.Pwrite(fd, written, 0)
	}
	if !done(func(p *framework.DiskProbe) *framework.DiskStep { return &p.Write }, err) {
		return cleanUp, nil
	}
	synced := done(func(p *framework.DiskProbe) *framework.DiskStep { return &p.Sync }, unix.Fdatasync(fd))
	if synced && unsynced != nil {
		is, err := unsynced(name)
		if err != nil {
			return cleanUp, err
		}
		steps <- func(p *framework.DiskProbe) { p.Unsynced = is }
		began = time.Now()
	}
	back := make([]byte, probeSize)
	n, err := unix.Pread(fd, back, 0)
	if err == nil && !bytes.Equal(back[:n], written) {
		err = errors.New("read back something else")
	}
	done(func(p *framework.DiskProbe) *framework.DiskStep { return &p.Read }, err)
	return cleanUp, nil
}

// remains are files of probes that the disk would not remove; a later probe
// tries again.
var remains leftovers

type leftovers struct {
	mu    sync.Mutex
	paths map[string]bool // guarded by mu
}

func (l *leftovers) remove(path string) {
	l.mu.Lock()
	if l.paths == nil {
		l.paths = map[string]bool{}
	}
	l.paths[path] = true
	paths := slices.Collect(maps.Keys(l.paths))
	l.mu.Unlock()
	for _, p := range paths {
		if filepath.Dir(p) != filepath.Dir(path) {
			continue // of another disk, which may be stuck
		}
		if err := os.Remove(p); err == nil || errors.Is(err, os.ErrNotExist) {
			l.mu.Lock()
			delete(l.paths, p)
			l.mu.Unlock()
		}
	}
}

// ReadFile reads n bytes of a file on a disk, bypassing the page cache.
func ReadFile(path string, offset int64, n int) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, n)
	got, err := f.ReadAt(b, offset)
	if err != nil {
		return nil, fmt.Errorf("failed to read %d bytes of %s at %d: %w", n, path, offset, err)
	}
	return b[:got], nil
}
