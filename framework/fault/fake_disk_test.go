package fault

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// fakeDisk is the disk of a fake node: what is wrong with it, and its files.
type fakeDisk struct {
	faults map[string]*fakeDiskFault
	files  map[string][]byte // nil means a database
	lost   int               // how often unsynced changes were lost
	synced bool              // there are none
}

type fakeDiskFault struct {
	framework.DiskFault
	framework.DiskCounters
	over bool
	end  func() // puts damage right
}

const fakeFree = 1 << 30

func (n *fakeNode) data() map[string][]byte {
	if n.disk.files == nil {
		n.disk.files = map[string][]byte{boltFile: []byte("abcdefgh"), "member/wal/0.wal": []byte("log")}
	}
	return n.disk.files
}

// addDisk puts a fault on the disk; the cluster is locked.
func (n *fakeNode) addDisk(f *fakeDiskFault, ttl time.Duration) (handle string, err error) {
	if n.disk.faults == nil {
		n.disk.faults = map[string]*fakeDiskFault{}
	}
	handle = fmt.Sprint(len(n.disk.faults) + 1)
	n.disk.faults[handle] = f
	f.over = true
	if n.c.ask() {
		f.over = false
		n.c.later(ttl, func() { n.endDisk(f) })
	}
	return handle, n.c.refuses
}

func (n *fakeNode) endDisk(f *fakeDiskFault) {
	if !f.over && f.end != nil {
		f.end()
	}
	f.over = true
}

func (n *fakeNode) FaultDisk(_ context.Context, f framework.DiskFault, ttl time.Duration) (string, error) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return n.addDisk(&fakeDiskFault{DiskFault: f}, ttl)
}

func (n *fakeNode) RestoreDisk(_ context.Context, handle string) error {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	f := n.disk.faults[handle]
	if f == nil {
		return errors.New("no such handle")
	}
	if !n.c.stubborn {
		n.endDisk(f)
	}
	return nil
}

func (n *fakeNode) DiskCounters(_ context.Context, handle string) (framework.DiskCounters, error) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	f := n.disk.faults[handle]
	if f == nil {
		return framework.DiskCounters{}, errors.New("no such handle")
	}
	return f.DiskCounters, nil
}

func (n *fakeNode) ProbeDisk(ctx context.Context) (framework.DiskProbe, error) {
	p := framework.DiskProbe{Free: fakeFree}
	for op, s := range map[framework.DiskOp]*framework.DiskStep{framework.DiskWrite: &p.Write, framework.DiskFsync: &p.Sync, framework.DiskRead: &p.Read} {
		began := time.Now()
		delay := n.use(op, s, &p)
		select {
		case <-time.After(delay):
			s.Done = true
		case <-ctx.Done():
			s.Error = ""
		}
		s.Took = time.Since(began)
	}
	return p, nil
}

// use does one operation on the disk and returns how long it is delayed.
func (n *fakeNode) use(op framework.DiskOp, s *framework.DiskStep, p *framework.DiskProbe) (delay time.Duration) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	for _, f := range n.disk.faults {
		sync, write := op == framework.DiskFsync, op == framework.DiskWrite
		general := !f.Lie && !f.Full && (f.Op == op || f.Op == framework.DiskAll)
		if f.over || f.end != nil || !general && (!f.Lie || !sync) && (!f.Full || !write) {
			continue
		}
		f.Matched++
		switch {
		case f.Lie:
			f.Lied++
			p.Unsynced = true
		case f.Full:
			if p.Free = f.Free; p.Free == 0 {
				s.Error = "ENOSPC"
				f.Failed++
			}
		case f.Error != "":
			if f.Matched%uint64(1/f.Share) == 0 {
				s.Error = f.Error
				f.Failed++
			}
		case f.Delay > 0:
			delay += f.Delay
			f.Delayed++
		}
	}
	return delay
}

func (n *fakeNode) FlipDisk(_ context.Context, f framework.DiskFlip, ttl time.Duration) (done framework.DiskFlipped, err error) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	b := n.data()[f.File]
	if f.Offset < 0 {
		f.Offset = int64(len(b) / 2)
	}
	part := b[f.Offset : f.Offset+int64(f.Bytes)]
	done = framework.DiskFlipped{File: f.File, Offset: f.Offset, Was: bytes.Clone(part)}
	for _, other := range n.disk.faults {
		if !other.over && other.end != nil {
			return done, nil // flipped already
		}
	}
	flip := func() {
		for i := range part {
			part[i] = ^part[i]
		}
	}
	damage := &fakeDiskFault{end: flip}
	if f.Keep {
		damage.end = func() {}
	}
	done.Handle, err = n.addDisk(damage, ttl)
	if !damage.over {
		flip()
	}
	return done, err
}

func (n *fakeNode) WipeDisk(_ context.Context, ttl time.Duration) (handle string, err error) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	old := n.data()
	if len(old) == 0 {
		return "", nil
	}
	f := &fakeDiskFault{end: func() { n.disk.files = old }}
	handle, err = n.addDisk(f, ttl)
	if !f.over {
		n.disk.files = map[string][]byte{}
	}
	return handle, err
}

func (n *fakeNode) ReadDisk(_ context.Context, file string, offset int64, count int) ([]byte, error) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return bytes.Clone(n.data()[file][offset : offset+int64(count)]), nil
}

func (n *fakeNode) ListDisk(context.Context) ([]string, error) {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return slices.Sorted(maps.Keys(n.data())), nil
}

func (n *fakeNode) PowerLoss(ctx context.Context, ttl time.Duration) (framework.DiskLoss, error) {
	n.disk.lost++
	if n.disk.synced {
		return framework.DiskLoss{Files: 1}, n.PowerOff(ctx, ttl)
	}
	return framework.DiskLoss{Files: 1, Bytes: 2, Names: 3}, n.PowerOff(ctx, ttl)
}

// badDiskNow reports whether anything is wrong with the disk of node-2.
func badDiskNow(c *fakeCluster) bool {
	for _, f := range c.nodes[1].disk.faults {
		if !f.over {
			return true
		}
	}
	return !strings.HasPrefix(string(c.nodes[1].data()[boltFile]), "abcdefgh")
}

// noEtcd ends etcd on node-2: nothing uses the disk then.
func noEtcd(c *fakeCluster) { c.nodes[1].processes[framework.Etcd].PID = 0 }
