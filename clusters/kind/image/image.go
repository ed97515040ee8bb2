package image

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/release"
)

// Source is the origin of an image.
type Source string

const (
	// SourceAuto uses a published image if there is one, and builds one if no registry answers.
	SourceAuto Source = "auto"
	// sourcePublished uses only published images.
	sourcePublished Source = "published"
	// sourceBuild builds.
	sourceBuild Source = "build"
)

// Sources lists all sources.
func Sources() []Source { return []Source{SourceAuto, sourcePublished, sourceBuild} }

// Config describes the required images, and the engine. The zero value is useful.
type Config struct {
	// DockerHost is the address of the Docker engine, as in DOCKER_HOST; empty
	// for that of the environment.
	DockerHost string
	// Kubernetes are the versions that need a node image; the default version if empty.
	Kubernetes []string
	// Source is SourceAuto if empty.
	Source Source
	// BalancerProgram is a program that calls balancer.Reexec first in main, for the balancer's
	// image; this program if empty.
	BalancerProgram string
	// CacheDir keeps build results that are slow to create; release.DefaultCacheDir if empty.
	CacheDir string
	// DebianMirror is the package mirror of debootstrap; DefaultDebianMirror if empty.
	DebianMirror string
	// Release says where binaries come from. Cache, architecture and progress
	// are those of this package.
	Release release.Options
	// Progress is called with each step, never concurrently.
	Progress release.Progress
}

// Images are the images of a cluster.
type Images struct {
	// Nodes has one image for each of Config.Kubernetes, in that order.
	Nodes []Image `json:"nodes"`
	// Balancer is the name under which kind starts it, for any nodes.
	Balancer Image `json:"balancer"`
}

// Image is one image in the engine.
type Image struct {
	// Kubernetes is the version of a node image.
	Kubernetes string `json:"kubernetes,omitempty"`
	// Name is the image reference to start containers from.
	Name string `json:"name"`
	// Source is published or build.
	Source Source `json:"source"`
	// Why explains the choice of this image.
	Why string `json:"why"`
}

// Node returns the name of the node image for a version of Kubernetes; false if there is none.
func (i Images) Node(version string) (string, bool) {
	version, err := release.ParseVersion(release.Kubernetes, version)
	if err != nil {
		return "", false
	}
	at := slices.IndexFunc(i.Nodes, func(n Image) bool { return n.Kubernetes == version })
	if at < 0 {
		return "", false
	}
	return i.Nodes[at].Name, true
}

// Ensure ensures that the engine has the images, and returns them. It does not build existing
// images again. If ctx ends, partial results are removed.
//
// Versions that are malformed or do not exist are a *release.VersionError.
func Ensure(ctx context.Context, c Config) (Images, error) {
	b, err := newBuilder(c)
	if err != nil {
		return Images{}, err
	}
	return b.ensure(ctx)
}

// builder is one call of Ensure. Tests can replace its dependencies other than docker.
type builder struct {
	Config
	engine  engine
	arch    string
	dir     string // this package's directory
	fetch   getter // downloads or builds binaries
	lookup  getter // returns binaries from the cache
	source  func(ctx context.Context, module, version string) (dir string, err error)
	free    func(dir string) (uint64, error)
	root    bool          // whether this process may create a root file system
	answer  time.Duration // how long a registry may take to answer
	ownDirs bool          // whether debootstrap runs in its own mount namespace
}

func newBuilder(c Config) (*builder, error) {
	c.Source = cmp.Or(c.Source, SourceAuto)
	if !slices.Contains(Sources(), c.Source) {
		return nil, fmt.Errorf("unknown source of images %q: want one of %v", c.Source, Sources())
	}
	if len(c.Kubernetes) == 0 {
		c.Kubernetes = []string{release.DefaultKubernetes}
	}
	versions := slices.Clone(c.Kubernetes)
	for i, v := range versions {
		var err error
		if versions[i], err = release.ParseVersion(release.Kubernetes, v); err != nil {
			return nil, err
		}
	}
	c.Kubernetes = versions
	c.DebianMirror = cmp.Or(c.DebianMirror, DefaultDebianMirror)
	var err error
	if c.CacheDir == "" {
		if c.CacheDir, err = release.DefaultCacheDir(); err != nil {
			return nil, err
		}
	}
	if c.CacheDir, err = filepath.Abs(c.CacheDir); err != nil {
		return nil, err
	}
	if c.BalancerProgram == "" {
		if c.BalancerProgram, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("failed to find this program's own file, for the image of the balancer: %w", err)
		}
	}
	b := &builder{
		Config: c, engine: engine{host: c.DockerHost}, arch: runtime.GOARCH,
		dir: filepath.Join(c.CacheDir, "kind"), source: release.Module, free: freeSpace,
		root: os.Geteuid() == 0, answer: answerTimeout, ownDirs: true,
	}
	o := c.Release
	o.CacheDir, o.Arch, o.Progress = c.CacheDir, b.arch, c.Progress
	b.fetch = func(ctx context.Context, p release.Product, v string) (release.Entry, error) {
		return release.Fetch(ctx, p, v, o)
	}
	b.lookup = func(_ context.Context, p release.Product, v string) (release.Entry, error) {
		return release.Lookup(p, v, o)
	}
	return b, nil
}

func (b *builder) ensure(ctx context.Context) (Images, error) {
	if err := b.engine.check(ctx, b.arch); err != nil {
		return Images{}, err
	}
	var images Images
	published := true
	for _, version := range b.Kubernetes {
		node, err := b.node(ctx, version)
		if err != nil {
			return Images{}, fmt.Errorf("node image of Kubernetes %s: %w", version, err)
		}
		images.Nodes = append(images.Nodes, node)
		published = published && node.Source == sourcePublished
	}
	var err error
	if images.Balancer, err = b.balancer(ctx, published); err != nil {
		return Images{}, fmt.Errorf("image of the balancer: %w", err)
	}
	return images, nil
}

// lock waits until no other process builds images from the same cache, and creates the
// directory of this package.
func (b *builder) lock(ctx context.Context) (unlock func(), err error) {
	return release.Lock(ctx, filepath.Join(b.dir, "lock"), func() {
		b.Progress.Say("another process is building images; waiting for it")
	})
}

// workDir creates a directory for one attempt, after removing the remains of killed ones. The
// caller holds the lock.
func (b *builder) workDir() (dir string, remove func(), err error) {
	left, _ := filepath.Glob(filepath.Join(b.dir, workPrefix+"*"))
	for _, dir := range left {
		if err := os.RemoveAll(dir); err != nil {
			return "", nil, fmt.Errorf("failed to remove what an earlier attempt left: %w", err)
		}
	}
	if dir, err = os.MkdirTemp(b.dir, workPrefix); err != nil {
		return "", nil, err
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil
}

const workPrefix = "work-"
