package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/local/disk"
	"github.com/holdfast-ha/holdfast/framework"
)

// diskNode is a node whose etcd member keeps its data on a disk that can fail. A process
// outside the machine serves the disk, and it is mounted before the machine starts, so that the
// machine has it at boot.
type diskNode struct {
	*node
	framework.DiskFaulter // the disk
}

var (
	_ framework.DiskFaulter = diskNode{}
	_ framework.DiskDamager = diskNode{}
	_ framework.DiskWiper   = diskNode{}
	_ framework.PowerLoser  = diskNode{}
)

// dataDir is etcd's data directory on such a disk. It is not the disk's root, where etcd would
// complain about the files of probes.
const dataDir = "etcd"

// makeDisk puts a disk that can fail under a machine and returns the directory on it for etcd's
// data. If the user's machine has no FUSE, it returns plain: then the node does not have the
// abilities.
func (c *Cluster) makeDisk(m *machine, plain string) (data string, err error) {
	if err := disk.Available(); err != nil {
		c.o.Progress(fmt.Sprintf("disk faults are not possible on %s: %v; see `holdfast doctor`", m.name, err))
		return plain, nil
	}
	mount := filepath.Join(m.dir, "disk")
	if err := os.MkdirAll(mount, 0o700); err != nil {
		return "", fmt.Errorf("failed to make the disk of %s: %w", m.name, err)
	}
	log, err := os.OpenFile(filepath.Join(m.logs, "disk.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return "", fmt.Errorf("failed to open the log of the disk of %s: %w", m.name, err)
	}
	defer log.Close()
	p, err := disk.Start(roleDisk, disk.ServeConfig{
		Config: disk.Config{Mount: mount, Backing: mount + ".backing", Seed: c.o.Seed},
		Socket: filepath.Join(m.run, "disk.sock"),
	}, log)
	if err != nil {
		return "", fmt.Errorf("failed to start the disk of %s: %w", m.name, err)
	}
	c.mu.Lock()
	c.disks = append(c.disks, p)
	c.mu.Unlock()
	m.disk = p
	return filepath.Join(mount, dataDir), nil
}

// stopDisks stops all disks. The machines must have stopped.
func (c *Cluster) stopDisks() error {
	return framework.Each(c.disks, (*disk.Process).Stop)
}

// diskLimit is how long a disk's process may take to answer. It answers within
// a millisecond; one that does not is stuck.
const diskLimit = 10 * time.Second

// freezeDisk freezes the disk, if there is one, and returns the function that lets it continue.
func (m *machine) freezeDisk() (thaw func()) {
	if m.disk == nil {
		return func() {}
	}
	tell := func(what string, f func(context.Context) error) {
		ctx, cancel := context.WithTimeout(context.Background(), diskLimit)
		defer cancel()
		if err := f(ctx); err != nil {
			fmt.Fprintf(os.Stderr, "holdfast: %s the disk of %s: %v\n", what, m.name, err)
		}
	}
	tell("freezing", m.disk.Freeze)
	return func() { tell("thawing", m.disk.Thaw) }
}

// awaitEnd returns when the machine's processes have exited. A process that waits for a stuck
// disk cannot exit, so that disk is killed.
func (m *machine) awaitEnd(l *life) {
	if m.disk != nil {
		select {
		case <-l.ended:
			return
		case <-time.After(diskLimit):
			fmt.Fprintf(os.Stderr, "holdfast: the disk of %s keeps the machine from stopping and is abandoned: %v\n", m.name, m.disk.Stop())
		}
	}
	<-l.ended
}

// FlipDisk implements framework.DiskDamager.
func (n diskNode) FlipDisk(ctx context.Context, f framework.DiskFlip, ttl time.Duration) (framework.DiskFlipped, error) {
	f.File = filepath.Join(dataDir, f.File)
	done, err := n.machine.disk.Flip(ctx, f, ttl)
	done.File = strings.TrimPrefix(done.File, dataDir+"/")
	return done, err
}

// WipeDisk implements framework.DiskWiper.
func (n diskNode) WipeDisk(ctx context.Context, ttl time.Duration) (string, error) {
	return n.machine.disk.Wipe(ctx, ttl)
}

// ReadDisk implements framework.DiskDamager.
func (n diskNode) ReadDisk(ctx context.Context, file string, offset int64, bytes int) ([]byte, error) {
	if !filepath.IsLocal(file) {
		return nil, fmt.Errorf("%q is not the name of a file in etcd's data directory", file)
	}
	return awaitDisk(ctx, func() ([]byte, error) {
		return disk.ReadFile(filepath.Join(n.machine.disk.Mount(), dataDir, file), offset, bytes)
	})
}

// ListDisk implements framework.DiskWiper.
func (n diskNode) ListDisk(ctx context.Context) ([]string, error) {
	root := filepath.Join(n.machine.disk.Mount(), dataDir)
	return awaitDisk(ctx, func() ([]string, error) {
		var files []string
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // removed in between, or a disk that was wiped
			}
			if err == nil && e.Type().IsRegular() {
				name, _ := filepath.Rel(root, path)
				files = append(files, name)
			}
			return err
		})
		return files, err
	})
}

// PowerLoss implements framework.PowerLoser.
func (n diskNode) PowerLoss(ctx context.Context, ttl time.Duration) (loss framework.DiskLoss, err error) {
	err = n.machine.cutPower(ttl, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), diskLimit)
		defer cancel()
		loss, err = n.machine.disk.Drop(ctx)
		return err
	})
	return loss, err
}

// awaitDisk uses a disk without waiting longer than ctx for a stuck one.
func awaitDisk[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := f()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("the disk does not answer: %w", context.Cause(ctx))
	}
}
