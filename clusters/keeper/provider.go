package keeper

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
)

// Access is the ability of a provider to have its clusters kept, and to give users of this
// machine access to them. It is called outside of where clusters are made.
type Access interface {
	// EndLimit is how long one of its clusters may take to end automatically.
	EndLimit() time.Duration
	// Shell returns a command that runs argv, or a shell if argv is empty, on a machine of the
	// cluster, or on the harness's if host is nil. The caller sets its streams.
	Shell(ctx context.Context, h *Handle, host *HostStatus, argv ...string) (*exec.Cmd, error)
	// Log writes the log of a component on a machine to out. If follow is set, it also writes
	// what is appended until ctx ends. For a log that does not exist the error is ErrNoLog, and
	// lists the existing logs.
	Log(ctx context.Context, h *Handle, host, component string, follow bool, out io.Writer) error
	// Kubectl returns the path of a kubectl of the cluster's version.
	Kubectl(ctx context.Context, h *Handle) (string, error)
}

// Kept is the ability of a cluster to be kept.
type Kept interface {
	// Ready returns when the cluster is ready, or why it is not.
	Ready(context.Context) error
	// Kubeconfig returns an administrator's kubeconfig for clients that reach the first
	// entrance at the URL server.
	Kubeconfig(server string) ([]byte, error)
	// Hosts queries all machines concurrently. Look fills in Versions and Etcd.
	Hosts(context.Context) []HostStatus
	// NetworkState returns the kind of device that joins the machines, and the number of active
	// impairments.
	NetworkState() (what string, impairments int)
}

// made is a cluster that the server has created.
type made interface {
	clusters.Made
	Kept
}

// create has a provider create a cluster that can be kept, or attach to one.
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
	return nil, fmt.Errorf("the provider %s does not support long-lived clusters", p.Name())
}

// provider returns the provider with a name.
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
		return nil, fmt.Errorf("the provider %s cannot take over clusters", p.Name())
	}
	return a, nil
}

// access returns the ability of the provider.
func access(p clusters.Provider) (Access, error) {
	a, ok := p.(Access)
	if !ok {
		return nil, fmt.Errorf("the provider %s does not support long-lived clusters", p.Name())
	}
	return a, nil
}
