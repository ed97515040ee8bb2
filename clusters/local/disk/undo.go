package disk

import (
	"bytes"
	"slices"

	"golang.org/x/sys/unix"
)

// undo contains the changed parts of a file as they were at the last sync. Its zero value means
// no change.
type undo struct {
	dirty bool
	size  int64 // of the file when it was last synced
	// old are the overwritten parts of the first size bytes, sorted and disjoint.
	old []extent
	// data backs the extents that are not all zeros. It is kept from sync to
	// sync, so that a steady stream of small writes allocates nothing.
	data []byte
}

// extent is an old part of a file.
type extent struct {
	off, n int64
	at     int64 // where its bytes are in undo.data; -1 for all zeros
}

func (e extent) end() int64 { return e.off + e.n }

const (
	// chunk is the largest read for saving.
	chunk = 64 << 10
	// keepData is how much memory a clean undo holds on to.
	keepData = 1 << 20
)

// zeros are what a hole in a file reads as.
var zeros [chunk]byte

// begin notes the size before the first change since a sync.
func (u *undo) begin(size int64) {
	if !u.dirty {
		u.dirty, u.size = true, size
	}
}

// clear forgets everything: the file was synced.
func (u *undo) clear() {
	u.dirty, u.old = false, u.old[:0]
	if cap(u.data) > keepData {
		u.data = nil
	}
	u.data = u.data[:0]
}

// save saves [off, end) of fd, except what is saved already or did not exist at the last sync.
// Call it before a change.
func (u *undo) save(fd int, off, end int64) error {
	end = min(end, u.size)
	for off < end {
		i, covered := u.find(off)
		if covered {
			off = u.old[i].end()
			continue
		}
		gap := end
		if i < len(u.old) {
			gap = min(gap, u.old[i].off)
		}
		n, at, err := u.read(fd, off, gap)
		if err != nil {
			return err
		}
		u.insert(i, extent{off, n, at})
		off += n
	}
	return nil
}

// find returns the extent that covers off, or else the next one.
func (u *undo) find(off int64) (i int, covered bool) {
	if last := len(u.old) - 1; last < 0 || u.old[last].end() <= off {
		return last + 1, false // appending, as logs do
	}
	i, _ = slices.BinarySearchFunc(u.old, off, func(e extent, off int64) int {
		if e.end() <= off {
			return -1
		}
		return 1
	})
	return i, u.old[i].off <= off
}

// insert inserts an extent before the i-th and merges it with its neighbour if the two are
// contiguous.
func (u *undo) insert(i int, e extent) {
	if i > 0 {
		before := &u.old[i-1]
		follows := before.at < 0 && e.at < 0 || before.at >= 0 && e.at == before.at+before.n
		if before.end() == e.off && follows {
			before.n += e.n
			return
		}
	}
	u.old = slices.Insert(u.old, i, e)
}

// read reads the beginning of [off, end) into u.data and returns its length and position.
func (u *undo) read(fd int, off, end int64) (n, at int64, err error) {
	if end-off > chunk { // preallocated files are mostly holes
		data, err := unix.Seek(fd, off, unix.SEEK_DATA)
		switch {
		case err == unix.ENXIO:
			return end - off, -1, nil
		case err == nil && data > off:
			return min(data, end) - off, -1, nil
		}
		end = off + chunk
	}
	at = int64(len(u.data))
	u.data = slices.Grow(u.data, int(end-off))
	got, err := unix.Pread(fd, u.data[at:at+end-off], off)
	if err != nil {
		return 0, 0, err
	}
	if got == 0 { // beyond the end of the file, which reads as zeros
		return end - off, -1, nil
	}
	if bytes.Equal(u.data[at:at+int64(got)], zeros[:got]) {
		return int64(got), -1, nil
	}
	u.data = u.data[:at+int64(got)]
	return int64(got), at, nil
}

// restore restores the file to its state at the last sync, and returns the number of bytes
// affected.
func (u *undo) restore(fd int, size int64) (lost int64, err error) {
	lost = max(0, size-u.size)
	for _, e := range u.old {
		lost += e.n
		for done := int64(0); done < e.n; {
			n := e.n - done
			b := zeros[:min(n, chunk)]
			if e.at >= 0 {
				b = u.data[e.at+done : e.at+e.n]
			}
			wrote, err := unix.Pwrite(fd, b, e.off+done)
			if err != nil {
				return lost, err
			}
			done += int64(wrote)
		}
	}
	if err := unix.Ftruncate(fd, u.size); err != nil {
		return lost, err
	}
	u.clear()
	return lost, nil
}
