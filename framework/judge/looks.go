package judge

import "github.com/holdfast-ha/holdfast/framework/record"

// isLook tells whether an operation looks at the control plane as such, at how it
// answers or what it is made of, rather than at data that clients keep in it.
func isLook(op record.Op) bool {
	switch op.Purpose {
	case "ready", "version", "certificate", "token", "lock", "mixed-object", "addon", purposeExpiry, purposeUnknownEtcdClient, purposeUnknownReader, purposeAddMember,
		purposeSnapshot, purposeInformedWrite, purposeInformedVersion, purposeInformedStore, purposeInformedList:
		return true
	}
	return false
}

const purposeExpiry = "expiry"

const (
	purposeUnknownEtcdClient = "unknown-etcd-client"
	purposeUnknownReader     = "unknown-reader"
)

// purposeFailover marks the requests of a client that knows several addresses.
const purposeFailover = "failover"

// The purposes of the reads and of the write of every register after the traffic has ended.
const (
	purposeFinalRead  = "final-read"
	purposeFinalWrite = "final-write"
)

// The purposes of what the workload's informers and their writer record.
const (
	purposeInformedWrite   = "informed-write"
	purposeInformedVersion = "informed-version"
	purposeInformedStore   = "informed-store"
	purposeInformedList    = "informed-list"
)

// purposeSnapshot marks snapshots of etcd.
const purposeSnapshot = "snapshot"

// purposeAddMember marks requests to etcd to take a further member.
const purposeAddMember = "add-member"
