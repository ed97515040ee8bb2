package image

import (
	"fmt"
	"syscall"

	"github.com/holdfast-ha/holdfast/clusters/release"
)

const (
	// cacheSpace is the space in the cache for building an image: the root file system as files
	// and as a tar file, and a copy of the image.
	cacheSpace = 2 << 30
	// engineSpace is the space in the engine's data directory, including the archive that is
	// being loaded.
	engineSpace = 3 << 30
)

// freeSpace returns how many bytes an ordinary user may still write to a file
// system.
func freeSpace(dir string) (uint64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(s.Bsize), nil
}

// needSpace returns an error if a disk would become full. If the free space is unknown, as in
// the directory of an engine on another machine, it returns nil.
func (b *builder) needSpace(dir string, need uint64, advice string) error {
	if dir == "" {
		return nil
	}
	if free, err := b.free(dir); err == nil && free < need {
		return fmt.Errorf("only %s free in %s, and building images needs about %s there: %s", release.Size(free), dir, release.Size(need), advice)
	}
	return nil
}
