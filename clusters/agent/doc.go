// Package agent runs on each node of a cluster and carries out faults there. It also contains
// the client that providers use to request them.
//
// On a node of the local provider the agent is the parent of the components, which it starts as
// the kubelet does elsewhere (Exec). On a node of a kind cluster, or on one that is reached
// over SSH, it is holdfast's own binary, copied to the node and run as a systemd service (Unit,
// SetUp, ControlPlane, Worker). The service depends on neither the kubelet nor the API server,
// nor on the process that requested a fault. A node without systemd, such as the load
// balancer's container, runs it under holdfast-node-keep. The agent serves HTTP on a unix
// socket. A provider reaches the socket by running holdfast-node-connect on the node, which
// joins its standard input and output to it (NewClient). If the harness cannot reach the node's
// etcd member directly, it connects through the agent (Client.DialEtcd), which uses the
// certificate of the node's API server.
//
// # Healing
//
// Every fault has a time when it ends. A running agent uses the monotonic clock, and stores the
// wall time on the node's disk for the next agent: systemd starts one within a tenth of a
// second. A starting agent heals what has expired and keeps the rest active. A restart of the
// node ends faults on processes, as a loss of power does. Faults on the network, on
// certificates and on data are applied again for the rest of their time. All this happens
// before the kubelet starts.
//
// A fault that is done through etcd or the API is not on any node. Before it starts, the
// harness leaves its undo action with the agents of the control-plane nodes (Client.Promise).
// They carry it out when the fault's time is over and the harness has not withdrawn it. They do
// so through etcd, since the API servers may be what is broken, and each agent works on its own
// node alone.
//
// With Config.Leash an agent serves one run at a time, until UsedFor after its last request: another one
// injects nothing (agenthttp.OtherRun). If it receives no request for Leash, it heals everything. When its node
// has restarted, it heals data, certificates and volumes before the kubelet starts. It then also
// has a guard (Guard): a plain shell script that heals the node and removes the agent from
// it if the agent is gone or hangs for as long, or is abandoned. For the guard the agent keeps
// a script up to date that heals what is active. The harness's traffic with Config.ControlPort and
// Config.PeerControlPorts, through which it reaches the nodes, is never impaired.
//
// Pausing a node (docker pause) pauses its agent too, and a stopped node does not run one. The
// provider's guard, outside the node, must undo those faults in time.
//
// # Components
//
// Static pods, kubelet (framework.NodeAgent), container runtime and plain processes are found
// in /proc. The agent holds down a process with neither a manifest nor a unit by killing it at
// each start. The kubelet and systemd start the components, as in any cluster, or, with Exec,
// the agent itself. A unit is left down by stopping it. A static pod is left down by stopping
// (SIGSTOP) its containerd shim, the parent of the component's process; each pod sandbox has
// one shim. The killed process closes its connections and stays a zombie. Kubelet and
// containerd do not notice its exit, the API shows the pod unchanged, as for any component
// whose exit has not been noticed yet, and new processes of the pod wait at the shim. When the
// shim continues it reports the exit, and the kubelet starts the container, with its back-off
// for containers that exit repeatedly (10 s for the second time within ten minutes, then twice
// as long each time). A process that starts nevertheless, for example in another sandbox of the
// pod, is killed and its shim stopped.
//
// The kubelet continues its own work. It restarts an API server that was frozen for longer than
// its liveness probe allows (about 80 s), which ends the freeze. If a component is held down
// for as long, the kubelet asks containerd to stop the container. That request waits at the
// shim, times out after 2 min 30 s, and is retried. All this stops when the hold ends.
//
// One change removes a manifest for some seconds: a change of etcd's arguments, see endPod.
//
// # Network
//
// Links are cut, reset and made to lose packets by nftables, through netlink and in one table
// (holdfast), in the receiver's node or, if that has no agent, in the sender's. Changes are
// atomic on a node. Packets are matched by the addresses of the other party, so that ARP
// continues, as does neighbor discovery of IPv6. Loss acts on packets as the kernel passes them on; a large one may be several
// packets on a wire. For a reset the kernel answers the sender of each segment with RST, and
// the agent sends RST to the receiver.
//
// What nftables cannot do (delay, rate, duplicates, reordering, corruption) is done by the
// user-space switch of package vnet, through which the agent redirects the frames of a link: it
// does not need netem and measures what it does. It needs a kernel with nft_fwd_netdev and
// CONFIG_NETFILTER_EGRESS (5.16), and TAP devices or packet sockets; otherwise the agent at the
// other end does it. If neither end can, the agent refuses with errors.ErrUnsupported and the
// reason: see Network.CheckImpairment.
//
// # Tests
//
//	go test ./clusters/agent
//
// The tests need user namespaces, in which they run real agents against small processes named
// like components, and against nftables between two network namespaces.
package agent
