package main

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/keeper"
	"github.com/holdfast-ha/holdfast/clusters/kind"
	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/framework/nearest"
)

// The values of --data and --disk, and the providers that create clusters.
var (
	dataPlaces = []string{string(clusters.DataMemory), string(clusters.DataDisk)}
	diskKinds  = []string{string(clusters.DiskNone), string(clusters.DiskFUSE)}
	creators   = []string{local.Provider{}.Name(), kind.Provider{}.Name()}
)

// clusterFlags are the flags that describe a cluster, for every command that creates one.
type clusterFlags struct {
	file, provider, name, kubernetes, etcd, balancer, data, disk string
	nodes                                                        int
	fileFlag                                                     string // its name
	inventory                                                    string
}

func (f *clusterFlags) add(cmd *cobra.Command, fileFlag, shorthand string) {
	flags := cmd.Flags()
	f.fileFlag = fileFlag
	flags.StringVarP(&f.file, fileFlag, shorthand, "", "cluster file (YAML), - for standard input; the other flags override it")
	flags.StringVar(&f.provider, "provider", "local", "provider of the cluster: local or kind")
	flags.StringVar(&f.name, "name", "", "name of the cluster (default "+clusters.Default().Metadata.Name+")")
	flags.IntVar(&f.nodes, "nodes", 0, "number of control-plane nodes: 1, 3, 5 or 7 (default 3)")
	flags.StringVar(&f.kubernetes, "kubernetes", "", "Kubernetes version (default "+release.DefaultKubernetes+")")
	flags.StringVar(&f.etcd, "etcd", "", "etcd version (default the built-in one, "+release.EmbeddedEtcd+")")
	flags.StringVar(&f.balancer, "lb", "", "load balancer: "+clusters.BalancerKinds()+" (default "+string(clusters.BalancerBuiltin)+")")
	flags.StringVar(&f.data, "data", "", "where the nodes keep their data: memory or disk (default memory)")
	flags.StringVar(&f.disk, "disk", "", "file system under etcd's data: fuse, for disk faults, or none (default none)")
}

// addTakeOver adds the flags for taking over a cluster that holdfast did not create.
func (f *clusterFlags) addTakeOver(cmd *cobra.Command, attach *string) {
	cmd.Flags().Lookup("provider").Usage = "provider of the cluster: " + providerNames()
	cmd.Flags().StringVar(attach, "attach", "", "name of an existing cluster to take over for the run (provider kind)")
	cmd.Flags().StringVar(&f.inventory, "inventory", "", "inventory `file` of an existing cluster to take over for the run (provider remote)")
}

// described reports whether the flags set more of the cluster than its size and versions; for
// these, see run.OfVersions.
func (f *clusterFlags) described() bool { return f.file != "" || f.balancer != "" || f.disk != "" }

// cluster returns the cluster that the flags describe, validated.
func (f *clusterFlags) cluster() (*clusters.Cluster, error) {
	if _, err := providerNamed(f.provider); err != nil {
		return nil, err
	}
	var err error
	spec := clusters.Default()
	if f.file != "" {
		if spec, err = clusters.Load(f.file); err != nil {
			return nil, exitWith(exitUsage, err)
		}
	}
	if f.name != "" {
		spec.Metadata.Name = f.name
	}
	switch f.nodes {
	case 0:
	case 1, 3, 5, 7:
		spec.SetNodes(f.nodes)
	default:
		return nil, usageError("--nodes %d: want 1, 3, 5 or 7, since an even number of etcd members tolerates no more failures than the odd number below it", f.nodes)
	}
	if f.kubernetes != "" {
		if spec.Spec.KubernetesVersion, err = release.ParseVersion(release.Kubernetes, f.kubernetes); err != nil {
			return nil, err
		}
	}
	if f.etcd != "" {
		if spec.Spec.EtcdVersion, err = release.ParseVersion(release.Etcd, f.etcd); err != nil {
			return nil, err
		}
	}
	for _, c := range []struct {
		flag, value string
		allowed     []string
		set         func(string)
	}{
		{"lb", f.balancer, clusters.Balancers(), func(v string) { spec.Spec.LoadBalancer.Kind = clusters.BalancerKind(v) }},
		{"data", f.data, dataPlaces, func(v string) { spec.Spec.Data = clusters.Data(v) }},
		{"disk", f.disk, diskKinds, func(v string) { spec.Spec.Disk = clusters.Disk(v) }},
	} {
		switch {
		case c.value == "":
		case slices.Contains(c.allowed, c.value):
			c.set(c.value)
		default:
			return nil, usageError("--%s %s: want %s%s", c.flag, c.value, oneOf(c.allowed), nearest.Meant(c.allowed, c.value))
		}
	}
	if err := spec.Validate(); err != nil {
		return nil, exitWith(exitUsage, err)
	}
	return spec, nil
}

// prepare makes a provider fetch what clusters need and this machine does not have.
func prepare(ctx context.Context, provider clusters.Provider, p *progress, all ...*clusters.Cluster) error {
	err := provider.Prepare(ctx, clusters.Preparation{Release: release.Options{Progress: fetchProgress(p)},
		Progress: func(line string) { p.Line("%s", line) }}, all...)
	p.Done()
	return err
}

// created is what up prints as JSON.
type created struct {
	Name       string `json:"name"`
	Provider   string `json:"provider"`
	Kubeconfig string `json:"kubeconfig"`
	// Ready means that the cluster was seen to be ready, which takes --wait.
	Ready bool `json:"ready"`
}

func newUpCommand() *cobra.Command {
	var f clusterFlags
	var o keeper.UpOptions
	var attach string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Create a cluster and leave it running",
		Long: `Create a highly available control plane and leave it running: etcd members, API
servers, controller managers and schedulers, each node on its own machine, a load
balancer in front and worker nodes behind.

With the provider local the machines are namespaces and the workers are simulated;
creating a cluster takes seconds. With the provider kind they are kind's containers in a
Docker engine, set up by kubeadm, and the workers are real; that takes a minute or two.

Missing binaries and images are downloaded or built first. Clusters with different names
run side by side. 'holdfast down' deletes the cluster.

With --attach holdfast takes over an existing cluster: it pins the cluster's addresses and
installs an agent on each machine. 'holdfast down' removes the agents again.`,
		Example: `  holdfast up --wait
  holdfast up --name five --nodes 5 --lb haproxy --wait
  holdfast up --provider kind --name demo --wait
  kind create cluster --name theirs && holdfast up --provider kind --attach theirs
  holdfast up -f cluster.yaml`,
	}
	f.add(cmd, "file", "f")
	cmd.Flags().BoolVar(&o.Wait, "wait", false, "return when the cluster is ready, not as soon as its machines run")
	cmd.Flags().StringVar(&attach, "attach", "", "name of an existing cluster to take over (provider kind only)")
	output := addOutputFlag[created](cmd)
	cmd.Flags().IntVar(&o.Port, "port", 0, "loopback port for clients on this machine (default any free one)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if o.Port < 0 || o.Port > 65535 {
			return usageError("--port %d: want a port from 1 to 65535, or 0 for any free one", o.Port)
		}
		if !slices.Contains(creators, f.provider) {
			return usageError("--provider %s: up creates clusters: want %s%s; to test an existing cluster: holdfast run --inventory nodes.yaml",
				f.provider, oneOf(creators), nearest.Meant(creators, f.provider))
		}
		p := newProgress(cmd.ErrOrStderr())
		provider, err := providerNamed(f.provider)
		if err != nil {
			return err
		}
		var spec *clusters.Cluster
		if o.Attach = attach != ""; o.Attach {
			spec, err = f.describe(cmd, provider, attach)
		} else {
			spec, err = f.prepared(cmd.Context(), provider, p)
		}
		if err != nil {
			return err
		}
		o.Progress = func(s string) { p.Line("%s", s) }
		h, err := keeper.Up(cmd.Context(), provider, spec, o)
		if errors.Is(err, clusters.ErrTaken) {
			return exitWith(exitUsage, err)
		}
		if err != nil {
			return err
		}
		state := "is ready"
		if !o.Wait {
			state = "is starting"
		}
		end := "delete it"
		if o.Attach {
			end = "release it"
		}
		return output.printf(cmd, created{h.Name, h.Provider(), h.Kubeconfig(), o.Wait}, "cluster %s %s: try `holdfast status`, `holdfast kubectl get nodes`; %s with `holdfast down`\n", h.Name, state, end)
	}
	return cmd
}

// prepared returns the cluster that the flags describe, once everything it needs is available.
func (f *clusterFlags) prepared(ctx context.Context, provider clusters.Provider, p *progress) (*clusters.Cluster, error) {
	spec, err := f.cluster()
	if err != nil {
		return nil, err
	}
	if why := provider.Lacks(spec); why != "" {
		return nil, usageError("--provider %s: %s", f.provider, why)
	}
	return spec, prepare(ctx, provider, p, spec)
}

func (f *clusterFlags) describe(cmd *cobra.Command, provider clusters.Provider, name string) (*clusters.Cluster, error) {
	a, ok := provider.(clusters.Attacher)
	if !ok {
		return nil, usageError("--attach: the provider %s cannot take over a cluster by name; use --provider kind", f.provider)
	}
	for _, flag := range []string{f.fileFlag, "name", "nodes", "kubernetes", "etcd", "lb", "data", "disk"} {
		if cmd.Flags().Changed(flag) {
			return nil, usageError("--%s: a cluster that is taken over keeps its name and its settings", flag)
		}
	}
	spec, err := a.Describe(cmd.Context(), name)
	if errors.Is(err, clusters.ErrMissing) || errors.Is(err, clusters.ErrTaken) {
		return nil, exitWith(exitUsage, err)
	}
	return spec, err
}
