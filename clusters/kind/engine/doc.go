// Package engine finds the Docker engine that the kind provider uses, reports
// what it can do, and starts one if none exists.
//
// Find asks the engine that DOCKER_HOST names, the one that holdfast started
// before, and the one of the Docker client's current context, in this order.
// CheckPrivileged runs a container to check whether the engine can run those that
// kind needs. Ensure does both, and starts an engine if it cannot.
//
// The engine that Start starts is the dockerd that is installed (Debian's
// docker.io) in new user, mount, PID and network namespaces. So it can run
// privileged containers where this machine's root cannot (a capability is
// missing, or control groups refuse device rules), no packet leaves it, and it
// is gone, with every container, when its first process is. That process is
// this program itself under another name: a program that uses the package calls
// Main first thing in main or TestMain.
//
// Clients reach the engine by the path of its socket. What talks to containers
// has to be in the engine's network: Engine.Command and Engine.Enter.
//
// The tests start a stand-in for dockerd in real namespaces, and need root for
// that; they skip what they may not do:
//
//	go test ./clusters/kind/engine
//
// TestForReal starts the real one, where it is installed, and asks for it by
// HOLDFAST_TEST_KIND=1.
package engine
