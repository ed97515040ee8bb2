package remote

import (
	"context"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// mayFill returns an error unless the volume of etcd's data may be filled: the owner must have
// consented, and etcd must have a process of its own, and its log on the volume.
func (n *node) mayFill() error {
	const what = "fill the volume of etcd's data"
	if err := n.cluster.permits(Data, what); err != nil {
		return err
	}
	why := n.found.logElsewhere()
	if n.found.fused(framework.Etcd) {
		why = "its etcd shares a process with other components, which would exit with it"
	}
	if why != "" {
		return framework.Untouched{Err: &fault.MissingAbility{Ability: "DiskFiller", Of: "node " + n.Name(), For: "to " + what, Why: why}}
	}
	return nil
}

// CheckFill implements framework.DiskFiller.
func (n *node) CheckFill(ctx context.Context) error {
	if err := n.mayFill(); err != nil {
		return err
	}
	return n.Client.CheckVolume(ctx)
}

// FillDisk implements framework.DiskFiller, if the owner has consented. A member without space
// serves as little as one that is down.
func (n *node) FillDisk(ctx context.Context, free int64, ttl time.Duration) (string, error) {
	if err := n.mayFill(); err != nil {
		return "", err
	}
	key := n.Name() + "/" + string(framework.Etcd) + " volume"
	return n.cluster.counts(key, []string{n.Name()}, ttl, func() (string, error) { return n.Client.FillVolume(ctx, free, ttl) })
}

// EmptyDisk implements framework.DiskFiller.
func (n *node) EmptyDisk(ctx context.Context, handle string) error {
	return n.cluster.broken.mendUnless(handle, n.Client.EmptyVolume(ctx, handle))
}

// ProbeDisk implements framework.DiskFiller.
func (n *node) ProbeDisk(ctx context.Context) (framework.DiskProbe, error) {
	return n.Client.ProbeVolume(ctx)
}
