package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// Source is where binaries come from.
type Source string

const (
	SourceAuto    Source = ""        // archive, else build
	SourceArchive Source = "release" // the project's release archives or a mirror
	SourceBuild   Source = "build"   // the Go module proxy and the local toolchain
)

// OfficialMirror is the project's own location of release archives.
const OfficialMirror = "https://dl.k8s.io"

// MirrorVariable is the environment variable that sets the mirror if Options does not.
const MirrorVariable = "HOLDFAST_MIRROR"

// Options configure a fetch. The zero value is useful.
type Options struct {
	// CacheDir is the cache, DefaultCacheDir if empty.
	CacheDir string
	// Mirror is the base URL of the release archives:
	// MIRROR/VERSION/kubernetes-server-linux-ARCH.tar.gz, and kubernetes-node for
	// KubernetesNode, with .sha512 beside each. Empty means $HOLDFAST_MIRROR, or OfficialMirror
	// if that is unset.
	Mirror string
	// Source restricts the sources of binaries.
	Source Source
	// Arch is the architecture, that of this program if empty.
	Arch string
	// Refresh fetches again what the cache has.
	Refresh bool
	// Verify compares the SHA-256 of every file of a cached entry, not only
	// size and modification time.
	Verify bool
	// Progress is called with each step, never concurrently.
	Progress Progress
}

// Event is one step, for people.
type Event struct {
	// Product and Version are what is fetched, empty in another step.
	Product Product
	Version string
	Text    string
	// Lasting distinguishes a step from a changing status such as a percentage.
	Lasting bool
}

// String returns the text, after what is fetched.
func (e Event) String() string {
	if e.Product == "" {
		return e.Text
	}
	return fmt.Sprintf("%s %s: %s", e.Product, e.Version, e.Text)
}

// Progress receives events; nil discards them.
type Progress func(Event)

// Say reports a step.
func (p Progress) Say(format string, args ...any) {
	if p != nil {
		p(Event{Text: fmt.Sprintf(format, args...), Lasting: true})
	}
}

// Status reports a changing status.
func (p Progress) Status(format string, args ...any) {
	if p != nil {
		p(Event{Text: fmt.Sprintf(format, args...)})
	}
}

// DefaultCacheDir returns $XDG_CACHE_HOME/holdfast, or ~/.cache/holdfast if that variable is
// unset.
func DefaultCacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("failed to find the user's cache directory: %w; set HOME or XDG_CACHE_HOME", err)
	}
	return filepath.Join(dir, "holdfast"), nil
}

// Fetch returns the cache entry of p at version, whose Dir has the executables (Product.Files
// returns their names), and fetches them if the cache has no good ones. If another process fetches
// the same, it waits for that one. Versions that are malformed or do not exist are a *VersionError.
func Fetch(ctx context.Context, p Product, version string, o Options) (Entry, error) {
	f, err := newFetch(p, version, o)
	if err != nil {
		return Entry{}, err
	}
	if e, ok := f.cached(true); ok {
		return e, nil
	}
	unlock, err := f.lock(ctx)
	if err != nil {
		return Entry{}, fmt.Errorf("failed to fetch %s %s: %w", f.product, f.version, err)
	}
	defer unlock()
	// Another process may have fetched it while this one waited.
	if e, ok := f.cached(false); ok {
		return e, nil
	}
	f.cache.sweep(f.key())
	e, err := f.fetch(ctx)
	if err != nil && !errors.As(err, new(*VersionError)) {
		err = fmt.Errorf("failed to fetch %s %s: %w", f.product, f.version, err)
	}
	return e, err
}

// Lookup returns the entry of p at version from the cache and never fetches. It returns
// ErrNotCached if none exists, a *CorruptError if one exists that must not be used.
func Lookup(p Product, version string, o Options) (Entry, error) {
	f, err := newFetch(p, version, o)
	if err != nil {
		return Entry{}, err
	}
	return f.cache.lookup(f.product, f.version, f.arch, f.Verify)
}

// fetch is one call of Fetch.
type fetch struct {
	Options
	product Product
	version string
	arch    string
	cache   cache
	started time.Time
}

func newFetch(p Product, version string, o Options) (*fetch, error) {
	v, err := ParseVersion(p, version)
	if err != nil {
		return nil, err
	}
	o.Mirror = cmp.Or(o.Mirror, os.Getenv(MirrorVariable), OfficialMirror)
	o.Mirror = strings.TrimRight(o.Mirror, "/")
	if o.CacheDir == "" {
		if o.CacheDir, err = DefaultCacheDir(); err != nil {
			return nil, err
		}
	}
	// Entries are executed from other working directories.
	dir, err := filepath.Abs(o.CacheDir)
	if err != nil {
		return nil, fmt.Errorf("failed to find the cache directory %s: %w", o.CacheDir, err)
	}
	if show := o.Progress; show != nil {
		o.Progress = func(e Event) {
			e.Product, e.Version = p, v
			show(e)
		}
	}
	return &fetch{Options: o, product: p, version: v, arch: cmp.Or(o.Arch, runtime.GOARCH),
		cache: cache(dir), started: time.Now()}, nil
}

func (f *fetch) key() string { return fmt.Sprintf("%s-%s-%s", f.product, f.version, f.arch) }

// cached returns the entry of the cache if it is good and should be used.
func (f *fetch) cached(first bool) (Entry, bool) {
	if f.Refresh {
		return Entry{}, false
	}
	e, err := f.cache.lookup(f.product, f.version, f.arch, f.Verify)
	if err != nil && !errors.Is(err, ErrNotCached) && first {
		f.Progress.Say("%v: fetching it again", err)
	}
	return e, err == nil
}

// lock waits until no other process fetches the same.
func (f *fetch) lock(ctx context.Context) (unlock func(), err error) {
	return Lock(ctx, filepath.Join(string(f.cache), "locks", f.key()+".lock"), func() {
		f.Progress.Say("another process is fetching it; waiting for that one")
	})
}

// Lock locks a file of the cache, and makes its directory. It calls waiting if another process holds the lock.
func Lock(ctx context.Context, file string, waiting func()) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, fmt.Errorf("failed to make the cache: %w; name another one with XDG_CACHE_HOME", err)
	}
	l := flock.New(file)
	ok, err := l.TryLock()
	if err == nil && !ok {
		waiting()
		_, err = l.TryLockContext(ctx, 200*time.Millisecond)
	}
	if err != nil {
		return nil, fmt.Errorf("failed to lock %s: %w", l.Path(), err)
	}
	return func() { _ = l.Unlock() }, nil
}

// fetch tries the sources in order and publishes the result of the first that succeeds.
func (f *fetch) fetch(ctx context.Context) (Entry, error) {
	type source struct {
		name Source
		get  func(ctx context.Context, dir string) (Entry, error)
	}
	var sources []source
	if _, _, ok := f.product.archive(); ok && f.Source != SourceBuild {
		sources = append(sources, source{SourceArchive, f.archive})
	}
	if f.Source != SourceArchive {
		sources = append(sources, source{SourceBuild, f.build})
	}
	if len(sources) == 0 {
		return Entry{}, &VersionError{Product: f.product, Version: f.version, Problem: "has no release archives: use --source build"}
	}
	var tried []error
	for i, s := range sources {
		e, err := f.from(ctx, s.name, s.get)
		if err == nil {
			f.Progress.Say("ready after %s (%s, from %s)", time.Since(f.started).Round(time.Second), Size(e.Size()), e.Source)
			return e, nil
		}
		if ctx.Err() != nil || errors.Is(err, errChecksum) {
			return Entry{}, err
		}
		tried = append(tried, err)
		if i+1 < len(sources) {
			f.Progress.Say("%v: trying to %s it instead", err, sources[i+1].name)
		}
	}
	// The last source's error counts; that source knows what exists.
	return Entry{}, tried[len(tried)-1]
}

// from fetches a product from one source into a directory that is removed afterwards unless it
// became the entry.
func (f *fetch) from(ctx context.Context, name Source, get func(context.Context, string) (Entry, error)) (Entry, error) {
	tmp, err := f.cache.workDir(f.key())
	if err != nil {
		return Entry{}, err
	}
	defer os.RemoveAll(tmp)
	out := filepath.Join(tmp, "entry")
	if err := os.Mkdir(out, 0o755); err != nil {
		return Entry{}, err
	}
	e, err := get(ctx, out)
	if err != nil {
		return Entry{}, err
	}
	e.Product, e.Version, e.Arch, e.Source = f.product, f.version, f.arch, name
	f.Progress.Status("hashing")
	return f.cache.publish(out, e)
}

// Size writes a number of bytes for people.
func Size[N int64 | uint64](n N) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20))
	default:
		return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
	}
}
