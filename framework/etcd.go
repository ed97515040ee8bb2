package framework

import "context"

// EtcdOperator is the ability of a node to give its etcd member other data, as
// people do who repair a cluster.
type EtcdOperator interface {
	// RejoinEtcd ends the member, wipes its data and starts it as a new member
	// of the cluster of these members, to which it has been added before. It
	// returns once the member was told to start.
	RejoinEtcd(ctx context.Context, members []EtcdPeer) error
	// RestoreEtcd replaces the data of a member that does not run, because it
	// is held down, by a snapshot: the path of a file as etcd's Snapshot call
	// writes it. From its next start on it is one of these members of a new
	// cluster, which all have to be restored from the same snapshot. Its revision is
	// higher by bump, and all before that counts as compacted, so that no client sees the
	// revision go back; 0 leaves it as it was.
	RestoreEtcd(ctx context.Context, snapshot string, members []EtcdPeer, bump uint64) error
}

// EtcdPeer is an etcd member as others reach it.
type EtcdPeer struct {
	Name string `json:"name"`
	// URLs are those of the member's peer port.
	URLs []string `json:"urls"`
}
