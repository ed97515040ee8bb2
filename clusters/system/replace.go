package system

import (
	"errors"
	"os"
	"path/filepath"
)

// ReplaceFile writes a file so that a reader finds its old content or the new one, never a
// part. If durable is set, that holds also after the machine lost power. The temporary file
// beside it has a name that begins with a dot, which programs that read a whole directory,
// such as a kubelet, ignore.
func ReplaceFile(path string, data []byte, mode os.FileMode, durable bool) error {
	tmp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".holdfast")
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && durable {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		_ = os.Remove(tmp)
	}
	return err
}
