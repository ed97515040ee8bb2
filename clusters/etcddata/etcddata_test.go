package etcddata

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// put creates files below a directory.
func put(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// files lists the files below a directory.
func files(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		all = append(all, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestReplace replaces data within a file system. Data for which no others can come stay.
func TestReplace(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		has, from []string
		without   bool // no directory to move from
		want      []string
		fails     bool
	}{
		{name: "by others", has: []string{"member/snap/db", "member/wal/0.wal", "stray"}, from: []string{"member/snap/db"}, want: []string{"member/snap/db", "stray"}},
		{name: "by none", has: []string{"member/snap/db", "member.old/snap/db", "stray"}, without: true, want: []string{"member.old/snap/db", "stray"}},
		{name: "by others, with another fault", has: []string{".holdfast-fill", "member/wal/0.wal"}, from: []string{"member/snap/db"}, want: []string{".holdfast-fill", "member/snap/db"}},
		{name: "by none, with another fault", has: []string{".holdfast-fill", "member/snap/db"}, without: true, want: []string{".holdfast-fill"}},
		{name: "nothing by others", from: []string{"member/snap/db"}, want: []string{"member/snap/db"}},
		{name: "by what is not there", has: []string{"member/wal/0.wal", "stray"}, from: []string{"another/snap/db"}, want: []string{"member/wal/0.wal", "stray"}, fails: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			data, from := t.TempDir(), filepath.Join(t.TempDir(), "restored")
			put(t, data, tc.has...)
			put(t, from, tc.from...)
			moved := from
			if tc.without {
				moved = ""
			}
			if err := Replace(data, moved); (err != nil) != tc.fails {
				t.Errorf("replaced: %v", err)
			}
			if got := files(t, data); !slices.Equal(got, tc.want) {
				t.Errorf("the data are %q, want %q", got, tc.want)
			}
			if _, err := os.Stat(from); !tc.fails && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("what was to be moved is left: %v", err)
			}
		})
	}
}

// Data are exchanged in one step, so that a process that is killed does not leave a member without.
func TestSwap(t *testing.T) {
	data, from := t.TempDir(), t.TempDir()
	put(t, data, "member/old")
	put(t, from, "member/new")
	if err := swap(data, from); err != nil {
		t.Fatal(err)
	}
	if now, before := files(t, data), files(t, from); !slices.Equal(now, []string{"member/new"}) || !slices.Equal(before, []string{"member/old"}) {
		t.Errorf("the data are %q, the others %q", now, before)
	}
}
