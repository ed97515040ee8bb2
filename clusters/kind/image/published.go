package image

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/kind/pkg/apis/config/defaults"

	"github.com/holdfast-ha/holdfast/clusters/internal/command"
)

const (
	// kindVersion is the version of kind whose files are in node images; go.mod
	// requires the same.
	kindVersion = "v0.33.0"
	// BalancerName is the image that kind starts as a load balancer: Image in
	// pkg/cluster/internal/loadbalancer.
	BalancerName = "docker.io/envoyproxy/envoy:v1.36.2"
	// publishedNodes is where kind publishes node images.
	publishedNodes = "docker.io/kindest/node"
	// answerTimeout is how long a registry may take to confirm that it has an image. The
	// download may take longer.
	answerTimeout = 10 * time.Second
)

// publishedNode is kind's image of a version of Kubernetes, with its digest if this version of
// kind knows it.
func publishedNode(version string) string {
	name, _, _ := strings.Cut(defaults.Image, "@")
	if _, tag, ok := strings.Cut(name, ":"); ok && tag == version {
		return defaults.Image
	}
	return publishedNodes + ":" + version
}

// pull pulls an image from its registry.
func (b *builder) pull(ctx context.Context, name string) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(b.answer, func() {
		cancel(fmt.Errorf("no registry has answered within %s", b.answer))
	})
	defer timer.Stop()
	b.Progress.Status("asking the registry for %s", name)
	c := b.engine.command("pull", name)
	c.Lines = func(line string) {
		if strings.Contains(line, "Pulling from") {
			timer.Stop()
		}
		b.Progress.Status("pulling %s: %s", name, line)
	}
	_, err := b.engine.do(inner, c)
	return err
}

// reason shortens an error to one line, to explain a fallback.
func reason(err error) string {
	if failed, ok := errors.AsType[*command.Error](err); ok && failed.Output != "" {
		lines := strings.Split(failed.Output, "\n")
		return strings.TrimSpace(lines[len(lines)-1])
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// published ensures that the engine has a published image; why explains the choice.
func (b *builder) published(ctx context.Context, name string) (why string, err error) {
	if has, err := b.engine.has(ctx, name); err != nil {
		return "", err
	} else if has {
		return "the engine has the published one", nil
	}
	if err := b.pull(ctx, name); err != nil {
		return "", err
	}
	b.Progress.Say("pulled %s", name)
	return "the registry has it", nil
}

// publishedOnly is published without a fallback.
func (b *builder) publishedOnly(ctx context.Context, name string) (string, error) {
	why, err := b.published(ctx, name)
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("the published image %s is not available: %w\n\tThe source %q builds one without a registry", name, err, sourceBuild)
	}
	return why, err
}
