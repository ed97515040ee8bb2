package etcddata

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// pack returns an archive of a data directory: a log with a hole, as etcd allocates it, an empty
// file and an empty directory.
func pack(t *testing.T, log []byte) []byte {
	t.Helper()
	dir := t.TempDir()
	put(t, dir, "member/snap/db", "member/wal/0.wal")
	if err := os.Mkdir(filepath.Join(dir, "member", "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "member", "wal", "0.wal"), log, 0o600); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := Pack(&archive, dir); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

func TestArchive(t *testing.T) {
	log := slices.Concat([]byte("begins"), make([]byte, 3<<20), []byte("in the middle"), make([]byte, 60<<20))
	archive := pack(t, log)
	if len(archive) > 1<<20 {
		t.Errorf("%d zeros take %d bytes", len(log), len(archive))
	}
	dir := filepath.Join(t.TempDir(), "data")
	if err := Unpack(bytes.NewReader(archive), dir); err != nil {
		t.Fatal(err)
	}
	if got := files(t, dir); !slices.Equal(got, []string{"member/snap/db", "member/wal/0.wal"}) {
		t.Errorf("the files are %q", got)
	}
	if info, err := os.Stat(filepath.Join(dir, "member", "empty")); err != nil || !info.IsDir() {
		t.Errorf("an empty directory: %v", err)
	}
	path := filepath.Join(dir, "member", "wal", "0.wal")
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, log) {
		t.Errorf("the log of %d bytes has %d, or others: %v", len(log), len(got), err)
	}
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil || stat.Blocks*512 > 1<<20 || stat.Mode&0o777 != 0o600 {
		t.Errorf("the log takes %d bytes, with mode %o: %v", stat.Blocks*512, stat.Mode, err)
	}
	if err := Unpack(bytes.NewReader(archive), dir); err == nil {
		t.Error("it replaces what is there")
	}
}

// TestUnpackRefuses: an archive that was cut off, was damaged, or leaves its directory.
func TestUnpackRefuses(t *testing.T) {
	t.Parallel()
	whole := pack(t, []byte("log"))
	entries := func(all ...tar.Header) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		w := tar.NewWriter(z)
		for _, h := range all {
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	damaged := slices.Clone(whole)
	damaged[len(damaged)-6] ^= 1 // of the checksum
	for name, archive := range map[string][]byte{
		"nothing":             nil,
		"half":                whole[:len(whole)/2],
		"without its end":     whole[:len(whole)-1],
		"damaged":             damaged,
		"outside":             entries(tar.Header{Name: "../outside", Typeflag: tar.TypeReg, Mode: 0o600}),
		"at the root":         entries(tar.Header{Name: "/outside", Typeflag: tar.TypeReg, Mode: 0o600}),
		"through a link":      entries(tar.Header{Name: "member", Linkname: "..", Typeflag: tar.TypeSymlink}),
		"the same file twice": entries(tar.Header{Name: "a", Typeflag: tar.TypeReg}, tar.Header{Name: "a", Typeflag: tar.TypeReg}),
	} {
		parent := t.TempDir()
		if err := Unpack(bytes.NewReader(archive), filepath.Join(parent, "data")); err == nil {
			t.Errorf("%s: unpacked", name)
		}
		if got := files(t, parent); slices.ContainsFunc(got, func(f string) bool { return !strings.HasPrefix(f, "data/") }) {
			t.Errorf("%s: it wrote %q", name, got)
		}
	}
}
