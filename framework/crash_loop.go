package framework

import (
	"context"
	"time"
)

// CrashLooper is the ability of a node to make a component fail again and
// again. Like Killer, it belongs to the Cluster for what is on no node.
type CrashLooper interface {
	// CrashLoop sends SIGKILL now, and again when after has passed since each
	// start that the process watcher makes, until ttl has passed. A component
	// has one crash loop at most: see Process.CrashLooped.
	CrashLoop(ctx context.Context, c Component, after, ttl time.Duration) error
	// EndCrashLoop ends it and starts the component without further delay;
	// it does nothing where there is no crash loop.
	EndCrashLoop(ctx context.Context, c Component) error
}
