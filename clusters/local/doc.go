// Package local is the local provider: a real highly available control plane
// in seconds, with no container engine, no root and nothing left behind.
//
// A program that uses it calls Main first thing in main or TestMain. The
// program then re-executes itself: into a sandbox (new user, mount, PID, UTS
// and network namespaces, see package sandbox), and inside it into the
// first process of each machine, its node agent, an etcd member and the
// load balancer. The sandbox's first process hosts the user-space switch that
// joins the machines; when it ends, however it ends, the kernel ends
// everything else, and as no interface leads out of the sandbox no packet
// leaves it.
//
// The sandbox's first process also serves names: machines know only themselves
// from /etc/hosts and ask it for all else. For the balancer's name it asks in turn,
// where that is how clients are balanced.
//
// Inside a sandbox, Create makes a cluster. Package keeper keeps those that outlive the
// command that made them.
//
// The tests need user namespaces and the Kubernetes binaries
// (holdfast fetch kubernetes): go test ./clusters/local
package local
