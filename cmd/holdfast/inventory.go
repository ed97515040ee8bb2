package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/remote"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/nearest"
)

func newInventoryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inventory",
		Short: "Describe an existing cluster, and check access to it",
		Long: `Describe a cluster that holdfast did not create. An inventory is a file with its nodes, its
load balancer, and how they are reached: with a kubeconfig and, to break something, over SSH.
'holdfast run --inventory' takes the cluster over.`,
	}
	cmd.AddCommand(newInventoryInitCommand(), newInventoryCheckCommand(), newInventoryReleaseCommand())
	return cmd
}

func newInventoryInitCommand() *cobra.Command {
	var kubeconfig, kubeContext, name, user string
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write the inventory of a cluster, from its API",
		Long: `Print an inventory of the cluster that a kubeconfig points to: its control-plane nodes with
their addresses and zones, and where their API servers serve. Then check what can be reached, as
'holdfast inventory check' does, and print that to standard error. Read the inventory before you
use it. Add what the API does not know, such as how the load balancer checks its backends.

Exit codes: 0 the inventory was written, whatever the checks found, 2 bad input, 3 the API did
not answer or lists no nodes.`,
		Example: `  holdfast inventory init > nodes.yaml
  holdfast inventory init --kubeconfig admin.conf --ssh root > nodes.yaml`,
	}
	flags := cmd.Flags()
	flags.StringVar(&kubeconfig, "kubeconfig", "", "an administrator's kubeconfig (default kubectl's)")
	flags.StringVar(&kubeContext, "context", "", "context of the kubeconfig (default the current one)")
	flags.StringVar(&name, "name", "theirs", "name of the cluster in the inventory")
	flags.StringVar(&user, "ssh", "", "SSH `user` on the nodes: root, or one with passwordless sudo (default none: the cluster can only be observed)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if kubeconfig != "" {
			path, err := filepath.Abs(kubeconfig)
			if err != nil {
				return err
			}
			kubeconfig = path
		}
		i, err := remote.Discover(cmd.Context(), name, kubeconfig, kubeContext, user)
		if err != nil {
			return err
		}
		text, err := yaml.Marshal(i)
		if err != nil {
			return err
		}
		if _, err = cmd.OutOrStdout().Write(text); err != nil {
			return err
		}
		if _, err := clusters.ParseInventory("the inventory", text); err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "holdfast: fix this by hand: %v\n", err)
			return nil
		}
		// The owner consents to an inventory that exists.
		checks := slices.DeleteFunc(remote.Examine(cmd.Context(), i), func(c remote.Check) bool { return c.What == remote.ConsentCheck })
		if failed := printChecks(cmd.ErrOrStderr(), checks); failed > 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "holdfast: %d of %d checks failed: correct the inventory, and try holdfast inventory check\n", failed, len(checks))
		}
		return nil
	}
	return cmd
}

// printChecks prints the results for the items of an inventory, and returns how many failed.
func printChecks(w io.Writer, all []remote.Check) (failed int) {
	for _, c := range all {
		mark, text := "ok  ", c.Found
		if c.Problem != "" {
			mark, text = "FAIL", c.Problem
			failed++
		}
		fmt.Fprintf(w, "%s  %s: %s\n", mark, c.What, text)
	}
	return failed
}

func newInventoryCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Check that everything in an inventory can be reached",
		Long: `Ask each API server and the load balancer whether they are ready, look for the consent of the
cluster's owner, log in on each node, and print what was found there. Of the power commands
it runs only 'status'. It changes nothing.

Exit codes: 0 all can be reached, 1 something cannot or the consent is missing, 2 bad input.`,
		Example: `  holdfast inventory check nodes.yaml`,
		Args:    arguments("FILE"),
	}
	output := addOutputFlag[[]remote.Check](cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		i, err := clusters.LoadInventory(args[0])
		if err != nil {
			return err
		}
		all := remote.Examine(cmd.Context(), i)
		var table strings.Builder
		problems := printChecks(&table, all)
		err = output.printf(cmd, all, "%s", table.String())
		if err == nil && problems > 0 {
			err = exitWith(exitFail, fmt.Errorf("%d of %d checks failed", problems, len(all)))
		}
		return err
	}
	return cmd
}

func newInventoryReleaseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "release FILE",
		Short: "Remove what a killed run left on the nodes and in the cluster",
		Long: `Heal all active faults on the nodes of an inventory, delete what traffic created in the cluster
(namespaces, keys in etcd), and remove the node agents. A run does all of this when it
finishes. After a killed run the agents heal within 15 s and are removed after two minutes,
but the namespaces and keys stay until this command is run.`,
		Example: `  holdfast inventory release nodes.yaml`,
		Args:    arguments("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			i, err := clusters.LoadInventory(args[0])
			if err != nil {
				return err
			}
			err = remote.Provider{}.Detach(cmd.Context(), &clusters.Cluster{Spec: clusters.Spec{Inventory: i}}, false)
			if err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "No holdfast agent is left on the nodes of %s.\n", args[0])
			}
			return err
		},
	}
}

func newConsentCommand() *cobra.Command {
	var inventory string
	var levels []string
	var lasts time.Duration
	cmd := &cobra.Command{
		Use:   "consent",
		Short: "Print the ConfigMap with which the owner of a cluster consents to a run",
		Long: `Print the manifest of a ConfigMap with which the owner of an existing cluster consents to what
holdfast may do to it. holdfast never creates it: apply it with kubectl. It names the cluster's
UID and expires. Without it, holdfast does nothing to a cluster of an inventory.

Levels:
  read-only    requests to the API; objects in holdfast's own namespaces. Always included
  process      the agent on each node, which every fault needs; kill, stop and freeze components;
               move etcd's leadership, defragment its members; keys below /holdfast/ and holdfast/
               in etcd
  network      cut and impair the network between the nodes
  power        cut the power of nodes, with the inventory's commands
  quorum-loss  break more nodes at a time than the cluster should tolerate; ask etcd for a
               further member while one is down, which it should refuse
  data         change etcd's data, history, alarms and list of members, certificates, leases,
               webhooks and roles; fill the volume of a member's data`,
		Example: `  holdfast consent --inventory nodes.yaml | kubectl apply -f -
  holdfast consent --inventory nodes.yaml --level process,network --for 4h | kubectl apply -f -`,
	}
	flags := cmd.Flags()
	flags.StringVar(&inventory, "inventory", "", "inventory `file` of the cluster (required)")
	flags.StringSliceVar(&levels, "level", []string{string(remote.ReadOnly)}, "levels to allow")
	flags.DurationVar(&lasts, "for", 24*time.Hour, "how long the consent is valid, "+fmt.Sprintf("at most %d days", maxConsent/(24*time.Hour)))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if inventory == "" {
			return usageError("--inventory is missing: want the inventory of the cluster")
		}
		if lasts <= 0 || lasts > maxConsent {
			return usageError("--for %s: want a time above zero, %d days at most", lasts, maxConsent/(24*time.Hour))
		}
		allowed, err := consentLevels(levels)
		if err != nil {
			return err
		}
		i, err := clusters.LoadInventory(inventory)
		if err != nil {
			return err
		}
		c, err := remote.Ask(cmd.Context(), i, allowed, time.Now().Add(lasts))
		if err != nil {
			return err
		}
		text, err := c.Manifest()
		if err != nil {
			return err
		}
		_, err = cmd.OutOrStdout().Write(text)
		return err
	}
	return cmd
}

// maxConsent limits a consent so that one that is forgotten expires.
const maxConsent = 31 * 24 * time.Hour

func consentLevels(texts []string) (all []remote.Level, err error) {
	names := framework.Names(remote.Levels, func(l remote.Level) string { return string(l) })
	for _, text := range texts {
		if !slices.Contains(names, text) {
			return nil, usageError("--level %s: want one or more of %s%s", text, strings.Join(names, ", "), nearest.Meant(names, text))
		}
		all = append(all, remote.Level(text))
	}
	if !slices.Contains(all, remote.Processes) && slices.ContainsFunc(all, func(l remote.Level) bool { return l != remote.ReadOnly }) {
		return nil, usageError("--level %[1]s: want process as well, since every fault needs the agent on each node: --level process,%[1]s", strings.Join(texts, ","))
	}
	return all, nil
}
