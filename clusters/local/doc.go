// Package local is the local provider: a real highly available control plane in seconds,
// without a container engine or root, and nothing stays behind.
//
// A program that uses it calls Main first in main or TestMain. The program then re-executes
// itself: into a sandbox (new user, mount, PID, UTS and network namespaces, see package
// sandbox), and inside it into the first process of each machine, its node agent, an etcd
// member and the load balancer. The sandbox's first process hosts the user-space switch that
// joins the machines; when it exits or is killed, the kernel kills everything else, and as no
// interface leads out of the sandbox no packet leaves it.
//
// The sandbox's first process is also the DNS server: machines have only themselves in
// /etc/hosts and query it for everything else. It forwards queries for the balancer's name if
// clients are balanced by DNS.
//
// Inside a sandbox, Create creates a cluster. Package keeper keeps clusters that outlive the
// command that created them.
//
// The tests need user namespaces and the Kubernetes binaries
// (holdfast fetch kubernetes): go test ./clusters/local
package local
