// Package observe watches a cluster and records what it sees: the availability of every entrance,
// the addresses of the default/kubernetes service, the leases of elected components and their
// changes, the etcd members, the processes of the nodes, the load balancer's backends, and how
// late the harness itself runs. One observer, one file.
//
// Observers decide nothing. A failed query is recorded as such if the record has a place for it
// (probes, etcd, processes), and is a gap elsewhere.
//
// Tests need only loopback: go test ./framework/observe/
package observe
