package facts

import (
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// RetryAt is when a request may be repeated that was refused at some time.
func RetryAt(refused record.Nanos, retryAfter int) record.Nanos {
	return refused + record.Nanos(time.Duration(retryAfter)*time.Second)
}

// ToldToRepeat reports whether an API server that is shutting down rejected a request before
// doing anything, and said when to retry: Kubernetes clients do that automatically
// (k8s.io/apiserver/pkg/server/filters/waitgroup.go and with_retry_after.go,
// k8s.io/client-go/rest/with_retry.go). For records without the second part only the first
// counts.
func ToldToRepeat(problem string, retryAfter int) bool {
	return strings.Contains(problem, "apiserver is shutting down") && retryAfter >= 0
}
