package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/keeper"
	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/reports"
)

func newUpgradeCommand() *cobra.Command {
	var to, etcd string
	cmd := &cobra.Command{
		Use:   "upgrade [NODE] --to VERSION | --etcd VERSION",
		Short: "Upgrade the nodes of a running cluster, one by one",
		Long: `Upgrade one node of a running cluster, or all of them, one after the other,
control-plane nodes first, and return when they serve at that version.

On a local cluster the API server, then the controller manager and the scheduler are
stopped gracefully and started at that version; --etcd does the same for the etcd
member. On a kind cluster kubeadm upgrades etcd, API server, controller manager and
scheduler of a control-plane node, then its kubelet. Pods stay where they are.

The command refuses what the version skew policy forbids, such as skipping a minor
version or upgrading a worker before the control plane. On a local cluster, a lower version
downgrades a node; kubeadm and etcd refuse that. The version is downloaded or built first
if this machine does not have it.

If the command fails or is interrupted, the current node is left between the two versions:
run the same command again to finish, or with that node and its old version to undo.
'holdfast status -o json' shows which node has which version.

Exit codes: 0 done, 2 refused (no node was touched), 3 failed.`,
		Example: `  holdfast up --name demo --kubernetes 1.36.3 --wait
  holdfast upgrade node-1 --to 1.37.1
  holdfast upgrade node-1 --to 1.36.3     # back
  holdfast upgrade --to 1.37.1            # every node
  holdfast upgrade --etcd 3.7.3 -o json`,
		Args: arguments("[NODE]"),
	}
	cmd.Flags().StringVar(&to, "to", "", "`version` of Kubernetes, such as "+release.DefaultKubernetes)
	cmd.Flags().StringVar(&etcd, "etcd", "", "`version` of etcd, such as "+release.EmbeddedEtcd)
	open := addNameFlag(cmd)
	output := addOutputFlag[changed](cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		product, flag, version := release.Kubernetes, "--to", to
		switch {
		case to == "" && etcd == "":
			return usageError("--to or --etcd is missing: want a version, such as holdfast upgrade --to %s, or holdfast upgrade --etcd %s", release.DefaultKubernetes, release.EmbeddedEtcd)
		case to != "" && etcd != "":
			return usageError("--to and --etcd are two changes: make one after the other")
		case etcd != "":
			product, flag, version = release.Etcd, "--etcd", etcd
		}
		version, err := release.ParseVersion(product, version)
		if err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
		r := keeper.ChangeRequest{Version: version, Etcd: etcd != ""}
		what := "every node"
		if len(args) > 0 {
			r.Node, what = args[0], args[0]
		}
		return change(cmd, open, output, r, fmt.Sprintf("%s of cluster %%s runs %s %s", what, product, version))
	}
	return cmd
}

func newScaleCommand() *cobra.Command {
	var remove string
	cmd := &cobra.Command{
		Use:   "scale N",
		Short: "Add control-plane nodes to a running cluster, or remove some",
		Long: `Add control-plane nodes to a running cluster, or remove those that joined last,
one at a time, until the cluster has N of them. --remove removes the named node first, such
as a dead one.

A new node's etcd member joins as a learner and is promoted when it has caught up; the
API server joins the load balancer when it is ready. A node is removed in the reverse
order: load balancer, components, etcd member, machine. If adding a node fails or is
interrupted, it is undone. The command refuses changes that would cost etcd its quorum.

Exit codes: 0 done, 2 refused (no node was touched), 3 failed.`,
		Example: `  holdfast scale 5
  holdfast scale 2 --remove node-1
  holdfast scale 3 --name demo -o json`,
		Args: arguments("N"),
	}
	cmd.Flags().StringVar(&remove, "remove", "", "`node` to remove first")
	open := addNameFlag(cmd)
	output := addOutputFlag[changed](cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		n, err := strconv.Atoi(args[0])
		if err != nil || n < 1 || n > clusters.MaxNodes {
			return usageError("%q is not a number of control-plane nodes: want 1 to %d", args[0], clusters.MaxNodes)
		}
		return change(cmd, open, output, keeper.ChangeRequest{Nodes: n, Node: remove}, "cluster %s has "+reports.Plural(n, "control-plane node"))
	}
	return cmd
}

// changed is what a command that changes nodes prints as JSON.
type changed struct {
	Cluster string           `json:"cluster"`
	Done    bool             `json:"done"`
	Error   string           `json:"error,omitempty"`
	Steps   []framework.Step `json:"steps"`
}

// change changes nodes and prints the result; done is a format for the cluster's name.
func change(cmd *cobra.Command, open func() (*keeper.Handle, error), output *outputFlag[changed], r keeper.ChangeRequest, done string) error {
	h, err := open()
	if err != nil {
		return err
	}
	p := newProgress(cmd.ErrOrStderr())
	steps, err := h.Change(cmd.Context(), r, clusters.Preparation{Release: release.Options{Progress: fetchProgress(p)},
		Progress: func(line string) { p.Line("%s", line) }})
	p.Done()
	if output.json() {
		result := changed{Cluster: h.Name, Done: err == nil, Steps: append([]framework.Step{}, steps...)}
		if err != nil {
			result.Error = err.Error()
		}
		if writing := reports.WriteJSON(cmd.OutOrStdout(), result); writing != nil {
			return writing
		}
	} else if err == nil {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), done+"\n", h.Name)
	}
	return err
}
