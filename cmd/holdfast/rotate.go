package main

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/clusters/keeper"
)

func newRotateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Replace certificates or CAs of a running cluster, node by node",
		Long: `Replace the certificates of the components of a running cluster, or the CAs that issue
them, node by node. The CAs of kind clusters cannot be replaced.`,
		Example: `  holdfast rotate certificates --node node-1
  holdfast rotate ca`,
	}
	cmd.AddCommand(newRotateCertificatesCommand(), newRotateCACommand())
	return cmd
}

func newRotateCertificatesCommand() *cobra.Command {
	var node string
	cmd := &cobra.Command{
		Use:   "certificates [--node NODE]",
		Short: "Give the components of the nodes new certificates",
		Long: `Give the components of one control-plane node, or of all nodes in turn, new
certificates and keys from the same CAs: etcd (client and peer ports), API server,
controller manager and scheduler, for serving and as clients. Each component is
restarted gracefully, and each port is checked for its new certificate. On kind clusters
kubeadm renews them (kubeadm certs renew all).

If it fails or is interrupted, the error names the step: run the same command again.
The CAs do not change, so the components accept each other's old and new certificates.

Exit codes: 0 done, 2 refused (no node was touched), 3 failed.`,
		Example: `  holdfast rotate certificates
  holdfast rotate certificates --node node-2 -o json`,
	}
	cmd.Flags().StringVar(&node, "node", "", "`name` of the only node to change (default: all)")
	open := addNameFlag(cmd)
	output := addOutputFlag[changed](cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		what := "every node"
		if node != "" {
			what = node
		}
		return change(cmd, open, output, keeper.ChangeRequest{Rotate: keeper.RotateCertificates, Node: node}, what+" of cluster %s serves with new certificates")
	}
	return cmd
}

func newRotateCACommand() *cobra.Command {
	var undo bool
	cmd := &cobra.Command{
		Use:   "ca",
		Short: "Replace the CAs and the key that signs service-account tokens",
		Long: `Replace the CAs of Kubernetes, etcd and the front proxy, and the key that signs the
tokens of service accounts, in three stages, each of them node by node: every node trusts
the old and the new ones; every node receives certificates from the new CAs and signs tokens
with the new key; every node trusts only the new CAs. Tokens that the old key signed are
accepted until they expire: the API servers keep its public key.

The cluster's kubeconfig, whose path 'holdfast kubeconfig' prints, is updated after each
node: it trusts both CAs in the meantime, and only the new one at the end. Replace earlier
copies of it before the last stage is done.

If it fails or is interrupted, the error names the step: run the same command again to
finish, or with --undo to return to the old CAs, stage by stage. Tokens that the new key
signed in the meantime are accepted until they expire. A cluster can replace its CAs only once.

Exit codes: 0 done, 2 refused (no node was touched), 3 failed.`,
		Example: `  holdfast rotate ca
  holdfast rotate ca --undo
  holdfast rotate ca --name demo -o json`,
	}
	cmd.Flags().BoolVar(&undo, "undo", false, "return to the old CAs, whatever stage was reached")
	open := addNameFlag(cmd)
	output := addOutputFlag[changed](cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		done := "cluster %s trusts only the new CAs; its kubeconfig has changed: replace copies of it (holdfast kubeconfig)"
		if undo {
			done = "cluster %s trusts only the old CAs; its kubeconfig has changed: replace copies of it (holdfast kubeconfig)"
		}
		return change(cmd, open, output, keeper.ChangeRequest{Rotate: keeper.RotateCA, Undo: undo}, done)
	}
	return cmd
}
