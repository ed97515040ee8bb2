package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/clusters/release"
)

func newFetchCommand() *cobra.Command {
	var (
		opts   release.Options
		source string
	)
	cmd := &cobra.Command{
		Use:   "fetch PRODUCT [VERSION] [PRODUCT [VERSION]]...",
		Short: "Download or build the binaries of a control plane into the cache",
		Long: `Download or build the binaries of a control plane into the cache. Other commands download
or build what they need; this one does it in advance.

PRODUCT is one of
  kubernetes       kube-apiserver, kube-controller-manager, kube-scheduler, kubectl
  etcd, kwok       the programs of the same name
  kubernetes-node  kubeadm, kubelet, kubectl, kube-proxy
  containerd, cni-plugins, coredns, pause
                   what the nodes of a kind cluster need as well
  kubernetes-fused etcd and the control plane in one process, for holdfast's own tests

Kubernetes comes from the project's release archives or a mirror of them, their
SHA-512 verified. If those cannot be reached, it is built from the Go module proxy with
the local Go toolchain, which takes ten to fifteen minutes on 2 cores. Everything else is
always built. An interrupted fetch continues where it stopped.

A mirror serves MIRROR/VERSION/kubernetes-server-linux-ARCH.tar.gz, and
kubernetes-node-linux-ARCH.tar.gz for the product of that name, each with its SHA-512
in a file of the same name plus .sha512.

VERSION is written 1.37.1 or v1.37.1. Without one, or as "default", it is the version
that holdfast uses by default.`,
		Example: `  # the versions that a cluster has by default
  holdfast fetch kubernetes kwok

  # two versions, for an upgrade
  holdfast fetch kubernetes 1.36.3 kubernetes 1.37.1

  # from a mirror only
  holdfast fetch kubernetes 1.37.1 --mirror http://mirror.example/kubernetes --source release

  # hash everything in the cache entry again
  holdfast fetch kubernetes 1.37.1 --verify -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("name a product, and a version if it is not the default, such as: kubernetes " + release.DefaultKubernetes)
			}
			return nil
		},
		ValidArgsFunction: completeFetch,
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.Mirror, "mirror", "", "base URL of the release archives (default $"+release.MirrorVariable+", else "+release.OfficialMirror+")")
	flags.StringVar(&source, "source", "auto", "source of the binaries: auto, release or build")
	flags.BoolVar(&opts.Refresh, "refresh", false, "fetch again even if cached")
	flags.BoolVar(&opts.Verify, "verify", false, "verify the checksum of every file in the cache entry")
	output := addOutputFlag[[]release.Entry](cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch source {
		case "auto":
		case "release", "build":
			opts.Source = release.Source(source)
		default:
			return usageError("--source is %q: it must be auto, release or build", source)
		}
		wants, err := parseWants(args)
		if err != nil {
			return err
		}
		entries, err := fetchAll(cmd, wants, opts)
		if err != nil {
			return err
		}
		return output.print(cmd, entries, func(w io.Writer) error { return writeEntries(w, entries) })
	}
	return cmd
}

// want is one product at one version.
type want struct {
	product release.Product
	version string
}

// parseWants checks all pairs before the first fetch starts.
func parseWants(args []string) ([]want, error) {
	var wants []want
	for i := 0; i < len(args); i++ {
		product, err := release.ParseProduct(args[i])
		if err != nil {
			return nil, exitWith(exitUsage, err)
		}
		version := product.Default()
		if i+1 < len(args) && !isProduct(args[i+1]) {
			if i++; args[i] != "default" {
				version = args[i]
			}
		}
		if version, err = release.ParseVersion(product, version); err != nil {
			return nil, err
		}
		wants = append(wants, want{product, version})
	}
	return wants, nil
}

func isProduct(name string) bool { return slices.Contains(release.Products(), release.Product(name)) }

func fetchAll(cmd *cobra.Command, wants []want, opts release.Options) ([]release.Entry, error) {
	p := newProgress(cmd.ErrOrStderr())
	defer p.Done()
	opts.Progress = fetchProgress(p)
	entries := []release.Entry{}
	for _, w := range wants {
		if w.product == release.Etcd && w.version == release.EmbeddedEtcd && !opts.Refresh {
			p.Line("etcd %s: built into holdfast, nothing to fetch (--refresh builds it anyway)", w.version)
			continue
		}
		e, err := release.Fetch(cmd.Context(), w.product, w.version, opts)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// fetchProgress shows the progress of a fetch; commands that fetch as part of something else use
// it too.
func fetchProgress(p *progress) release.Progress {
	return func(e release.Event) {
		if e.Lasting {
			p.Line("%s", e)
		} else {
			p.Status("%s", e)
		}
	}
}

func writeEntries(w io.Writer, entries []release.Entry) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, e := range entries {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", e.Product, e.Version, e.Arch, e.Dir)
	}
	return tw.Flush()
}

func completeFetch(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if len(args) > 0 && isProduct(args[len(args)-1]) {
		names = append(names, "default", release.Product(args[len(args)-1]).Default())
	}
	for _, p := range release.Products() {
		names = append(names, string(p))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
