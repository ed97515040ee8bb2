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

// The purposes of operations that judges look for.
const (
	PurposeExpiry            = "expiry"
	PurposeEmulated          = "emulated-version" // the versions that API servers emulate
	PurposeServed            = "served"           // the certificates that ports serve
	PurposeTrust             = "trust"            // the clients that ports accept
	PurposeUnknownEtcdClient = "unknown-etcd-client"
	PurposeUnknownReader     = "unknown-reader"
	PurposeFailover          = "failover"   // the requests of a client that knows several addresses
	PurposeSnapshot          = "snapshot"   // snapshots of etcd
	PurposeAddMember         = "add-member" // requests to etcd to add a member

	// Of every register, after the traffic has stopped.
	PurposeFinalRead  = "final-read"
	PurposeFinalWrite = "final-write"

	// The records of the workload's informers and their writer.
	PurposeInformedWrite   = "informed-write"
	PurposeInformedVersion = "informed-version"
	PurposeInformedStore   = "informed-store"
	PurposeInformedList    = "informed-list"

	// PurposeBurst marks the operations of clients that update one register through all API servers at
	// the same moment, around a fault. They give up sooner than other clients, and do not pause before
	// they write again: that they had no answer, even twice, is not a failure of the cluster.
	PurposeBurst = "burst"
)
