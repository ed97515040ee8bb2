package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/holdfast-ha/holdfast/clusters/kind/internal/archive"
)

const (
	// recipe is incremented by changes of this package that produce different images from the
	// same inputs.
	recipe = 1
	// builtNodes is the name of node images that are built here.
	builtNodes = "holdfast/kind-node"
	// baseName is the name of a node image without container images.
	baseName = "holdfast/kind-node-base"
	// buildContainer is the name prefix of the container in which images are imported into the
	// node image.
	buildContainer = "holdfast-kind-image-"
	// entrypoint is that of kind's images: it sets up the container, then starts
	// systemd.
	entrypoint = `["/usr/local/bin/entrypoint", "/sbin/init"]`
)

// key names inputs by their digest.
func key(inputs ...any) string {
	data, err := json.Marshal(inputs)
	if err != nil {
		panic(err) // strings and numbers always have a JSON form
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:6])
}

// scope distinguishes builds from this cache from others in the same engine, in temporary
// names.
func (b *builder) scope() string { return key(b.dir) }

// container is the container that becomes a node image.
func (b *builder) container() string { return buildContainer + b.scope() }

// nodeName names a built node image by its inputs.
func (b *builder) nodeName(version string, bins binaries, refs []reference) string {
	return builtNodes + ":" + version + "-" + key("node", recipe, b.arch, b.rootfsKey(), kindVersion, bins.digests(), refs, ownFiles())
}

// node ensures that the engine has a node image of a version of Kubernetes.
func (b *builder) node(ctx context.Context, version string) (Image, error) {
	published := publishedNode(version)
	if b.Source == sourcePublished {
		why, err := b.publishedOnly(ctx, published)
		return Image{Kubernetes: version, Name: published, Source: sourcePublished, Why: why}, err
	}
	if b.Source == sourceBuild {
		return b.builtNode(ctx, version, "it was asked for")
	}
	if has, err := b.engine.has(ctx, published); err != nil {
		return Image{}, err
	} else if has {
		return Image{Kubernetes: version, Name: published, Source: sourcePublished, Why: "the engine has the published one"}, nil
	}
	// If one was built before, do not wait for a registry again.
	if bins, refs, err := gather(ctx, version, b.lookup); err == nil {
		name := b.nodeName(version, bins, refs)
		if has, err := b.engine.has(ctx, name); err != nil {
			return Image{}, err
		} else if has {
			return Image{Kubernetes: version, Name: name, Source: sourceBuild, Why: "it was built before, and its inputs have not changed"}, nil
		}
	}
	why, err := b.published(ctx, published)
	switch {
	case err == nil:
		return Image{Kubernetes: version, Name: published, Source: sourcePublished, Why: why}, nil
	case ctx.Err() != nil:
		return Image{}, err
	}
	why = fmt.Sprintf("the published one is not available: %s", reason(err))
	b.Progress.Say("Kubernetes %s: %s; building one instead", version, why)
	image, err := b.builtNode(ctx, version, why)
	if err != nil {
		err = fmt.Errorf("%w\n\tThe image had to be built because %s", err, why)
	}
	return image, err
}

// builtNode ensures that the engine has a node image that was built here.
func (b *builder) builtNode(ctx context.Context, version, why string) (Image, error) {
	bins, refs, err := gather(ctx, version, b.fetch)
	if err != nil {
		return Image{}, err
	}
	unlock, err := b.lock(ctx)
	if err != nil {
		return Image{}, err
	}
	defer unlock()
	image := Image{Kubernetes: version, Name: b.nodeName(version, bins, refs), Source: sourceBuild, Why: why}
	if has, err := b.engine.has(ctx, image.Name); has || err != nil {
		return image, err
	}
	if err := b.needSpace(b.engine.dataDir(ctx), engineSpace, "free some, or give the Docker engine another data directory"); err != nil {
		return Image{}, err
	}
	if b.restore(ctx, image.Name) {
		return image, nil
	}
	if err := b.buildNode(ctx, image.Name, version, bins, refs); err != nil {
		return Image{}, err
	}
	b.Progress.Say("Kubernetes %s: built %s", version, image.Name)
	b.keep(ctx, image.Name)
	return image, nil
}

// buildNode builds a node image.
func (b *builder) buildNode(ctx context.Context, name, version string, bins binaries, refs []reference) error {
	kind, err := b.source(ctx, "sigs.k8s.io/kind", kindVersion)
	if err != nil {
		return fmt.Errorf("kind's files for nodes are in its source: %w", err)
	}
	files, err := nodeFiles(ctx, version, filepath.Join(kind, "images", "base", "files"), bins)
	if err != nil {
		return err
	}
	sandbox, err := sandboxImage(files)
	if err != nil {
		return err
	}
	root, err := b.rootfs(ctx)
	if err != nil {
		return err
	}
	b.Progress.Say("Kubernetes %s: making the node image", version)
	base := archive.Image{
		Tags: []string{baseName + ":" + version + "-" + b.scope()}, Arch: b.arch,
		// systemd needs the first variable, and stops only on this signal.
		Config: archive.Config{Env: []string{path, "container=docker"}, StopSignal: "SIGRTMIN+3"},
		Layers: []archive.Layer{archive.TarFile(root), archive.Files(files)},
	}
	// Remains of a build that was killed before cleaning up.
	b.engine.cleanup(ctx, "rm", "--force", "--volumes", b.container())
	defer b.engine.cleanup(ctx, "image", "rm", base.Tags[0])
	b.Progress.Status("loading the base of the node image")
	if err := b.engine.load(ctx, func(w io.Writer) error { return archive.Write(w, base) }); err != nil {
		return fmt.Errorf("failed to load the base of the image: %w", err)
	}
	defer b.engine.cleanup(ctx, "rm", "--force", "--volumes", b.container())
	if err := b.engine.startContainerd(ctx, b.container(), base.Tags[0]); err != nil {
		return err
	}
	tools, err := b.netTools(ctx)
	if err != nil {
		return err
	}
	payloads, err := payloadsOf(bins, refs, sandbox, tools, b.arch)
	if err != nil {
		return err
	}
	for _, p := range payloads {
		b.Progress.Status("putting %s into the node image", strings.Join(p.Tags, " and "))
		if err := b.importImage(ctx, p); err != nil {
			return fmt.Errorf("failed to put %s into the image: %w", p.Tags[0], err)
		}
	}
	if err := b.stopContainerd(ctx, payloads); err != nil {
		return err
	}
	b.Progress.Status("committing the node image")
	_, err = b.engine.run(ctx, "commit", "--change", "ENTRYPOINT "+entrypoint, b.container(), name)
	return err
}

// inside runs a script in the container that becomes the node image.
func (b *builder) inside(ctx context.Context, script string) (string, error) {
	return b.engine.inside(ctx, b.container(), script)
}

// importImage imports an image into containerd's store, labelled so that the kubelet's image
// garbage collection skips it.
func (b *builder) importImage(ctx context.Context, image archive.Image) error {
	c := b.engine.command("exec", "--interactive", b.container(), "ctr", "--namespace", "k8s.io", "images", "import",
		"--label", "io.cri-containerd.pinned=pinned", "--no-unpack", "-")
	return b.engine.feed(ctx, c, func(w io.Writer) error { return archive.Write(w, image) })
}

// stopContainerd checks that all images exist, and stops containerd, so that its data are on
// disk.
func (b *builder) stopContainerd(ctx context.Context, payloads []archive.Image) error {
	out, err := b.inside(ctx, "ctr --namespace k8s.io images list --quiet")
	if err != nil {
		return err
	}
	for _, p := range payloads {
		for _, tag := range p.Tags {
			if !strings.Contains("\n"+out+"\n", "\n"+tag+"\n") {
				return fmt.Errorf("containerd in the image that is being built has no %s after the import; it has:\n%s", tag, out)
			}
		}
	}
	const stop = `pkill -x containerd
for i in $(seq 100); do pgrep -x containerd >/dev/null || exit 0; sleep 0.1; done
echo "containerd does not exit" >&2
exit 1`
	_, err = b.inside(ctx, stop)
	return err
}

// netTools returns the programs that kube-proxy calls, with their libraries: Debian's, as in
// the node image.
func (b *builder) netTools(ctx context.Context) ([]archive.File, error) {
	const collect = `set -e
programs="/usr/sbin/nft"
for name in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
  programs="$programs /usr/sbin/$name"
done
libraries=$(ldd $programs | grep -o '/[^ ]*' | grep -v ':$' | sort -u)
tar --create --dereference --hard-dereference --absolute-names --file - $programs $libraries /usr/lib/*/xtables /etc/protocols /etc/services`
	var out bytes.Buffer
	c := b.engine.command("exec", b.container(), "sh", "-c", collect)
	c.Stdout = &out
	if _, err := b.engine.do(ctx, c); err != nil {
		return nil, fmt.Errorf("failed to collect what kube-proxy needs: %w", err)
	}
	files, err := archive.Read(&out)
	if err != nil {
		return nil, fmt.Errorf("failed to collect what kube-proxy needs: %w", err)
	}
	return files, nil
}
