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
