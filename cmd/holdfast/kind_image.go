package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/clusters/kind/image"
	"github.com/holdfast-ha/holdfast/clusters/release"
)

// newKindImageCommand returns `holdfast kind image`. engine finds the Docker engine and returns
// its address as in DOCKER_HOST; empty for the one from the environment.
func newKindImageCommand(engine func(context.Context) (string, error)) *cobra.Command {
	var (
		config image.Config
		source string
	)
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Download or build the images of a kind cluster into the Docker engine",
		Long: `Load the images of a kind cluster into the Docker engine: a node image for each version of
Kubernetes, and the image of the load balancer. Creating a cluster does this too; this
command does it in advance.

If a registry answers, kind's published images are pulled. Otherwise images are built from
Debian packages, kind's own files and the binaries of "holdfast fetch". Building requires
root, debootstrap and a Go toolchain; the first time it takes some minutes and 5 GiB of
disk. Builds are cached until one of their inputs changes.

The image of the load balancer has the fixed name under which kind starts it,
` + image.BalancerName + `. With --source build, an image of that name in
the engine is replaced.`,
		Example: `  # the version that clusters have by default
  holdfast kind image

  # two versions, for an upgrade, built without asking a registry
  holdfast kind image --kubernetes 1.36.3 --kubernetes 1.37.1 --source build

  # packages from a mirror
  holdfast kind image --debian-mirror http://mirror.example/debian

  # the names as JSON
  holdfast kind image -o json`,
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&config.Kubernetes, "kubernetes", nil, "`version` of Kubernetes, once for each image (default "+release.DefaultKubernetes+")")
	flags.StringVar(&source, "source", string(image.SourceAuto), "source of the images: auto, published or build")
	flags.StringVar(&config.DebianMirror, "debian-mirror", "", "base `URL` of Debian packages (default "+image.DefaultDebianMirror+")")
	flags.StringVar(&config.Release.Mirror, "mirror", "", "base `URL` of the release archives of Kubernetes, as for holdfast fetch")
	output := addOutputFlag[image.Images](cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		config.Source = image.Source(source)
		if !slices.Contains(image.Sources(), config.Source) {
			return usageError("--source is %q: it must be auto, published or build", source)
		}
		for _, v := range config.Kubernetes {
			if _, err := release.ParseVersion(release.Kubernetes, v); err != nil {
				return err
			}
		}
		var err error
		if config.DockerHost, err = engine(cmd.Context()); err != nil {
			return err
		}
		p := newProgress(cmd.ErrOrStderr())
		config.Progress = fetchProgress(p)
		images, err := image.Ensure(cmd.Context(), config)
		p.Done()
		if err != nil {
			return err
		}
		return output.print(cmd, images, func(w io.Writer) error { return writeImages(w, images) })
	}
	return cmd
}

func writeImages(w io.Writer, images image.Images) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(what string, i image.Image) {
		// A reason takes one line in a table.
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", what, i.Name, i.Source, strings.Join(strings.Fields(i.Why), " "))
	}
	for _, n := range images.Nodes {
		row("node "+n.Kubernetes, n)
	}
	row("balancer", images.Balancer)
	return tw.Flush()
}
