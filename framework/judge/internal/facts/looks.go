package facts

import "github.com/holdfast-ha/holdfast/framework/record"

// isLook reports whether an operation checks the control plane itself, how it answers or what it
// consists of, rather than data that clients keep in it.
func isLook(op record.Op) bool {
	switch op.Purpose {
	case "ready", "version", "certificate", "token", "lock", "mixed-object", "addon", PurposeEmulated, PurposeExpiry, PurposeServed, PurposeTrust, PurposeUnknownEtcdClient, PurposeUnknownReader, PurposeAddMember,
		PurposeSnapshot, PurposeInformedWrite, PurposeInformedVersion, PurposeInformedStore, PurposeInformedList:
		return true
	}
	return false
}

const PurposeExpiry = "expiry"

// PurposeEmulated marks the versions that API servers emulate.
const PurposeEmulated = "emulated-version"

// The purposes of checks of the certificates that ports serve, and of the clients that they
// accept.
const (
	PurposeServed = "served"
	PurposeTrust  = "trust"
)

const (
	PurposeUnknownEtcdClient = "unknown-etcd-client"
	PurposeUnknownReader     = "unknown-reader"
)

// PurposeFailover marks the requests of a client that knows several addresses.
const PurposeFailover = "failover"

// PurposeBurst marks the operations of clients that update one register through all API servers at
// the same moment, around a fault. They give up sooner than other clients, and do not pause before
// they write again: that they had no answer, even twice, is not a failure of the cluster.
const PurposeBurst = "burst"

// The purposes of the reads and of the write of every register after the traffic has stopped.
const (
	PurposeFinalRead  = "final-read"
	PurposeFinalWrite = "final-write"
)

// The purposes of the records of the workload's informers and their writer.
const (
	PurposeInformedWrite   = "informed-write"
	PurposeInformedVersion = "informed-version"
	PurposeInformedStore   = "informed-store"
	PurposeInformedList    = "informed-list"
)

// PurposeSnapshot marks snapshots of etcd.
const PurposeSnapshot = "snapshot"

// PurposeAddMember marks requests to etcd to add a member.
const PurposeAddMember = "add-member"
