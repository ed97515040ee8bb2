package bundle

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Limits of what Open unpacks, regardless of the file's own claims.
const (
	maxFiles = 20_000
	maxBytes = 2 << 30
)

// writeArchive writes files, by name, in the only form that readArchive accepts.
func writeArchive(out io.Writer, names []string, open func(name string) (io.ReadCloser, int64, error)) error {
	w := tar.NewWriter(out)
	for _, name := range names {
		if err := writeFile(w, name, open); err != nil {
			return fmt.Errorf("failed to add %s to the bundle: %w", name, err)
		}
	}
	return w.Close()
}

func writeFile(w *tar.Writer, name string, open func(name string) (io.ReadCloser, int64, error)) error {
	in, size, err := open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := w.WriteHeader(header(name, size)); err != nil {
		return err
	}
	_, err = io.Copy(w, in)
	return err
}

// header returns a file's header: nothing in it depends on the machine that writes it.
func header(name string, size int64) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
}

// readArchive unpacks an archive into a directory, which must be empty, and returns the SHA-256
// digests of its files by name. It writes the archive again while reading, and refuses it if the
// two differ.
func readArchive(in io.Reader, dir string) (digests map[string]string, err error) {
	digests = map[string]string{}
	same := &comparer{in: bufio.NewReaderSize(in, 1<<20)}
	r := tar.NewReader(io.TeeReader(same.in, &same.seen))
	w := tar.NewWriter(same)
	last, total := "", int64(0)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("not a bundle, or damaged after %s: %w", cmp.Or(last, "its start"), err)
		}
		total += h.Size
		switch {
		case h.Typeflag != tar.TypeReg || !fs.ValidPath(h.Name) || path.Clean(h.Name) != h.Name || h.Name == ".":
			return nil, fmt.Errorf("%q is not a file that a bundle can hold", h.Name)
		case h.Name <= last:
			return nil, fmt.Errorf("%s follows %s: a bundle holds each file once, in order of name", h.Name, last)
		case len(digests) == maxFiles || h.Size < 0 || total > maxBytes:
			return nil, fmt.Errorf("the bundle is too big: at most %d files of %d GiB in all", maxFiles, maxBytes>>30)
		}
		last = h.Name
		if err := w.WriteHeader(header(h.Name, h.Size)); err != nil {
			return nil, fmt.Errorf("%s: %w", h.Name, err)
		}
		sum := sha256.New()
		if err := unpack(filepath.Join(dir, filepath.FromSlash(h.Name)), io.TeeReader(r, io.MultiWriter(sum, w))); err != nil {
			return nil, fmt.Errorf("failed to unpack %s: %w", h.Name, err)
		}
		if same.differs {
			return nil, fmt.Errorf("the archive's entry of %s differs from what holdfast writes: a byte was changed", h.Name)
		}
		digests[h.Name] = hex.EncodeToString(sum.Sum(nil))
	}
	// The part that the reader left, such as the rest of the padding.
	if _, err := io.Copy(&same.seen, same.in); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if same.differs || same.seen.Len() > 0 {
		return nil, errors.New("the archive does not end as holdfast ends it: a byte was changed, or something was added")
	}
	return digests, nil
}

// comparer receives the expected bytes, and compares them with the bytes that were read.
type comparer struct {
	in      *bufio.Reader
	seen    bytes.Buffer // read and not compared yet
	differs bool
}

func (c *comparer) Write(p []byte) (int, error) {
	if got := c.seen.Next(len(p)); !bytes.Equal(got, p) {
		c.differs = true
	}
	return len(p), nil
}

// unpack writes a file and its parent directories.
func unpack(path string, in io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, in)
	return errors.Join(err, f.Close())
}

// filesIn returns the names of all files below a directory, in the order of a bundle.
func filesIn(dir string) (names []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if name = filepath.ToSlash(name); err == nil && !d.Type().IsRegular() {
			err = fmt.Errorf("%s is not a regular file", name)
		}
		names = append(names, name)
		return err
	})
	slices.SortFunc(names, strings.Compare)
	return names, err
}
