package image

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/holdfast-ha/holdfast/clusters/kind/balancer"
	"github.com/holdfast-ha/holdfast/clusters/kind/internal/archive"
	"github.com/holdfast-ha/holdfast/clusters/release"
)

// balancerLabel is a label of a balancer image that was built here, with the key of its inputs.
// The image's name cannot contain it, since kind knows only BalancerName.
const balancerLabel = "io.holdfast.balancer"

// balancer ensures that the engine has an image for the balancer; published says whether all
// nodes are from published images.
func (b *builder) balancer(ctx context.Context, published bool) (Image, error) {
	image := Image{Name: BalancerName, Source: sourcePublished}
	var err error
	if b.Source == sourcePublished {
		image.Why, err = b.publishedOnly(ctx, image.Name)
		return image, err
	}
	if b.Source == sourceBuild {
		return b.builtBalancer(ctx, "it was asked for")
	}
	id, label, err := b.engine.inspect(ctx, image.Name, balancerLabel)
	switch {
	case err != nil:
		return Image{}, err
	case id != "" && label == "":
		image.Why = "the engine has the published one"
		return image, nil
	case id != "" || !published:
		return b.builtBalancer(ctx, "the node image was built as well, or this image was built before")
	}
	if image.Why, err = b.published(ctx, image.Name); err == nil || ctx.Err() != nil {
		return image, err
	}
	why := "the published one is not available: " + reason(err)
	b.Progress.Say("balancer: %s; building one instead", why)
	return b.builtBalancer(ctx, why)
}

// builtBalancer ensures that the engine has this version of the image that is built here.
func (b *builder) builtBalancer(ctx context.Context, why string) (Image, error) {
	image := Image{Name: BalancerName, Source: sourceBuild, Why: why}
	program, err := release.HashFile(b.BalancerProgram)
	if err != nil {
		return Image{}, err
	}
	want := key("balancer", recipe, b.arch, b.rootfsKey(), program)
	unlock, err := b.lock(ctx)
	if err != nil {
		return Image{}, err
	}
	defer unlock()
	old, label, err := b.engine.inspect(ctx, image.Name, balancerLabel)
	if err != nil || label == want {
		return image, err
	}
	root, err := b.rootfs(ctx)
	if err != nil {
		return Image{}, err
	}
	b.Progress.Say("making the image of the balancer")
	// It has a temporary name until it is known to be good.
	fresh := "holdfast/kind-balancer:new-" + b.scope()
	made := archive.Image{
		Tags: []string{fresh}, Arch: b.arch,
		Config: archive.Config{Env: []string{path}, Cmd: []string{"bash"}, Labels: map[string]string{balancerLabel: want}},
		Layers: []archive.Layer{archive.TarFile(root), archive.Files([]archive.File{
			{Name: programs + "/" + balancer.Program, Mode: 0o755, Path: b.BalancerProgram},
		})},
	}
	defer b.engine.cleanup(ctx, "image", "rm", fresh)
	if err := b.engine.load(ctx, func(w io.Writer) error { return archive.Write(w, made) }); err != nil {
		return Image{}, err
	}
	if err := b.tryBalancer(ctx, fresh); err != nil {
		return Image{}, err
	}
	if _, err := b.engine.run(ctx, "tag", fresh, image.Name); err != nil {
		return Image{}, err
	}
	switch {
	case old == "":
		b.Progress.Say("%s is now the balancer that was built here", image.Name)
	case label == "":
		b.Progress.Say("%s is now the balancer that was built here; the image that had this name stays, as %s", image.Name, old)
	default:
		// An earlier one, which has no name any more. If containers use it, it stays.
		b.engine.cleanup(ctx, "image", "rm", old)
	}
	return image, nil
}

// tryBalancer reports whether the program is a balancer there.
func (b *builder) tryBalancer(ctx context.Context, image string) error {
	out, err := b.engine.run(ctx, "run", "--rm", "--network", "none", "--entrypoint", balancer.Program, image, "--version")
	if err == nil && strings.Contains(out, balancer.Banner) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("it printed %q", out)
	}
	return fmt.Errorf("%s is not a balancer in a container of Debian %s: %w\n\tIts main has to call Reexec of clusters/kind/balancer first; built with CGO_ENABLED=0, a program runs on any Linux", b.BalancerProgram, debianSuite, err)
}
