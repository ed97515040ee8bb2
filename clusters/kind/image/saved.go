package image

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// saved is the file with a copy of a built node image. Copies of the same version of Kubernetes
// share the part before the last dash.
func (b *builder) saved(name string) string {
	_, tag, _ := strings.Cut(name, ":")
	return filepath.Join(b.dir, "node-"+tag+".tar.zst")
}

// restore loads the copy of an image into the engine, if there is a good one.
func (b *builder) restore(ctx context.Context, name string) bool {
	file := b.saved(name)
	if _, err := os.Stat(file); err != nil {
		return false
	}
	b.Progress.Status("loading %s from the cache", name)
	err := b.engine.load(ctx, func(w io.Writer) error { return decompress(w, file) })
	if err == nil {
		var has bool
		if has, err = b.engine.has(ctx, name); err == nil && !has {
			err = fmt.Errorf("the engine does not list it after loading")
		}
	}
	if err != nil {
		if ctx.Err() == nil {
			b.Progress.Say("%s cannot be loaded from %s (%s): building it again", name, file, reason(err))
			_ = os.Remove(file)
		}
		return false
	}
	b.Progress.Say("loaded %s from the cache", name)
	return true
}

func decompress(w io.Writer, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		return err
	}
	defer z.Close()
	_, err = io.Copy(w, z)
	return err
}

// keep puts a copy of an image into the cache, and replaces the one of the same version of
// Kubernetes. A new engine then has the image in seconds; if keep fails, the existing image is
// not affected.
func (b *builder) keep(ctx context.Context, name string) {
	b.Progress.Status("keeping a copy of %s in the cache", name)
	file := b.saved(name)
	if err := b.save(ctx, name, file); err != nil {
		b.Progress.Say("no copy of %s is kept in the cache: %s", name, reason(err))
		return
	}
	family := file[:strings.LastIndexByte(file, '-')+1]
	old, _ := filepath.Glob(family + "*.tar.zst")
	for _, other := range old {
		// v1.38.0-rc.1 has the prefix v1.38.0.
		if other != file && !strings.Contains(strings.TrimPrefix(other, family), "-") {
			_ = os.Remove(other)
		}
	}
}

func (b *builder) save(ctx context.Context, name, file string) error {
	work, remove, err := b.workDir()
	if err != nil {
		return err
	}
	defer remove()
	made := filepath.Join(work, "image")
	f, err := os.Create(made)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := zstd.NewWriter(f, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return err
	}
	c := b.engine.command("save", name)
	c.Stdout = z
	if _, err := b.engine.do(ctx, c); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return os.Rename(made, file)
}
