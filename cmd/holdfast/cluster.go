package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/clusters/keeper"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/reports"
)

// addNameFlag adds the flag --name to a command on a running cluster, and returns a function that
// opens that cluster.
func addNameFlag(cmd *cobra.Command) func() (*keeper.Handle, error) {
	name := nameFlag(cmd)
	return func() (*keeper.Handle, error) {
		h, err := keeper.Open(providers, *name)
		if errors.Is(err, keeper.ErrNoCluster) {
			return nil, exitWith(exitUsage, err)
		}
		return h, err
	}
}

func nameFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("name", "", "name of the cluster (default: the only one)")
}

func newStatusCommand() *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what runs in a cluster and whether it is healthy, or list several clusters",
		Long: `Show what runs in a cluster and whether it is healthy. If there are several clusters,
list them.

With --watch the status is printed again whenever it changes, until Ctrl-C or until the
cluster is deleted: in place on a terminal; elsewhere each status follows the previous one,
with -o json as one JSON object after another.`,
		Example: `  holdfast status
  holdfast status --watch
  holdfast status --name five -o json`,
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show the status again whenever it changes")
	open := addNameFlag(cmd)
	output := addOutputFlag[*keeper.Status](cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if watch {
			h, err := open()
			if err != nil {
				return err
			}
			return watchStatus(cmd, h, output.json())
		}
		if all, err := listClusters(cmd.Context()); err == nil && len(all) > 1 && !cmd.Flags().Changed("name") && !output.json() {
			return printList(cmd.OutOrStdout(), all)
		}
		h, err := open()
		if err != nil {
			return err
		}
		status, err := h.Status(cmd.Context())
		if err != nil {
			return err
		}
		return output.print(cmd, status, func(w io.Writer) error { return printStatus(w, status) })
	}
	return cmd
}

// watchInterval is how often a watched status is polled.
const watchInterval = time.Second

func watchStatus(cmd *cobra.Command, h *keeper.Handle, asJSON bool) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	last := ""
	for {
		status, err := h.Status(ctx)
		switch {
		case ctx.Err() != nil:
			return nil // the user stops watching this way
		case err != nil:
			return err
		}
		var text bytes.Buffer
		if err := reports.WriteJSON(&text, status); err != nil {
			return err
		}
		if text.String() != last {
			if err := showAgain(out, status, text.String(), asJSON, last == ""); err != nil {
				return err
			}
			last = text.String()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchInterval):
		}
	}
}

// showAgain prints a status in place of the previous one, or below it.
func showAgain(out io.Writer, s *keeper.Status, text string, asJSON, first bool) error {
	if asJSON {
		_, err := io.WriteString(out, text)
		return err
	}
	switch {
	case isTerminal(out):
		fmt.Fprint(out, "\x1b[H\x1b[2J") // clears the screen and moves to its top
	case !first:
		fmt.Fprintln(out)
	}
	return printStatus(out, s)
}

func printStatus(out io.Writer, s *keeper.Status) error {
	ready := "ready"
	if !s.Ready {
		ready = "not ready"
	}
	fmt.Fprintf(out, "cluster %s: %s, up for %s, network %s\n", s.Name, ready, time.Since(s.Started).Round(time.Second), s.Network)
	for _, problem := range s.Problems {
		fmt.Fprintf(out, "  %s\n", problem)
	}
	fmt.Fprintf(out, "from this machine: %s, kubeconfig %s\n\n", s.Server, s.Kubeconfig)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ENTRANCE\tURL\tSTATE")
	for _, e := range s.Entrances {
		state := "ready"
		if !e.Ready {
			state = firstLine(e.Error)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", e.Name, e.URL, state)
	}
	fmt.Fprintln(w, "\t\t\nHOST\tCOMPONENT\tSTATE\tPID\tRESTARTS\tVERSION\tNOTE")
	for _, h := range s.Hosts {
		if !h.Powered {
			fmt.Fprintf(w, "%s\t-\tpowered off\t\t\t\t\n", h.Name)
		}
		if h.Error != "" {
			fmt.Fprintf(w, "%s\t-\t%s\t\t\t\t\n", h.Name, firstLine(h.Error))
		}
		for _, p := range h.Components {
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%s\n", h.Name, p.Component, processWords(p), p.PID, p.Restarts,
				h.Versions[string(p.Component)], processNote(s, h, p))
		}
	}
	if len(s.Faults) > 0 {
		fmt.Fprintln(w, "\t\t\nFAULT\tON\tHEALS IN\tPROOF")
	}
	for _, e := range s.Faults {
		left := "healing now"
		if d := time.Until(e.Expires); d > 0 {
			left = d.Round(time.Second).String()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", e.ID, e.Target, left, reports.Clip(e.Effect.What, 80))
	}
	return w.Flush()
}

func processWords(p framework.Process) string {
	switch {
	case p.Held:
		return "held down"
	case p.Standby:
		return "standing by"
	case p.PID == 0:
		return "down (" + p.LastExit + ")"
	case p.State == "T":
		return "frozen"
	}
	return "running"
}

// processNote says what is special about a process: that it is the leader, or why it cannot be
// queried.
func processNote(s *keeper.Status, h keeper.HostStatus, p framework.Process) string {
	if p.Component == framework.Etcd && h.Etcd != nil {
		switch {
		case h.Etcd.Error != "":
			return firstLine(h.Etcd.Error)
		case h.Etcd.Leader:
			return fmt.Sprintf("leader, term %d", h.Etcd.Term)
		}
	}
	for _, l := range s.Leases {
		if l.Component == p.Component && (l.Holder == h.Name || strings.HasPrefix(l.Holder, h.Name+"_")) {
			return "active"
		}
	}
	return ""
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func newDownCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Delete a cluster and everything that belongs to it",
		Long: `Delete a cluster and everything that belongs to it, including what is left of one whose
processes were killed. A cluster that 'holdfast up --attach' took over is kept; only what
holdfast added is removed, unless --delete is given.`,
		Example: `  holdfast down --name five
  holdfast down --name theirs --delete`,
	}
	var o keeper.DownOptions
	cmd.Flags().BoolVar(&o.Delete, "delete", false, "delete the cluster even if holdfast did not create it but took it over")
	name := nameFlag(cmd)
	output := addOutputFlag[downState](cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), keeper.DownLimit(providers))
		defer cancel()
		p := newProgress(cmd.ErrOrStderr())
		o.Found = func(name string) { p.Status("deleting cluster %s", name) }
		ended, err := keeper.Down(ctx, providers, *name, o)
		p.Done()
		if errors.Is(err, keeper.ErrNoCluster) {
			return nothingToDelete(cmd, *name, output.json(), err)
		}
		if err != nil {
			return err
		}
		state := "deleted"
		what := state
		if ended.Stays {
			state, what = "released", "is released: it is kept, without holdfast's agents"
		}
		return output.printf(cmd, downState{ended.Name, state}, "cluster %s %s\n", ended.Name, what)
	}
	return cmd
}

// downState is what became of a cluster, as 'down -o json' prints it.
type downState struct {
	Name string `json:"name"`
	// State is "deleted", "released" (it stays, without what holdfast put in), or "absent".
	State string `json:"state"`
}

// nothingToDelete handles the deletion of a cluster that does not run, which is a success. If
// several clusters run, the user must name one.
func nothingToDelete(cmd *cobra.Command, name string, asJSON bool, err error) error {
	running, listing := keeper.List()
	switch {
	case listing != nil:
		return listing
	case name == "" && len(running) > 0:
		return exitWith(exitUsage, err)
	case asJSON:
		return reports.WriteJSON(cmd.OutOrStdout(), downState{name, "absent"})
	case name != "":
		name = " " + name
	}
	_, err = fmt.Fprintf(cmd.ErrOrStderr(), "no cluster%s is running: nothing to delete\n", name)
	return err
}

// clusterKubeconfig is what kubeconfig prints as JSON.
type clusterKubeconfig struct {
	Name string `json:"name"`
	// Kubeconfig is the path of the file.
	Kubeconfig string `json:"kubeconfig"`
}

func newKubeconfigCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print the path of a kubeconfig that works from this machine",
		Long: `Print the path of an administrator's kubeconfig of a running cluster, for clients on this
machine. It points to the load balancer, and works until the cluster is deleted.`,
		Example: `  export KUBECONFIG=$(holdfast kubeconfig)
  kubectl get nodes`,
	}
	open := addNameFlag(cmd)
	output := addOutputFlag[clusterKubeconfig](cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		h, err := open()
		if err != nil {
			return err
		}
		return output.printf(cmd, clusterKubeconfig{h.Name, h.Kubeconfig()}, "%s\n", h.Kubeconfig())
	}
	return cmd
}

func newKubectlCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:                   "kubectl [--name CLUSTER] ARGS",
		DisableFlagsInUseLine: true,
		Short:                 "Run a kubectl of the cluster's version against the cluster",
		Long: `Run a kubectl of the cluster's version against the cluster. Flags of holdfast come before
kubectl's first argument; everything after it belongs to kubectl.`,
		Example: `  holdfast kubectl get nodes
  holdfast kubectl --name five get leases -n kube-system`,
		Args: cobra.ArbitraryArgs,
	}
	cmd.Flags().SetInterspersed(false)
	open := addNameFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		h, err := open()
		if err != nil {
			return err
		}
		path, err := h.Kubectl(cmd.Context())
		if err != nil {
			return err
		}
		kubectl := exec.CommandContext(cmd.Context(), path, args...)
		kubectl.Env = append(os.Environ(), "KUBECONFIG="+h.Kubeconfig())
		return runChild(cmd, kubectl)
	}
	return cmd
}

func newShellCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "shell [HOST] [-- COMMAND]",
		Short: "Run a shell or a command on a machine of the cluster",
		Long: `Run a shell, or a command, on a machine of the cluster, with KUBECONFIG and
etcdctl's environment variables set for that node. On a local cluster etcdctl is available, too.
Without HOST it runs on the machine that holdfast runs on, in the cluster's network.
'holdfast status' lists the machines.`,
		Example: `  holdfast shell node-2
  holdfast shell node-2 -- ip address
  holdfast shell node-1 -- etcdctl endpoint status --cluster -w table
  holdfast shell --name demo demo-control-plane2 -- journalctl -u kubelet
  holdfast shell -- curl -k https://10.77.0.10:6443/readyz`,
		Args: cobra.ArbitraryArgs,
	}
	open := addNameFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var host string
		argv := args
		if dash := cmd.ArgsLenAtDash(); dash >= 0 {
			argv, args = args[dash:], args[:dash]
		} else {
			argv = nil
		}
		if len(args) > 1 {
			return usageError("shell takes one host, and a command after --")
		}
		if len(args) == 1 {
			host = args[0]
		}
		h, err := open()
		if err != nil {
			return err
		}
		shell, err := h.Shell(cmd.Context(), host, argv...)
		if errors.Is(err, keeper.ErrNoHost) {
			return exitWith(exitUsage, err)
		}
		if err != nil {
			return err
		}
		return runChild(cmd, shell)
	}
	return cmd
}

// runChild runs a program in place of this one, with its streams, and exits with its exit code.
func runChild(cmd *cobra.Command, child *exec.Cmd) error {
	child.Stdin, child.Stdout, child.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	child.Cancel = func() error { return child.Process.Signal(syscall.SIGTERM) }
	child.WaitDelay = 5 * time.Second
	err := child.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() >= 0 {
		return exitWith(exit.ExitCode(), nil)
	}
	return err
}

func newLogsCommand() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs HOST COMPONENT",
		Short: "Print the log of a component",
		Long: `Print the log of a component on a machine of the cluster. 'holdfast status' lists the machines
(HOST) and the components on them, such as etcd, kube-apiserver, kube-controller-manager and
kube-scheduler on control-plane nodes, and load-balancer on the machine balancer. Control-plane
nodes also have audit, the audit log of the API server; nodes of kind clusters, kubelet. For a
log that does not exist, the error lists those that do.`,
		Example: `  holdfast logs node-1 kube-apiserver
  holdfast logs balancer load-balancer --follow
  holdfast logs node-1 audit
  holdfast logs --name demo demo-control-plane kubelet`,
		Args: arguments("HOST", "COMPONENT"),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "keep printing new lines")
	open := addNameFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		h, err := open()
		if err != nil {
			return err
		}
		err = h.Log(cmd.Context(), args[0], args[1], follow, cmd.OutOrStdout())
		if errors.Is(err, keeper.ErrNoLog) || errors.Is(err, keeper.ErrNoHost) {
			return exitWith(exitUsage, err)
		}
		return err
	}
	return cmd
}
