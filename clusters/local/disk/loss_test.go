package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/framework"
)

// step is one thing done to a disk, in words: "write FILE OFFSET TEXT", "append
// FILE TEXT", "truncate FILE SIZE", "allocate FILE SIZE", "mkdir DIR",
// "rename OLD NEW", "remove NAME", "sync NAME".
func step(t *testing.T, root, words string) {
	t.Helper()
	f := strings.Fields(words)
	path := func(i int) string { return filepath.Join(root, f[i]) }
	var a, b int64
	err := func() error {
		switch f[0] {
		case "mkdir":
			return os.Mkdir(path(1), 0o755)
		case "rename":
			return unix.Rename(path(1), path(2))
		case "remove":
			return os.Remove(path(1))
		}
		flags := os.O_RDWR | os.O_CREATE
		if st, err := os.Stat(path(1)); err == nil && st.IsDir() {
			flags = os.O_RDONLY
		}
		file, err := os.OpenFile(path(1), flags, 0o600)
		if err != nil {
			return err
		}
		defer file.Close()
		switch f[0] {
		case "write":
			fmt.Sscan(f[2], &a)
			_, err = file.WriteAt([]byte(f[3]), a)
		case "append":
			st, _ := file.Stat()
			_, err = file.WriteAt([]byte(f[2]), st.Size())
		case "truncate":
			fmt.Sscan(f[2], &a)
			err = file.Truncate(a)
		case "allocate":
			fmt.Sscan(f[2], &a)
			err = unix.Fallocate(int(file.Fd()), 0, 0, a)
		case "punch":
			fmt.Sscan(f[2], &a)
			fmt.Sscan(f[3], &b)
			err = unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, a, b)
		case "sync":
			err = file.Sync()
		default:
			err = errors.New("no such step")
		}
		return err
	}()
	if err != nil {
		t.Fatalf("%s: %v", words, err)
	}
}

// contents returns every file and directory below root, "name=content" or "name/".
func contents(t *testing.T, root string) string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name, _ := filepath.Rel(root, path)
		if e.IsDir() {
			all = append(all, name+"/")
			return nil
		}
		b, err := os.ReadFile(path)
		all = append(all, name+"="+string(bytes.ReplaceAll(b, []byte{0}, []byte("."))))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, " ")
}

func drop(t *testing.T, p *Process) framework.DiskLoss {
	t.Helper()
	if err := p.Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	loss, err := p.Drop(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return loss
}

func TestDrop(t *testing.T) {
	for _, c := range []struct{ name, steps, want string }{
		{"a file that was never synced", "write a 0 x", ""},
		{"a synced file", "write a 0 x; sync a", "a=x"},
		{"a sync of the directory alone keeps the name", "write a 0 xyz; sync .", "a="},
		{"overwritten after the sync", "write a 0 abcdef; sync a; write a 2 XY; write a 1 Z", "a=abcdef"},
		{"overwritten twice", "write a 0 abcdef; sync a; write a 4 1; write a 0 2; write a 0 333333", "a=abcdef"},
		{"appended after the sync", "write a 0 abc; sync a; append a def", "a=abc"},
		{"synced again", "write a 0 abc; sync a; write a 1 X; sync a; write a 0 Y", "a=aXc"},
		{"cut off", "write a 0 abcdef; sync a; truncate a 2", "a=abcdef"},
		{"cut off and grown", "write a 0 abcdef; sync a; truncate a 2; append a XXXXXXXX", "a=abcdef"},
		{"cut off twice", "write a 0 abcdef; sync a; truncate a 4; append a 12; truncate a 1; append a 3456789", "a=abcdef"},
		{"allocated", "write a 0 abc; sync a; allocate a 10", "a=abc"},
		{"allocated and synced", "write a 0 abc; allocate a 6; sync a; write a 4 x", "a=abc..."},
		{"punched", "write a 0 abcdef; sync a; punch a 1 3", "a=abcdef"},
		{"removed", "write a 0 abc; sync a; remove a", "a=abc"},
		{"removed, the directory synced", "write a 0 abc; sync a; remove a; sync .", ""},
		{"made anew", "write a 0 abc; sync a; remove a; write a 0 X", "a=abc"},
		{"made anew and synced", "write a 0 abc; sync a; remove a; write a 0 X; sync a", "a=X"},
		{"renamed", "write a 0 abc; sync a; rename a b", "a=abc"},
		{"renamed, the directory synced", "write a 0 abc; sync a; rename a b; sync .", "b=abc"},
		{"renamed, the file synced", "write a 0 abc; sync a; rename a b; sync b", "b=abc"},
		{"renamed over another", "write a 0 abc; sync a; write b 0 def; sync b; rename a b", "a=abc b=def"},
		{"renamed over another, synced", "write a 0 abc; sync a; write b 0 def; sync b; rename a b; sync .", "b=abc"},
		{"renamed to and fro", "write a 0 1; sync a; write b 0 2; sync b; rename a c; rename b a; rename c b", "a=1 b=2"},
		{"a directory", "mkdir d; write d/a 0 x", ""},
		{"a directory, its file synced", "mkdir d; write d/a 0 x; write d/b 0 y; sync d/a", "d/ d/a=x"},
		{"two directories do not depend on each other", "mkdir c; mkdir d; sync .; write c/a 0 x; write d/b 0 y; sync d/b", "c/ d/ d/b=y"},
		{"a renamed directory", "mkdir d; write d/a 0 x; sync d/a; rename d e; write e/b 0 y", "d/ d/a=x"},
		{"an upper directory renamed and synced", "mkdir d; mkdir d/e; sync d; write d/e/a 0 x; sync .; rename d f; sync .", "f/ f/e/"},
		{"a directory renamed over an empty one", "mkdir d; write d/a 0 x; sync d/a; mkdir e; sync .; rename d e", "d/ d/a=x e/"},
		{"a removed directory", "mkdir d; sync .; remove d", "d/"},
		{"a directory emptied and removed", "mkdir d; write d/a 0 x; sync d/a; remove d/a; remove d", "d/ d/a=x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := startDisk(t, t.TempDir())
			for words := range strings.SplitSeq(c.steps, ";") {
				step(t, p.Mount(), words)
			}
			loss := drop(t, p)
			if got := contents(t, p.Mount()); got != c.want {
				t.Errorf("left is %q, want %q (%+v)", got, c.want, loss)
			}
			// What is left is durable, and the disk is as good as any.
			if again := drop(t, p); again != (framework.DiskLoss{}) {
				t.Errorf("lost again: %+v", again)
			}
			step(t, p.Mount(), "write z 0 z")
			step(t, p.Mount(), "sync z")
		})
	}
}

// TestDropFlipped: healing also inverts bytes again that a loss of power brought back inverted, and no
// others.
func TestDropFlipped(t *testing.T) {
	for _, c := range []struct{ name, before, after, want string }{
		{"overwritten after the flip", "write a 0 abcdef; sync a", "write a 2 XY", "a=abcdef"},
		{"in part", "write a 0 abcdef; sync a", "write a 0 XYZ", "a=abcdef"},
		{"overwritten and synced, and again", "write a 0 abcdef; sync a", "write a 2 XY; sync a; write a 2 ZZ", "a=abXYef"},
		{"overwritten before the flip", "write a 0 abcdef; sync a; write a 2 XY", "write a 0 Z", "a=abcdef"},
		{"synced after the flip", "write a 0 abcdef; sync a; write a 2 XY", "sync a; write a 2 Z", "a=abXYef"},
		{"appended before the flip", "write a 0 ab; sync a; append a cdef", "write a 0 Z", "a=ab"},
		{"cut off after the flip", "write a 0 abcdef; sync a", "truncate a 0", "a=abcdef"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := startDisk(t, t.TempDir())
			steps := func(all string) {
				for words := range strings.SplitSeq(all, ";") {
					step(t, p.Mount(), words)
				}
			}
			steps(c.before)
			flip, err := p.Flip(t.Context(), framework.DiskFlip{File: "a", Offset: 2, Bytes: 2}, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			steps(c.after)
			drop(t, p)
			restore(t, p, flip.Handle)
			if got := contents(t, p.Mount()); got != c.want {
				t.Errorf("left is %q, want %q", got, c.want)
			}
		})
	}
}

// TestDropRandom writes at random to a file and compares what a loss of power
// leaves with what was there at the last sync.
func TestDropRandom(t *testing.T) {
	p := startDisk(t, t.TempDir())
	path := filepath.Join(p.Mount(), "a")
	random := rand.New(rand.NewPCG(1, 2))
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { f.Close() }()
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	var durable []byte
	for round := range 60 {
		for range random.IntN(12) {
			size, off := random.IntN(300_000), random.Int64N(1_000_000)
			b := make([]byte, size)
			if random.IntN(3) > 0 {
				for i := range b {
					b[i] = byte(random.Uint32())
				}
			}
			switch random.IntN(8) {
			case 0:
				err = f.Truncate(off)
			case 1:
				err = unix.Fallocate(int(f.Fd()), 0, off, int64(size)+1)
			case 2:
				err = f.Sync()
				durable, _ = os.ReadFile(path)
			default:
				_, err = f.WriteAt(b, off)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		f.Close()
		drop(t, p)
		if f, err = os.OpenFile(path, os.O_RDWR, 0); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, durable) {
			t.Fatalf("round %d: %d bytes are left that are not the %d of the last sync: %v", round, len(got), len(durable), err)
		}
	}
}
