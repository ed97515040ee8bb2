package disk

import (
	"slices"

	"golang.org/x/sys/unix"
)

// undo holds what a file was when it was last synced, as far as it has changed
// since. Its zero value says that nothing has changed.
type undo struct {
	dirty bool
	size  int64 // of the file when it was last synced
	// old are the parts of the first size bytes that have been overwritten,
	// in order and apart from each other.
	old []extent
	// data backs the extents that are not all zeros. It is kept from sync to
	// sync, so that a steady stream of small writes allocates nothing.
	data []byte
}

// extent is a part of a file as it was.
type extent struct {
	off, n int64
	at     int64 // where its bytes are in undo.data; -1 for all zeros
}

func (e extent) end() int64 { return e.off + e.n }

const (
	// chunk is how much is read at once to be kept.
	chunk = 64 << 10
	// keepData is how much memory a clean undo holds on to.
	keepData = 1 << 20
)

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

// save keeps what stands in [off, end) of fd, as far as it is not kept already
// and was there at the last sync. It must be called before a change.
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

// find returns the extent that covers off, or else the one that comes next.
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

// insert puts an extent before the i-th and joins it with its neighbour where
// the two read as one.
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

// read reads the beginning of [off, end) into u.data and returns its length and
// where it is.
func (u *undo) read(fd int, off, end int64) (n, at int64, err error) {
	if end-off > chunk { // files that are preallocated are mostly holes
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
	if got == 0 { // beyond what there is, which reads as zeros
		return end - off, -1, nil
	}
	if zeros(u.data[at : at+int64(got)]) {
		return int64(got), -1, nil
	}
	u.data = u.data[:at+int64(got)]
	return int64(got), at, nil
}

func zeros(b []byte) bool {
	for len(b) >= 8 {
		if b[0]|b[1]|b[2]|b[3]|b[4]|b[5]|b[6]|b[7] != 0 {
			return false
		}
		b = b[8:]
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// restore puts the file back to what it was when it was last synced, and
// returns how many bytes that concerned.
func (u *undo) restore(fd int, size int64) (lost int64, err error) {
	empty := make([]byte, chunk)
	lost = max(0, size-u.size)
	for _, e := range u.old {
		lost += e.n
		for done := int64(0); done < e.n; {
			n := e.n - done
			b := empty[:min(n, chunk)]
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
