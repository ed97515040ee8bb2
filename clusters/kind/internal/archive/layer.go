package archive

import (
	"archive/tar"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// File is one entry of a layer, owned by root.
type File struct {
	// Name is the path, without a slash at the beginning.
	Name string
	// Mode contains the permissions, and fs.ModeDir for a folder. Links have none.
	Mode fs.FileMode
	// Link is the target of a symbolic link.
	Link string
	// Path is the file on this machine with the contents; if empty, Data has them.
	Path string
	Data []byte
}

// Files returns the layer with these entries. Their order does not matter, and the later of two
// entries with the same name wins. The parent folders of an entry are part of the layer, with
// 0755 unless they are listed: Docker creates missing ones with 0600. So no entry can be below
// a symbolic link of a lower layer.
func Files(files []File) Layer {
	return func(w io.Writer) error {
		tw := tar.NewWriter(w)
		for _, f := range sorted(files) {
			if err := f.write(tw); err != nil {
				return fmt.Errorf("failed to put %s into an image: %w", f.Name, err)
			}
		}
		return tw.Close()
	}
}

func sorted(files []File) []File {
	var result []File
	for _, f := range files {
		f.Name = path.Clean(f.Name)
		result = slices.DeleteFunc(result, func(other File) bool { return other.Name == f.Name })
		result = append(result, f)
	}
	for _, f := range result {
		for dir := path.Dir(f.Name); dir != "." && dir != "/"; dir = path.Dir(dir) {
			if !slices.ContainsFunc(result, func(other File) bool { return other.Name == dir }) {
				result = append(result, File{Name: dir, Mode: fs.ModeDir | 0o755})
			}
		}
	}
	// A folder sorts before what is in it.
	slices.SortFunc(result, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	return result
}

func (f File) write(tw *tar.Writer) error {
	if !fs.ValidPath(f.Name) || f.Name == "." {
		return errors.New("its name must be a path below the root, without a slash at the beginning")
	}
	h := &tar.Header{Name: f.Name, Mode: mode(f.Mode), ModTime: epoch}
	switch {
	case f.Link != "":
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, f.Link, 0o777
		return tw.WriteHeader(h)
	case f.Mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, f.Name+"/"
		return tw.WriteHeader(h)
	}
	h.Typeflag = tar.TypeReg
	if f.Path == "" {
		h.Size = int64(len(f.Data))
		return writeRegular(tw, h, bytes.NewReader(f.Data))
	}
	file, err := os.Open(f.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", f.Path)
	}
	h.Size = info.Size()
	return writeRegular(tw, h, file)
}

func writeRegular(tw *tar.Writer, h *tar.Header, r io.Reader) error {
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.Copy(tw, r)
	return err
}

// mode returns the permissions for tar.
func mode(m fs.FileMode) int64 {
	bits := int64(m.Perm())
	for flag, bit := range map[fs.FileMode]int64{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if m&flag != 0 {
			bits |= bit
		}
	}
	return bits
}

// TarFile returns the layer in a tar file.
func TarFile(name string) Layer {
	return func(w io.Writer) error {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(w, f)
		return err
	}
}

// Read returns the entries of a tar stream, with their contents in memory. Entries other than
// files, folders and symbolic links are an error.
func Read(r io.Reader) ([]File, error) {
	var files []File
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		} else if err != nil {
			return nil, err
		}
		f := File{Name: strings.Trim(path.Clean(h.Name), "/"), Mode: h.FileInfo().Mode()}
		switch h.Typeflag {
		case tar.TypeReg:
			if f.Data, err = io.ReadAll(tr); err != nil {
				return nil, err
			}
		case tar.TypeDir:
			f.Mode |= fs.ModeDir
		case tar.TypeSymlink:
			f.Link, f.Mode = h.Linkname, 0
		default:
			return nil, fmt.Errorf("%s is neither a file, a folder nor a symbolic link", h.Name)
		}
		files = append(files, f)
	}
}
