package release

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/semver"

	"github.com/holdfast-ha/holdfast/clusters/system"
)

// Entry is one entry of the cache; except for Dir it is the content of manifest.json.
type Entry struct {
	Product Product `json:"product"`
	Version string  `json:"version"`
	Arch    string  `json:"arch"`
	// Dir holds the files. It is not part of the manifest.
	Dir string `json:"dir,omitempty"`
	// Source reports whether it was downloaded or built.
	Source Source `json:"source"`
	// Origin is the archive's address, or the module and its go.sum hash.
	Origin string `json:"origin"`
	// Go is the toolchain of a build.
	Go      string    `json:"go,omitempty"`
	Created time.Time `json:"created"`
	Files   []File    `json:"files"`
}

// File is one file of an entry.
type File struct {
	Name string `json:"name"`
	// Link is the target of a symbolic link within the entry; the rest is
	// empty then.
	Link    string    `json:"link,omitempty"`
	Size    int64     `json:"size,omitempty"`
	SHA256  string    `json:"sha256,omitempty"`
	ModTime time.Time `json:"modTime,omitzero"`
}

// Size returns the bytes that the entry takes.
func (e Entry) Size() int64 {
	var n int64
	for _, f := range e.Files {
		n += f.Size
	}
	return n
}

// CorruptError says that a cache entry has changed since its creation.
type CorruptError struct {
	Dir     string
	Problem string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("cache entry %s is corrupt: %s", e.Dir, e.Problem)
}

// cache is the directory of the cache.
type cache string

const manifestName = "manifest.json"

func (c cache) ref(p Product, version, arch string) string {
	return filepath.Join(string(c), "refs", string(p), version, arch)
}

// workDir creates a directory for one attempt to fetch.
func (c cache) workDir(key string) (string, error) {
	tmp := filepath.Join(string(c), "tmp")
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return "", err
	}
	return os.MkdirTemp(tmp, key+"-")
}

// sweep removes the remains of killed fetches of key. The caller holds the lock of key, so no
// fetch is running.
func (c cache) sweep(key string) {
	left, _ := filepath.Glob(filepath.Join(string(c), "tmp", key+"-*"))
	for _, dir := range left {
		os.RemoveAll(dir)
	}
}

// lookup returns a verified entry.
func (c cache) lookup(p Product, version, arch string, full bool) (Entry, error) {
	dir, err := filepath.EvalSymlinks(c.ref(p, version, arch))
	if errors.Is(err, os.ErrNotExist) {
		return Entry{}, fmt.Errorf("%s %s (%s): %w", p, version, arch, ErrNotCached)
	} else if err != nil {
		return Entry{}, fmt.Errorf("failed to look for %s %s (%s) in the cache: %w", p, version, arch, err)
	}
	e, err := load(dir)
	if err != nil {
		return Entry{}, err
	}
	if e.Product != p || e.Version != version || e.Arch != arch {
		return Entry{}, &CorruptError{dir, fmt.Sprintf("it holds %s %s (%s), not %s %s (%s)",
			e.Product, e.Version, e.Arch, p, version, arch)}
	}
	if err := e.verify(full); err != nil {
		return Entry{}, err
	}
	return e, nil
}

// load reads a manifest and checks it against the name of its directory.
func load(dir string) (Entry, error) {
	var e Entry
	if err := system.ReadJSON(filepath.Join(dir, manifestName), &e); err != nil {
		return Entry{}, &CorruptError{dir, err.Error()}
	}
	e.Dir = dir
	if e.digest() != filepath.Base(dir) {
		return Entry{}, &CorruptError{dir, "its name is not the digest of its manifest"}
	}
	return e, nil
}

// digest names an entry by its content, whatever its source.
func (e Entry) digest() string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %s %s\n", e.Product, e.Version, e.Arch)
	for _, f := range e.Files {
		fmt.Fprintf(h, "%q %q %d %s\n", f.Name, f.Link, f.Size, f.SHA256)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// verify compares the files with the manifest.
func (e Entry) verify(full bool) error {
	for _, f := range e.Files {
		if err := e.verifyFile(f, full); err != nil {
			return &CorruptError{e.Dir, fmt.Sprintf("%s: %v", f.Name, err)}
		}
	}
	return nil
}

func (e Entry) verifyFile(f File, full bool) error {
	path := filepath.Join(e.Dir, f.Name)
	if f.Link != "" {
		if got, err := os.Readlink(path); err != nil {
			return err
		} else if got != f.Link {
			return fmt.Errorf("links to %s instead of %s", got, f.Link)
		}
		return nil
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("is not a regular file")
	case info.Size() != f.Size:
		return fmt.Errorf("has %d bytes instead of %d", info.Size(), f.Size)
	case info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("is not executable")
	case !full && info.ModTime().Equal(f.ModTime):
		return nil
	}
	sum, err := HashFile(path)
	if err != nil {
		return err
	}
	if sum != f.SHA256 {
		return fmt.Errorf("has SHA-256 %s instead of %s", sum, f.SHA256)
	}
	// A copied cache has other times; after setting the right one the next check is cheap
	// again. If we may not set it, checks stay expensive.
	if !info.ModTime().Equal(f.ModTime) {
		_ = os.Chtimes(path, time.Time{}, f.ModTime)
	}
	return nil
}

// publish makes the files in dir an entry of the cache and points e's reference to it.
func (c cache) publish(dir string, e Entry) (Entry, error) {
	var err error
	if e.Files, err = scan(dir); err != nil {
		return Entry{}, err
	}
	if missing := slices.DeleteFunc(e.Product.Files(), e.has); len(missing) > 0 {
		return Entry{}, fmt.Errorf("%s does not contain %s", e.Origin, strings.Join(missing, ", "))
	}
	e.Created, e.Dir = time.Now().UTC().Truncate(time.Second), ""
	data, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return Entry{}, err
	}
	if err := os.WriteFile(filepath.Join(dir, manifestName), append(data, '\n'), 0o644); err != nil {
		return Entry{}, err
	}
	e.Dir = filepath.Join(string(c), "entries", e.digest())
	if err := os.MkdirAll(filepath.Dir(e.Dir), 0o755); err != nil {
		return Entry{}, err
	}
	// The same contents may be there already, whole or damaged. Processes
	// that run from there keep their files open.
	if err := os.Rename(e.Dir, filepath.Join(filepath.Dir(dir), "replaced")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return Entry{}, err
	}
	if err := os.Rename(dir, e.Dir); err != nil {
		return Entry{}, err
	}
	return e, c.point(e, filepath.Dir(dir))
}

// point atomically makes e's reference point to e, through a link in tmp.
func (c cache) point(e Entry, tmp string) error {
	ref := c.ref(e.Product, e.Version, e.Arch)
	if err := os.MkdirAll(filepath.Dir(ref), 0o755); err != nil {
		return err
	}
	target, err := filepath.Rel(filepath.Dir(ref), e.Dir)
	if err != nil {
		return err
	}
	link := filepath.Join(tmp, "ref")
	if err := os.Symlink(target, link); err != nil {
		return err
	}
	return os.Rename(link, ref)
}

func (e Entry) has(name string) bool {
	return slices.ContainsFunc(e.Files, func(f File) bool { return f.Name == name })
}

// scan lists and hashes the files of dir, sorted by name, and puts them on
// disk: a rename must not outlive the data it names.
func scan(dir string) ([]File, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []File
	for _, d := range list {
		path := filepath.Join(dir, d.Name())
		if d.Type()&os.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			if err != nil {
				return nil, err
			}
			files = append(files, File{Name: d.Name(), Link: target})
			continue
		}
		if err := os.Chmod(path, 0o755); err != nil {
			return nil, err
		}
		if err := system.Sync(path); err != nil {
			return nil, err
		}
		sum, err := HashFile(path)
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		files = append(files, File{Name: d.Name(), Size: info.Size(), SHA256: sum, ModTime: info.ModTime().UTC()})
	}
	return files, nil
}

// HashFile returns the SHA-256 of a file, in hex.
func HashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// List returns the entries of the cache, sorted by product, version and
// architecture, and one error for each that must not be used. Files are
// verified as on every use; full adds their hashes.
func List(cacheDir string, full bool) ([]Entry, []error) {
	c := cache(cacheDir)
	refs, _ := filepath.Glob(c.ref("*", "*", "*"))
	var (
		entries []Entry
		errs    []error
	)
	for _, ref := range refs {
		version, arch := filepath.Dir(ref), filepath.Base(ref)
		product := Product(filepath.Base(filepath.Dir(version)))
		e, err := c.lookup(product, filepath.Base(version), arch, full)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Product, b.Product), semver.Compare(a.Version, b.Version), cmp.Compare(a.Arch, b.Arch))
	})
	return entries, errs
}
