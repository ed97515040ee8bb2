package keeper

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
)

// Access is the ability of a provider to have its clusters kept, and to let users of this
// machine at them. It is called outside of where clusters are made.
type Access interface {
	// EndLimit is how long one of its clusters may take to end on its own.
	EndLimit() time.Duration
	// Shell returns a command that runs argv, or a shell where that is empty, on a
	// machine of the cluster, or beside the harness where host is nil. Its streams are
	// the caller's to set.
	Shell(ctx context.Context, h *Handle, host *HostStatus, argv ...string) (*exec.Cmd, error)
	// Log writes the log of a component on a machine to out and, where follow is set,
	// what is added to it until ctx ends. Its error is ErrNoLog for one that is not
	// there, and names those that are.
	Log(ctx context.Context, h *Handle, host, component string, follow bool, out io.Writer) error
	// Kubectl returns the path of a kubectl of the cluster's version.
	Kubectl(ctx context.Context, h *Handle) (string, error)
}

// Kept is the ability of a cluster to be kept.
type Kept interface {
	// Ready returns when the cluster is ready, or says why it is not.
	Ready(context.Context) error
	// Kubeconfig returns an administrator's kubeconfig for clients that reach the first
	// entrance at the URL server.
	Kubeconfig(server string) ([]byte, error)
	// Hosts looks at every machine at once. Versions and Etcd are filled in by Look.
	Hosts(context.Context) []HostStatus
	// NetworkState says what joins the machines, and how many impairments of that are
	// active.
	NetworkState() (what string, impairments int)
}

// made is a cluster that the server has made.
type made interface {
	clusters.Made
	Kept
}

// create has a provider make a cluster that can be kept, or take one over.
func create(ctx context.Context, p clusters.Provider, attach bool, spec *clusters.Cluster, o clusters.Options) (made, error) {
	do := p.Create
	if attach {
		a, err := attacher(p)
		if err != nil {
			return nil, err
		}
		do = a.Attach
	}
	c, err := do(ctx, spec, o)
	if err != nil {
		return nil, err
	}
	if m, ok := c.(made); ok {
		return m, nil
	}
	_ = c.Close(context.WithoutCancel(ctx))
	return nil, fmt.Errorf("the clusters of the provider %s cannot be kept", p.Name())
}

// provider returns the one of a name.
func provider(all []clusters.Provider, name string) (clusters.Provider, error) {
	for _, p := range all {
		if p.Name() == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("this program has no provider %q", name)
}

// attacher returns the ability of the provider.
func attacher(p clusters.Provider) (clusters.Attacher, error) {
	a, ok := p.(clusters.Attacher)
	if !ok {
		return nil, fmt.Errorf("the provider %s cannot take clusters over", p.Name())
	}
	return a, nil
}

// access returns the ability of the provider.
func access(p clusters.Provider) (Access, error) {
	a, ok := p.(Access)
	if !ok {
		return nil, fmt.Errorf("clusters of the provider %s cannot be kept", p.Name())
	}
	return a, nil
}
