// Package remote is the provider of clusters that holdfast did not create: control planes
// whose API servers are reached with a kubeconfig and whose nodes, if they are, over SSH.
//
// An inventory (clusters.Inventory) describes their locations. With only a kubeconfig the
// cluster can be observed: nothing in it is broken. With SSH each node runs holdfast's node
// agent (clusters/agent), which carries out faults, heals them in time, and heals all of them
// if it receives no request from the harness for Leash.
//
// Every action needs the consent of the cluster's owner: an object in the cluster with its UID,
// the allowed actions and an expiry (see Consent).
//
// # Distributions
//
// A profile describes how a distribution runs its components: the names of their processes,
// what starts them, and how they are held down. Profiles are YAML files, in this package or the
// user's own. Everything else is read from the processes on the nodes: certificates, data
// directories, audit logs, ports, and the times from which bounds are computed.
//
// # Transport
//
// Nodes are reached with the system's ssh, so that ssh_config, agents and jump hosts apply.
// Scripts run as root, with sudo -n for other users. No port is opened on a node; the agent is
// copied once, and requests to it pass through ssh, including those to etcd: the agent
// authenticates with the node's own certificate, and no key leaves the node. Faults on the network
// leave these connections alone, and are refused (ErrOnNode) if this process runs on a node.
//
// # Power
//
// The owner's commands cut and restore the power of nodes (clusters.InventoryPower). They run in a
// copy of the program (Provider.Main), which outlives this process and restores the power when its
// standard input ends.
//
// # Tests
//
//	go test ./clusters/remote
//
// They have no requirements. Those of real clusters are in cmd/holdfast (TestClusterRemote):
// they need ssh and sshd.
package remote
