package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/keeper"
	"github.com/holdfast-ha/holdfast/clusters/release"
)

func newUpgradeCommand() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "upgrade [NODE] --to VERSION",
		Short: "Upgrade the nodes of a running cluster",
		Long: `Upgrade one node of a running cluster, or all of them, one after the other,
control-plane nodes first, and return when they serve in the version. It is for
clusters of kind, whose nodes kubeadm upgrades: etcd, API server, controller manager
and scheduler of a control-plane node, then its kubelet. Pods stay where they are.

What the version skew policy forbids, such as a second minor version at once or a
worker before the control plane, is refused, as is a lower version. What the machine
lacks of the version is got first.

Where it fails or is interrupted, the node whose turn it is stays between the two
versions; the same command goes on. 'holdfast status -o json' tells who has which.

Exit codes: 0 done, 2 refused (no node was touched), 3 it failed.`,
		Example: `  holdfast up --provider kind --name demo --kubernetes 1.36.3 --wait
  holdfast upgrade demo-control-plane2 --to 1.37.1
  holdfast upgrade --to 1.37.1`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.Flags().StringVar(&to, "to", "", "`version` of Kubernetes, such as "+release.DefaultKubernetes+" (required)")
	open := addNameFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if to == "" {
			return usageError("--to is missing: say which version of Kubernetes, for example: holdfast upgrade --to %s", release.DefaultKubernetes)
		}
		version, err := release.ParseVersion(release.Kubernetes, to)
		if err != nil {
			return exitWith(exitUsage, fmt.Errorf("--to: %w", err))
		}
		r := keeper.UpgradeRequest{Version: version}
		what := "every node"
		if len(args) > 0 {
			r.Node, what = args[0], args[0]
		}
		h, err := open()
		if err != nil {
			return err
		}
		p := newProgress(cmd.ErrOrStderr())
		err = h.Upgrade(cmd.Context(), r, clusters.Preparation{Release: release.Options{Progress: fetchProgress(p)},
			Progress: func(line string) { p.Line("%s", line) }})
		p.Done()
		if errors.As(err, new(*release.VersionError)) {
			return exitWith(exitUsage, err)
		}
		if err != nil {
			return faultError(err)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s of cluster %s serves in Kubernetes %s\n", what, h.Name, version)
		return err
	}
	return cmd
}
