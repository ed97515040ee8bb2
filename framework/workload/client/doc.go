// Package client has the bare clients that the harness uses: an HTTP client for the Kubernetes
// API (API) and a connection to one etcd member (NewEtcd).
//
// They differ from client-go's in what a history of operations needs. Nothing is retried, limited
// or cached; each client has connections of its own; and the response says whether a request can
// have left the machine at all, so that Outcome can distinguish "certainly without effect" from
// "may have had one".
//
// The API client speaks HTTP/1.1, so that a hanging request does not block others and cancelling
// it closes its connection. With Options.ClientGo it connects as client-go does instead, on one
// HTTP/2 connection.
//
// Tests need only loopback: go test ./framework/workload/client/
package client
