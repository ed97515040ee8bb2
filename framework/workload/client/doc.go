// Package client holds the bare clients with which the harness asks a cluster:
// an HTTP client for the Kubernetes API (API) and a connection to one etcd
// member (NewEtcd).
//
// They differ from client-go's in what a history of operations needs. Nothing
// is retried, limited or cached; each client has connections of its own; and
// the answer says whether a request can have left the machine at all, from
// which Outcome tells "certainly without effect" from "may have had one".
//
// The API client speaks HTTP/1.1, so that one request that hangs holds up no
// other and giving it up closes its connection. With Options.ClientGo it connects as
// users of client-go do instead, on one HTTP/2 connection.
//
// Tests need nothing but loopback: go test ./framework/workload/client/
package client
