package release

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// module is the go command's description of a module.
type module struct {
	Version  string
	Error    string
	Info     string // file
	Dir      string
	Sum      string
	Time     time.Time
	Versions []string
	Origin   struct{ Hash string }
}

// build builds a product from the Go module proxy.
func (f *fetch) build(ctx context.Context, dir string) (Entry, error) {
	r := recipeOf(f.product)
	work := filepath.Join(filepath.Dir(dir), "src")
	if err := os.Mkdir(work, 0o755); err != nil {
		return Entry{}, err
	}
	tool, err := newToolchain(ctx, work, f.arch)
	if err != nil {
		return Entry{}, err
	}
	name := cmp.Or(r.module, "holdfast's own "+r.output)
	f.Progress.Say("building %s %s for linux/%s with %s", name, f.version, f.arch, tool.version)
	m, err := f.module(ctx, tool, r)
	if err != nil {
		return Entry{}, err
	}
	if err := r.write(work, f.version, m.Dir); err != nil {
		return Entry{}, err
	}
	if err := f.compile(ctx, tool, r, m, dir); err != nil {
		return Entry{}, fmt.Errorf("failed to build %s %s with %s: %w", name, f.version, tool.version, err)
	}
	for _, link := range r.links {
		if err := os.Symlink(r.output, filepath.Join(dir, link)); err != nil {
			return Entry{}, err
		}
	}
	return Entry{Origin: strings.TrimSpace(fmt.Sprintf("%s@%s %s", name, f.version, m.Sum)), Go: tool.version}, nil
}

// module downloads the source of the module to build, or returns why not.
func (f *fetch) module(ctx context.Context, tool *toolchain, r recipe) (module, error) {
	if r.module == "" {
		if f.version != f.product.Default() {
			return module{}, &VersionError{Product: f.product, Version: f.version, Near: []string{f.product.Default()},
				Problem: "does not exist: it is a program of holdfast's own, with one version"}
		}
		return module{}, nil
	}
	f.Progress.Status("downloading the source of %s", r.module)
	m, err := tool.download(ctx, r.module, f.version)
	switch {
	case strings.Contains(m.Error, tooOld):
		return module{}, fmt.Errorf("%s\n\t%s", m.Error, tooOldAdvice)
	case m.Error != "" && ctx.Err() == nil:
		return module{}, f.unavailable(ctx, tool, r, m.Error)
	case err != nil:
		return module{}, err
	}
	if info, err := os.ReadFile(m.Info); err == nil {
		_ = json.Unmarshal(info, &m) // adds Time and Origin
	}
	return m, nil
}

// download downloads the source of a module into Go's module cache. If the module source
// answers with an error, it is in Error of the module, and is returned too.
func (t *toolchain) download(ctx context.Context, path, version string) (module, error) {
	if err := os.WriteFile(filepath.Join(t.dir, "go.mod"), []byte("module holdfast.local/fetch\n"), 0o644); err != nil {
		return module{}, err
	}
	out, err := t.run(ctx, nil, "mod", "download", "-json", path+"@"+version)
	var m module
	if jsonErr := json.Unmarshal(out, &m); jsonErr != nil && err == nil {
		err = fmt.Errorf("go mod download: %w", jsonErr)
	}
	return m, err
}

// Module returns the directory with the source of a module in Go's module cache, and downloads
// it if needed.
func Module(ctx context.Context, path, version string) (dir string, err error) {
	work, err := os.MkdirTemp("", "holdfast-module-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	tool, err := newToolchain(ctx, work, runtime.GOARCH)
	if err != nil {
		return "", fmt.Errorf("failed to download the source of %s %s: %w", path, version, err)
	}
	m, err := tool.download(ctx, path, version)
	if m.Error != "" && ctx.Err() == nil {
		err = errors.New(strings.Join(strings.Fields(m.Error), " "))
	}
	if err != nil {
		return "", fmt.Errorf("failed to download the source of %s %s: %w; is the Go module proxy (go env GOPROXY) reachable?", path, version, err)
	}
	return m.Dir, nil
}

// unavailable distinguishes a version that does not exist from a proxy that cannot be reached:
// the list of versions comes from the same proxy.
func (f *fetch) unavailable(ctx context.Context, tool *toolchain, r recipe, answer string) error {
	cause := errors.New(strings.Join(strings.Fields(answer), " "))
	out, err := tool.run(ctx, nil, "list", "-m", "-versions", "-json", r.module)
	var list module
	if err != nil || json.Unmarshal(out, &list) != nil {
		return fmt.Errorf("failed to download the source of %s %s: %w; is the Go module proxy (go env GOPROXY) reachable?", r.module, f.version, cause)
	}
	// A list may miss versions that are known to exist for other reasons.
	known := append(list.Versions, f.product.Default())
	known = append(known, f.cache.versions(f.product)...)
	return &VersionError{Product: f.product, Version: f.version, Near: near(known, f.version, 6),
		Problem: "does not exist, or the Go module proxy does not have it", Err: cause}
}

// compile builds the programs of the wrapper module into dir.
func (f *fetch) compile(ctx context.Context, tool *toolchain, r recipe, m module, dir string) error {
	flags := []string{"-trimpath", "-tags", strings.Join(r.tags, ",")}
	downloads := 0
	out, err := tool.run(ctx, func(line string) {
		if name, ok := strings.CutPrefix(line, "go: downloading "); ok {
			downloads++
			f.Progress.Status("downloading modules: %d, %s", downloads, name)
		}
	}, slices.Concat([]string{"list", "-deps", "-f", "{{if .Stale}}stale{{else}}ready{{end}}"}, flags, r.packages())...)
	if err != nil {
		return err
	}
	stale := bytes.Count(out, []byte("stale"))
	f.Progress.Say("compiling %d packages, %d are in Go's build cache", stale, bytes.Count(out, []byte("ready")))

	start, done, tick := time.Now(), 0, make(chan struct{})
	var last string
	lines := make(chan string)
	go func() {
		// One goroutine reports, so that the seconds continue while the linker, which prints
		// nothing, runs.
		defer close(tick)
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			elapsed := time.Since(start).Truncate(time.Second)
			// The programs themselves always count as stale: the build cache does not store
			// them.
			if done >= stale-len(r.packages()) {
				f.Progress.Status("linking, %s", elapsed)
			} else {
				f.Progress.Status("compiled %d of %d packages, %s, %s", done, stale, elapsed, last)
			}
			select {
			case line, ok := <-lines:
				if !ok {
					return
				}
				done, last = done+1, line
			case <-ticker.C:
			}
		}
	}()
	_, err = tool.run(ctx, func(line string) {
		if !strings.ContainsAny(line, " :") {
			lines <- line
		}
	}, slices.Concat([]string{"build", "-v", "-ldflags", r.ldflags(f.version, m), "-o", dir + string(filepath.Separator)}, flags, r.packages())...)
	close(lines)
	<-tick
	return err
}

// versions lists the versions of p in the cache.
func (c cache) versions(p Product) []string {
	refs, _ := filepath.Glob(c.ref(p, "*", ""))
	for i, ref := range refs {
		refs[i] = filepath.Base(ref)
	}
	return slices.DeleteFunc(refs, func(v string) bool { return !strings.HasPrefix(v, "v") })
}
