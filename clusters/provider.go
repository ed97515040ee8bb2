package clusters

import (
	"context"
	"errors"
	"os/exec"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// Provider creates clusters of one kind.
type Provider interface {
	// Name is the provider's name for users, such as local.
	Name() string
	// Lacks returns which parts of a description this provider cannot create on this machine,
	// and what to do about it; empty if it can create all.
	Lacks(*Cluster) string
	// Prepare downloads or builds what clusters of these descriptions need, such as binaries,
	// if this machine does not have it yet.
	Prepare(ctx context.Context, p Preparation, all ...*Cluster) error
	// Create creates a cluster and returns when it is ready. If it fails, nothing of the
	// cluster is left.
	Create(ctx context.Context, c *Cluster, o Options) (Made, error)
}

// ChangeLimiter is the ability of a provider to report in advance which changes of nodes its
// clusters cannot make.
type ChangeLimiter interface {
	// LacksChange returns why no cluster of the provider can make a change; empty if it can.
	// The change has the name of a scenario's action, or is "downgrade", which also takes an
	// upgrade back.
	LacksChange(change string) string
}

// Launcher is the ability of a provider whose clusters are created in a special process, such
// as one in namespaces.
type Launcher interface {
	// Command returns a command that runs this program again, with args, where Create can be
	// called. The child's descriptors are the three streams, those in ExtraFiles, and then any
	// that the caller appends. Cancelling ctx sends it SIGINT.
	Command(ctx context.Context, args ...string) (*exec.Cmd, error)
	// Explain adds advice to an error of starting such a command.
	Explain(error) error
}

// Command returns a command that runs this program again, with args, where p's Create can be
// called: see Launcher.
func Command(ctx context.Context, p Provider, args ...string) (*exec.Cmd, error) {
	if l, ok := p.(Launcher); ok {
		return l.Command(ctx, args...)
	}
	return system.Again(ctx, args...), nil
}

// Explain adds advice to an error of starting a Command.
func Explain(p Provider, err error) error {
	if l, ok := p.(Launcher); ok {
		return l.Explain(err)
	}
	return err
}

// Main runs copies of the program that one of the providers has started in their roles, such as
// a node agent, and does not return in them. Call it first in main or TestMain.
func Main(providers ...Provider) {
	for _, p := range providers {
		if r, ok := p.(Reexecuter); ok {
			r.Main()
		}
	}
}

// Reexecuter is the ability of a provider that starts copies of the program.
type Reexecuter interface {
	// Main is the provider's part of the function Main.
	Main()
}

// ErrTaken is in the error of Create for a name that is taken.
var ErrTaken = errors.New("the name is taken")

// ErrUnsafe is in the error of an Attach to a cluster with an activity that faults would disturb, or
// that would make them worse, and to one that is not healthy.
var ErrUnsafe = errors.New("refusing to inject faults into this cluster")

// ErrMissing is in the error of Describe for a cluster that does not exist.
var ErrMissing = errors.New("the cluster does not exist")

// Sizer is the ability of a provider to report the size of one of its clusters.
type Sizer interface {
	// Machines is the number of control-plane nodes of the local provider that would use as
	// much CPU time and memory.
	Machines(*Cluster) int
	// Creation is about how long creating and deleting one takes on 2 cores.
	Creation() time.Duration
}

// Creation returns a Sizer's Creation; clusters of the local provider take seconds.
func Creation(p Provider) time.Duration {
	if s, ok := p.(Sizer); ok {
		return s.Creation()
	}
	return 8 * time.Second
}

// Settler is the ability of a provider to report how long its clusters take to settle.
type Settler interface {
	// Settling is how long a ready cluster may continue its initial work, such as starting
	// pods: the longest wait until the CPUs are partly idle.
	Settling() time.Duration
}

// Sweeper is the ability of a provider to delete clusters that outlive the processes that
// created them.
type Sweeper interface {
	// Sweep deletes those whose processes exited without deleting them.
	Sweep(context.Context) error
}

// Remover is the ability of a provider to delete a cluster by its name alone.
type Remover interface {
	// Remove deletes the cluster of a name, unless it belongs to a running process, and returns
	// whether there was one. A cluster that the provider did not create stays.
	Remove(ctx context.Context, name string) (bool, error)
}

// Attacher is the ability of a provider to attach to clusters that another tool created.
type Attacher interface {
	// Describe describes one, as far as its configuration is known.
	Describe(ctx context.Context, name string) (*Cluster, error)
	// Attach attaches to the cluster that Describe described, and returns like Create. Closing
	// it removes what was installed, and leaves the cluster.
	Attach(ctx context.Context, c *Cluster, o Options) (Made, error)
	// Detach does that for a cluster that no process is attached to any more, or deletes it. It
	// does nothing if there is nothing to remove. The description may contain only the name.
	Detach(ctx context.Context, c *Cluster, deleted bool) error
}

// Redescriber is the ability of an Attacher whose Describe takes something else than the name of a
// cluster.
type Redescriber interface {
	// Redescribe describes a cluster again that Describe described.
	Redescribe(ctx context.Context, c *Cluster) (*Cluster, error)
}

// Expander is the ability of a provider to add control-plane nodes to a cluster that it is attached
// to, for some time: closing the cluster, and Detach, remove those that are left.
type Expander interface {
	// Expands returns nil if it can do that with the cluster that Describe described, or why it
	// cannot.
	Expands(ctx context.Context, c *Cluster) error
}

// Permitter is the ability of a provider to predict whether Attach would refuse a cluster.
type Permitter interface {
	// Permit returns nil if the owner of the cluster allows attaching to it, the cluster is safe for
	// faults, the owner may allow one of them, and none would cut this process off from it. Of each
	// fault it receives the effects, none if they are not known. Without faults, the cluster need not
	// be healthy.
	Permit(ctx context.Context, c *Cluster, faults ...[]record.Effect) error
}

// Permitted is the ability of an attached cluster to check again what Permit checks.
type Permitted interface {
	// Permitted returns nil if the owner of the cluster still permits faults, and nothing has
	// started that makes them unsafe.
	Permitted(ctx context.Context) error
}

// Footprinter is the ability of a provider to list what a run installs on an attached cluster,
// besides objects of the API.
type Footprinter interface {
	// Footprint returns one line for each thing and its location; empty if nothing is
	// installed. A line completes "with the owner's consent:".
	Footprint(c *Cluster) []string
}

// Leasher is the ability of a provider to have the nodes of an attached cluster heal faults that
// have time left, once they receive no more requests from this process.
type Leasher interface {
	// Leash returns after how long they do.
	Leash() time.Duration
}

// Made is a cluster that a provider has created.
type Made interface {
	framework.Cluster
	// Close deletes the cluster. Logs stay.
	Close(context.Context) error
}

// Preparation configures how a provider prepares.
type Preparation struct {
	// Release configures the source of binaries, and receives the progress.
	Release release.Options
	// Progress receives one line per other step; nil for silence.
	Progress func(string)
}

// SnapshotDir is the directory of a results directory for snapshots of etcd. They contain
// secrets: neither records nor bundles include them.
const SnapshotDir = "etcd-snapshots"

// Options configure how a provider creates a cluster.
type Options struct {
	// Dir is the cluster's directory, LogDir that of its logs (NODE/COMPONENT.log), and DataDir
	// that of data on disk: a directory that must not exist and that Close removes. Without
	// LogDir, the cluster is a kept one (see clusters/keeper): its logs are read while it
	// exists, and are deleted with it.
	Dir, LogDir, DataDir string
	// Snapshots is the directory where Attach keeps a snapshot of etcd, if it takes one before
	// actions that may lose data of a cluster. It contains secrets, and Close leaves it.
	Snapshots string
	// Harmless means that nothing is injected into the cluster, so that Attach accepts one that is
	// not healthy.
	Harmless bool
	// NoWait returns as soon as the machines run; the cluster may not be ready then.
	NoWait bool
	// Seed makes the network's impairments repeatable, as far as the provider can.
	Seed uint64
	// Progress receives one line per step; nil for silence.
	Progress func(string)
}
