package system

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// TemporarySuffix ends the names of temporary files.
const TemporarySuffix = ".holdfast"

// Temporary returns the file in which ReplaceFile writes the new content of a file. Programs that
// read a whole directory, such as a kubelet, ignore it, as its name begins with a dot.
func Temporary(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+TemporarySuffix)
}

// ReplaceFile writes a file so that a reader finds its old content or the new one, never a
// part. If durable is set, that holds also after the machine lost power. prepare is called with
// the new file before anything is written.
func ReplaceFile(path string, data []byte, mode os.FileMode, durable bool, prepare ...func(*os.File) error) error {
	tmp := Temporary(path)
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	for _, do := range prepare {
		err = errors.Join(err, do(f))
	}
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil && durable {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		_ = os.Remove(tmp)
		return err
	}
	if durable {
		return Sync(filepath.Dir(path))
	}
	return nil
}

// Sync returns once the data of a file is on disk, or the names in a directory, such as that of a file that
// was renamed. Two file systems keep no order between them.
func Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil // there is nothing to do on this file system, or no way
	}
	return err
}
