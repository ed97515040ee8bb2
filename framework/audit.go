package framework

import "context"

// AuditReader is the ability of a node to hand out the audit log of its API
// server: who asked it for what, and what came of it.
type AuditReader interface {
	// FollowAudit hands over every entry that comes after the call, in the log's
	// order, until ctx ends; then it returns nil. An entry is an Event of
	// audit.k8s.io/v1 as JSON, valid until the function returns. One of a log that
	// is rotated meanwhile is not lost.
	FollowAudit(ctx context.Context, entry func([]byte)) error
}
