package local

import (
	"context"
	"os/exec"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/clusters/sandbox"
	"github.com/holdfast-ha/holdfast/clusters/system"
)

// Provider makes clusters in sandboxes.
type Provider struct{}

var (
	_ clusters.Provider = Provider{}
	_ clusters.Launcher = Provider{}
	_ clusters.Sweeper  = Provider{}
)

// Name implements clusters.Provider.
func (Provider) Name() string { return "local" }

// Main implements clusters.Reexecuter.
func (Provider) Main() { Main() }

// Prepare implements clusters.Provider: it fetches binaries.
func (Provider) Prepare(ctx context.Context, p clusters.Preparation, all ...*clusters.Cluster) error {
	for _, c := range all {
		for _, b := range Binaries(c) {
			if _, err := release.Fetch(ctx, b.Product, b.Version, p.Release); err != nil {
				return err
			}
		}
	}
	return nil
}

// Command implements clusters.Launcher.
func (Provider) Command(ctx context.Context, args ...string) (*exec.Cmd, error) {
	return sandbox.Command(ctx, args...)
}

// Explain implements clusters.Launcher.
func (Provider) Explain(err error) error { return system.ExplainNamespaces(err) }

// Sweep implements clusters.Sweeper. The rest of a cluster disappears with its processes.
func (Provider) Sweep(context.Context) error {
	sweepLimits()
	return nil
}

// Create implements clusters.Provider.
func (Provider) Create(ctx context.Context, c *clusters.Cluster, o clusters.Options) (clusters.Made, error) {
	made, err := Create(ctx, c, Options{Options: o})
	if err != nil {
		return nil, err
	}
	return made, nil
}
