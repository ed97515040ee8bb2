package facts

import "github.com/holdfast-ha/holdfast/framework/record"

// isLook reports whether an operation looks at the control plane as such, at how it
// answers or what it is made of, rather than at data that clients keep in it.
func isLook(op record.Op) bool {
	switch op.Purpose {
	case "ready", "version", "certificate", "token", "lock", "mixed-object", "addon", PurposeExpiry, PurposeServed, PurposeTrust, PurposeUnknownEtcdClient, PurposeUnknownReader, PurposeAddMember,
		PurposeSnapshot, PurposeInformedWrite, PurposeInformedVersion, PurposeInformedStore, PurposeInformedList:
		return true
	}
	return false
}

const PurposeExpiry = "expiry"

// The purposes of looks at the certificates that ports serve, and at whose clients are
// accepted.
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

// The purposes of the reads and of the write of every register after the traffic has ended.
const (
	PurposeFinalRead  = "final-read"
	PurposeFinalWrite = "final-write"
)

// The purposes of what the workload's informers and their writer record.
const (
	PurposeInformedWrite   = "informed-write"
	PurposeInformedVersion = "informed-version"
	PurposeInformedStore   = "informed-store"
	PurposeInformedList    = "informed-list"
)

// PurposeSnapshot marks snapshots of etcd.
const PurposeSnapshot = "snapshot"

// PurposeAddMember marks requests to etcd to take a further member.
const PurposeAddMember = "add-member"
