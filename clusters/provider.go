package clusters

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/framework"
)

// Provider makes clusters in one way.
type Provider interface {
	// Name is what users call it, such as local.
	Name() string
	// Lacks says what of a description this provider cannot make on this machine, and
	// how it could; empty where it can make all.
	Lacks(*Cluster) string
	// Prepare gets what clusters of these descriptions are made of, such as binaries,
	// as far as this machine does not have it yet.
	Prepare(ctx context.Context, p Preparation, all ...*Cluster) error
	// Create makes a cluster and returns when it is ready. When it fails, nothing of
	// the cluster is left.
	Create(ctx context.Context, c *Cluster, o Options) (Made, error)
}

// Launcher is the ability of a provider whose clusters are made in a process of their own
// kind, such as one in namespaces.
type Launcher interface {
	// Command returns a command that runs this program again, with args, where Create
	// can be called. Descriptors that the caller puts behind those in ExtraFiles follow
	// the three streams and these. Cancelling ctx sends it SIGINT.
	Command(ctx context.Context, args ...string) (*exec.Cmd, error)
	// Explain adds to an error of starting such a command what to do about it.
	Explain(error) error
}

// Command returns a command that runs this program again, with args, where p's Create can be
// called: see Launcher.
func Command(ctx context.Context, p Provider, args ...string) (*exec.Cmd, error) {
	if l, ok := p.(Launcher); ok {
		return l.Command(ctx, args...)
	}
	return Again(ctx, args...)
}

// Explain adds to an error of starting a Command what to do about it.
func Explain(p Provider, err error) error {
	if l, ok := p.(Launcher); ok {
		return l.Explain(err)
	}
	return err
}

// Again returns a command that runs this program again, with args. Cancelling ctx sends it
// SIGINT.
func Again(ctx context.Context, args ...string) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("failed to find this program's own file: %w", err)
	}
	cmd := exec.CommandContext(ctx, exe, args...)
	cmd.Args[0] = os.Args[0]
	// A group of its own, so that Ctrl-C reaches only this process.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	return cmd, nil
}

// Main turns copies of the program that one of the providers has started into what they
// are to be, such as a node agent, and does not return in them. Call it first thing in main
// or TestMain.
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

// ErrTaken is in the error of a Create for a name that is taken.
var ErrTaken = errors.New("the name is taken")

// ErrMissing is in the error of a Describe for a cluster that there is not.
var ErrMissing = errors.New("there is no such cluster")

// Sizer is the ability of a provider to tell what one of its clusters takes.
type Sizer interface {
	// Machines is how many control-plane nodes of the local provider would take as much
	// of the processors and of the memory.
	Machines(*Cluster) int
	// Creation is about how long making one and taking it down takes on 2 cores.
	Creation() time.Duration
}

// Creation is what a Sizer says of a provider's clusters; those of the local provider
// take seconds.
func Creation(p Provider) time.Duration {
	if s, ok := p.(Sizer); ok {
		return s.Creation()
	}
	return 8 * time.Second
}

// Settler is the ability of a provider to tell how its clusters come to rest.
type Settler interface {
	// Settling is for how long one that is ready may continue with what its machines do
	// first, such as starting pods: for so long it is waited at most until the processors
	// have time to spare.
	Settling() time.Duration
}

// Sweeper is the ability of a provider to end clusters that outlive the processes they
// were made by.
type Sweeper interface {
	// Sweep ends those whose processes have ended without ending them.
	Sweep(context.Context) error
}

// Remover is the ability of a provider to end a cluster that is known by its name alone.
type Remover interface {
	// Remove deletes the cluster of a name, unless a process that lives has made it, and
	// returns whether there was one. One that the provider did not make stays.
	Remove(ctx context.Context, name string) (bool, error)
}

// Attacher is the ability of a provider to take over clusters that somebody else has made.
type Attacher interface {
	// Describe describes one, as far as it can be told.
	Describe(ctx context.Context, name string) (*Cluster, error)
	// Attach takes over what Describe described, and returns as Create does. Closing it
	// takes out what was put in, and leaves the cluster.
	Attach(ctx context.Context, c *Cluster, o Options) (Made, error)
	// Detach does that for a cluster that no process has taken over any more, or deletes
	// it. It does nothing if there is nothing to take out. Of the description it may be
	// that only the name is known.
	Detach(ctx context.Context, c *Cluster, deleted bool) error
}

// Permitter is the ability of a provider to say beforehand why Attach would refuse a cluster.
type Permitter interface {
	// Permit returns nil if the owner of the cluster allows that it is taken over.
	Permit(ctx context.Context, c *Cluster) error
}

// Footprinter is the ability of a provider to say what a run puts into a cluster that is
// taken over, besides objects of the API.
type Footprinter interface {
	// Footprint returns one line for each thing, and where it is; none if nothing is put
	// there. A line completes "if the owner consents to it".
	Footprint(c *Cluster) []string
}

// Made is a cluster that a provider has made.
type Made interface {
	framework.Cluster
	// Close ends the cluster. Logs stay.
	Close(context.Context) error
}

// Preparation says how a provider prepares.
type Preparation struct {
	// Release says where binaries come from, and is told how that goes.
	Release release.Options
	// Progress is told what else happens, one line a step; nil for silence.
	Progress func(string)
}

// SnapshotDir is the directory of a results directory for snapshots of etcd. They have secrets:
// neither records nor bundles have any of it.
const SnapshotDir = "etcd-snapshots"

// Options say how a cluster is made, by whatever provider.
type Options struct {
	// Dir is where what is kept of the cluster goes, LogDir its logs
	// (NODE/COMPONENT.log), and DataDir what is to be on disk: a directory that must not
	// exist and that Close removes. Without LogDir, the cluster is one that is kept (see
	// clusters/keeper): its logs are looked at while it is there, and go with it.
	Dir, LogDir, DataDir string
	// Snapshots is the directory where Attach keeps a snapshot of etcd, if it takes one before
	// what may lose data is done to a cluster. It has secrets, and Close leaves it.
	Snapshots string
	// NoWait returns as soon as the machines run; the cluster may not be ready then.
	NoWait bool
	// Seed makes the network's impairments repeatable, as far as the provider can.
	Seed uint64
	// Progress is told what happens, one line a step; nil for silence.
	Progress func(string)
}
