package framework

import "context"

// Upgrader is the ability of a cluster to have its nodes change to another version of
// Kubernetes, one at a time, while it runs. Versions follows node by node.
//
// The order is the caller's: control-plane nodes first, in any order, then workers. What
// the version skew policy forbids is refused before anything is touched: API servers are
// at most one minor version apart, and a kubelet is never newer than an API server nor
// more than three minor versions older
// (https://kubernetes.io/releases/version-skew-policy).
type Upgrader interface {
	// UpgradeNode has a control-plane node or a worker change to a version ("v1.37.1")
	// and returns when it serves in that: its components and, where it has one, its
	// kubelet run it and are ready. It does nothing on a node that runs it already.
	// Its components restart, one after the other; pods of others stay.
	//
	// A version that is lower than the node's takes it back. A provider that cannot do
	// that says so with errors.ErrUnsupported.
	//
	// An error that is ErrNothingDone has left everything as it was. Any other leaves
	// the node between the two versions, some of its components in the one and some in
	// the other; it may be tried again. Nothing but that node has changed, except for
	// what the cluster's nodes share, such as its add-ons.
	UpgradeNode(ctx context.Context, name, version string) error
	// CheckUpgrade returns the error with which UpgradeNode would refuse, which is
	// ErrNothingDone, or nil. It changes nothing and gets nothing.
	CheckUpgrade(ctx context.Context, name, version string) error
	// UpgradeOrder returns the names of all nodes that can be upgraded, workers included,
	// in an order in which they may be.
	UpgradeOrder() []string
}

// EtcdUpgrader is the ability of a cluster to have its etcd members change to another
// version, one at a time, while it runs; on other providers etcd follows UpgradeNode.
type EtcdUpgrader interface {
	// UpgradeEtcd has the member of a control-plane node change to a version ("v3.7.3") and
	// returns when it serves in that and has caught up with the others. It does nothing if
	// the member runs it already. What etcd does not support, such as a lower version or
	// two minor versions at once, is refused before anything is touched
	// (https://etcd.io/docs/v3.7/upgrades); such an error is ErrNothingDone.
	UpgradeEtcd(ctx context.Context, name, version string) error
	// CheckEtcdUpgrade returns the error with which UpgradeEtcd would refuse, or nil. It
	// changes nothing and downloads nothing.
	CheckEtcdUpgrade(ctx context.Context, name, version string) error
}

// Reconfigurer is the ability of a cluster to restart the components of a node, one after
// the other, with other arguments, while the versions stay.
type Reconfigurer interface {
	// Reconfigure restarts the components that args names with these arguments besides, or
	// in the place of, those that they have, and returns when they are ready. An error may
	// leave some of them restarted; it may be tried again.
	Reconfigure(ctx context.Context, name string, args map[Component]map[string]string) error
}
