package release

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// published returns a cache with one entry, as archives give them.
func published(t *testing.T) (cache, Entry) {
	t.Helper()
	c := cache(t.TempDir())
	tmp, err := c.workDir("test")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(tmp, "entry")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kubernetes"), []byte("#!/bin/sh\necho hello\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range Kubernetes.Files() {
		if err := os.Symlink("kubernetes", filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	e, err := c.publish(dir, Entry{Product: Kubernetes, Version: "v1.99.3", Arch: "amd64", Source: SourceBuild, Origin: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return c, e
}

func TestLookup(t *testing.T) {
	c, e := published(t)
	got, err := c.lookup(Kubernetes, "v1.99.3", "amd64", true)
	if err != nil {
		t.Fatal(err)
	}
	if got.Dir != e.Dir || got.Origin != "test" || len(got.Files) != 5 {
		t.Errorf("entry = %+v", got)
	}
	for _, other := range []struct {
		p          Product
		version, a string
	}{{Kubernetes, "v1.99.4", "amd64"}, {Kubernetes, "v1.99.3", "arm64"}, {Etcd, "v1.99.3", "amd64"}} {
		if _, err := c.lookup(other.p, other.version, other.a, false); !errors.Is(err, ErrNotCached) {
			t.Errorf("lookup of %v: %v", other, err)
		}
	}
}

func TestCorruptEntriesAreNoticed(t *testing.T) {
	later := time.Now().Add(time.Hour)
	for _, test := range []struct {
		name   string
		damage func(t *testing.T, dir string) error
		full   bool
		want   string
	}{
		{"file gone", func(_ *testing.T, dir string) error { return os.Remove(filepath.Join(dir, "kubernetes")) }, false, "no such file"},
		{"truncated", func(_ *testing.T, dir string) error { return os.Truncate(filepath.Join(dir, "kubernetes"), 3) }, false, "has 3 bytes instead of 21"},
		{"other contents", func(_ *testing.T, dir string) error {
			return os.WriteFile(filepath.Join(dir, "kubernetes"), []byte("#!/bin/sh\necho hallo\n"), 0o755)
		}, false, "has SHA-256"},
		{"other contents, times forged", func(t *testing.T, dir string) error {
			file := filepath.Join(dir, "kubernetes")
			info, err := os.Stat(file)
			if err != nil {
				return err
			}
			return errors.Join(os.WriteFile(file, []byte("#!/bin/sh\necho hallo\n"), 0o755),
				os.Chtimes(file, later, info.ModTime()))
		}, true, "has SHA-256"},
		{"not executable", func(_ *testing.T, dir string) error { return os.Chmod(filepath.Join(dir, "kubernetes"), 0o644) }, false, "not executable"},
		{"link gone", func(_ *testing.T, dir string) error { return os.Remove(filepath.Join(dir, "kubectl")) }, false, "kubectl"},
		{"link elsewhere", func(_ *testing.T, dir string) error {
			link := filepath.Join(dir, "kubectl")
			return errors.Join(os.Remove(link), os.Symlink("/bin/true", link))
		}, false, "links to /bin/true"},
		{"file is a link", func(_ *testing.T, dir string) error {
			file := filepath.Join(dir, "kubernetes")
			return errors.Join(os.Remove(file), os.Symlink("/bin/true", file))
		}, false, "not a regular file"},
		{"no manifest", func(_ *testing.T, dir string) error { return os.Remove(filepath.Join(dir, manifestName)) }, false, "no such file"},
		{"manifest cut short", func(_ *testing.T, dir string) error { return os.Truncate(filepath.Join(dir, manifestName), 30) }, false, "unexpected end"},
		{"manifest of something else", func(_ *testing.T, dir string) error {
			file := filepath.Join(dir, manifestName)
			data, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			return os.WriteFile(file, []byte(strings.Replace(string(data), "v1.99.3", "v1.99.4", 1)), 0o644)
		}, false, "not the digest"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, e := published(t)
			if err := test.damage(t, e.Dir); err != nil {
				t.Fatal(err)
			}
			_, err := c.lookup(Kubernetes, "v1.99.3", "amd64", test.full)
			if !errors.As(err, new(*CorruptError)) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want %q in it", err, test.want)
			}
			if entries, errs := List(string(c), test.full); len(entries) != 0 || len(errs) != 1 {
				t.Errorf("List = %v, %v", entries, errs)
			}
		})
	}
}

// A copy of the cache has other times; it is hashed once and is then as good
// as the original.
func TestOtherTimesSameContents(t *testing.T) {
	c, e := published(t)
	file := filepath.Join(e.Dir, "kubernetes")
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(file, later, later); err != nil {
		t.Fatal(err)
	}
	if _, err := c.lookup(Kubernetes, "v1.99.3", "amd64", false); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if info.ModTime().After(time.Now()) {
		t.Error("the time of the manifest was not put back")
	}
}

func TestCorruptEntryIsFetchedAgain(t *testing.T) {
	m := newMirror(t, makeArchive(t, Kubernetes.Files()...))
	var ev events
	o := Options{CacheDir: t.TempDir(), Mirror: m.URL, Source: SourceArchive, Progress: ev.add}
	e, err := Fetch(t.Context(), Kubernetes, "v1.99.3", o)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(e.Dir, "kubectl"), 5); err != nil {
		t.Fatal(err)
	}
	again, err := Fetch(t.Context(), Kubernetes, "v1.99.3", o)
	if err != nil {
		t.Fatal(err)
	}
	if !ev.contains("is corrupt") {
		t.Errorf("said %q", ev.text)
	}
	if again.Dir != e.Dir {
		t.Errorf("the same contents are in %s and were in %s", again.Dir, e.Dir)
	}
	if _, err := Lookup(Kubernetes, "v1.99.3", Options{CacheDir: o.CacheDir, Verify: true}); err != nil {
		t.Error(err)
	}
}

// What a fetch left that was killed is gone after the next one.
func TestLeftoversAreSwept(t *testing.T) {
	m := newMirror(t, makeArchive(t, Kubernetes.Files()...))
	o := Options{CacheDir: t.TempDir(), Mirror: m.URL, Source: SourceArchive}
	f, err := newFetch(Kubernetes, "v1.99.3", o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.cache.workDir(f.key()); err != nil {
		t.Fatal(err)
	}
	if _, err := Fetch(t.Context(), Kubernetes, "v1.99.3", o); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(filepath.Join(o.CacheDir, "tmp")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
