package disk

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// syncTimes returns how long it takes to append 2 KiB to each file and sync it,
// in turns, so that all see the same machine.
func syncTimes(b *testing.B, paths []string) [][]time.Duration {
	b.Helper()
	took := make([][]time.Duration, len(paths))
	fds := make([]int, len(paths))
	for i, path := range paths {
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
		if err != nil {
			b.Fatal(err)
		}
		defer unix.Close(fd)
		// As etcd's log, which is preallocated in segments of 64 MB.
		if err := unix.Fallocate(fd, 0, 0, 64<<20); err != nil {
			b.Fatal(err)
		}
		if err := unix.Fsync(fd); err != nil {
			b.Fatal(err)
		}
		fds[i] = fd
	}
	entry := make([]byte, 2<<10)
	for i := range entry {
		entry[i] = byte(i)
	}
	off := int64(0)
	for range 50 {
		for i, fd := range fds {
			for n := range 20 {
				began := time.Now()
				_, err := unix.Pwrite(fd, entry, off+int64(n*len(entry)))
				if err == nil {
					err = unix.Fdatasync(fd)
				}
				if err != nil {
					b.Fatal(err)
				}
				took[i] = append(took[i], time.Since(began))
			}
		}
		off += int64(20 * len(entry))
	}
	return took
}

// BenchmarkSync measures 2 KiB written and synced, with the pass-through and
// without it, side by side: µs are medians, ratio is the one over the other.
func BenchmarkSync(b *testing.B) {
	for _, on := range []string{"tmpfs", "disk"} {
		b.Run(on, func(b *testing.B) {
			dir := b.TempDir()
			if on == "tmpfs" {
				if err := unix.Mount("bench", dir, "tmpfs", 0, ""); err != nil {
					b.Skip(err)
				}
				defer unix.Unmount(dir, unix.MNT_DETACH)
			}
			if err := os.Mkdir(filepath.Join(dir, "plain"), 0o755); err != nil {
				b.Fatal(err)
			}
			p := startDisk(b, dir)
			var plain, fuse []time.Duration
			for b.Loop() {
				took := syncTimes(b, []string{filepath.Join(dir, "plain", "log"), filepath.Join(p.Mount(), "log")})
				plain, fuse = append(plain, took[0]...), append(fuse, took[1]...)
			}
			b.ReportMetric(0, "ns/op")
			median := func(d []time.Duration) float64 {
				slices.Sort(d)
				return float64(d[len(d)/2].Nanoseconds()) / 1e3
			}
			b.ReportMetric(median(plain), "plain-µs")
			b.ReportMetric(median(fuse), "fuse-µs")
			b.ReportMetric(float64(fuse[len(fuse)*99/100].Nanoseconds())/1e3, "fuse-p99-µs")
			b.ReportMetric(median(fuse)/median(plain), "ratio")
		})
	}
}
