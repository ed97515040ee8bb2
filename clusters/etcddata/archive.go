package etcddata

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/holdfast-ha/holdfast/clusters/system"
)

// Pack writes a data directory as an archive. It is compressed: etcd's log is 64 MB of zeros at
// first.
func Pack(w io.Writer, dir string) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	if err := t.AddFS(os.DirFS(dir)); err != nil {
		return err
	}
	return errors.Join(t.Close(), z.Close())
}

// Unpack creates a data directory from what Pack wrote; it must not exist yet. If it fails, it
// leaves what it has written.
func Unpack(r io.Reader, dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	z, err := gzip.NewReader(r)
	if err != nil {
		return err
	}
	dirs := []string{"."}
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		name := path.Clean(h.Name)
		switch h.Typeflag {
		case tar.TypeDir:
			err = root.Mkdir(name, 0o700)
			dirs = append(dirs, name)
		case tar.TypeReg:
			err = unpackFile(root, name, t)
		default:
			err = fmt.Errorf("%s is neither a file nor a directory", h.Name)
		}
		if err != nil {
			return err
		}
	}
	if _, err := io.Copy(io.Discard, z); err != nil { // which checks its sum
		return err
	}
	for _, name := range dirs {
		if err := system.Sync(path.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// unpackFile writes a file, with holes for its zeros: etcd allocates the space when it opens its
// log.
func unpackFile(root *os.Root, name string, r io.Reader) error {
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	size, zeros, chunk := int64(0), make([]byte, 64<<10), make([]byte, 64<<10)
	for err == nil {
		var n int
		n, err = io.ReadFull(r, chunk)
		if !bytes.Equal(chunk[:n], zeros[:n]) {
			if _, wrong := f.WriteAt(chunk[:n], size); wrong != nil {
				return errors.Join(wrong, f.Close())
			}
		}
		size += int64(n)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = f.Truncate(size)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
