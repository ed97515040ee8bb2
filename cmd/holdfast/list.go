package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/clusters/keeper"
	"github.com/holdfast-ha/holdfast/framework"
)

// listed is a cluster as `holdfast list` shows it.
type listed struct {
	Name       string    `json:"name"`
	Provider   string    `json:"provider"`
	Nodes      int       `json:"nodes"`
	Kubernetes string    `json:"kubernetes"`
	Started    time.Time `json:"started,omitzero"`
	State      string    `json:"state"`
}

func newListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the running clusters",
		Long: `List the running clusters that 'holdfast up' created or took over, on all providers. The state
is ready, not ready, or why it cannot be read.`,
		Example: `  holdfast list
  holdfast list -o json`,
	}
	output := addOutputFlag[[]listed](cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		all, err := listClusters(cmd.Context())
		if err != nil {
			return err
		}
		return output.print(cmd, all, func(w io.Writer) error { return printList(w, all) })
	}
	return cmd
}

// listClusters queries the state of all clusters at the same time.
func listClusters(ctx context.Context) ([]listed, error) {
	names, err := keeper.List()
	if err != nil {
		return nil, err
	}
	return framework.Map(names, func(name string) listed { return describeCluster(ctx, name) }), nil
}

func describeCluster(ctx context.Context, name string) listed {
	l := listed{Name: name}
	h, err := keeper.Open(providers, name)
	if err != nil {
		l.State = firstLine(err.Error())
		return l
	}
	l.Provider = h.Provider()
	if spec, err := h.Spec(); err == nil {
		l.Nodes, l.Kubernetes = len(spec.Spec.Nodes), spec.Spec.KubernetesVersion
	}
	status, err := h.Status(ctx)
	switch {
	case err != nil:
		l.State = firstLine(err.Error())
		return l
	case status.Ready:
		l.State = "ready"
	default:
		l.State = "not ready"
	}
	l.Started = status.Started
	return l
}

func printList(out io.Writer, all []listed) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "no cluster is running; create one with: holdfast up")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tPROVIDER\tNODES\tKUBERNETES\tAGE\tSTATE")
	for _, l := range all {
		age := "-"
		if !l.Started.IsZero() {
			age = time.Since(l.Started).Round(time.Second).String()
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\n", l.Name, l.Provider, l.Nodes, l.Kubernetes, age, l.State)
	}
	return w.Flush()
}
