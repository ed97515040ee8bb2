// Package agent is what runs on each node of a cluster and carries out faults there, and how a
// provider requests them.
//
// On a node of the local provider it is the parent of the components, which it starts as the
// kubelet does elsewhere (Exec). On a node of a kind cluster, or of one that is reached over
// SSH, it is holdfast's own binary, copied to the node and run as a systemd service
// (Unit, SetUp, ControlPlane, Worker) that depends neither on the kubelet nor on the
// API server, nor on the process that requested a fault. A node without systemd, such as the
// load balancer's container, runs it under holdfast-node-keep. It answers HTTP on a
// unix socket; a provider reaches that by running holdfast-node-connect on the node,
// whose standard input and output lead there (NewClient). If the harness has no other way to
// the node's etcd member, it reaches that through the agent too (Client.DialEtcd), which has
// the certificate of the node's API server.
//
// # Healing
//
// Every fault has a time when it ends. The agent goes by the monotonic clock for as
// long as it lives, and notes the wall time on the node's disk for the next agent:
// systemd starts one within a tenth of a second. When an agent starts it heals what
// has expired and keeps the rest active. After a restart of the node nothing is
// left of faults on processes, as after a loss of power; what is done to the network,
// to certificates and to data is put into force again for the rest of its time, all
// before the kubelet starts.
//
// A fault that is done through etcd or the API is on no node. What undoes it is left with
// the agents of the control-plane nodes before it begins (Client.Promise). They carry it out
// when its time is over and the harness has not withdrawn it: through etcd, since API servers may be
// what is broken, and each on its own node alone.
//
// With Config.Leash an agent that receives no request for that time heals everything. Then it
// also has a guard (Guard): a plain shell script that heals the node and takes the agent out of
// it if the agent is gone or hangs for as long, or is abandoned. For that the agent keeps a script
// up to date that heals what is active. What
// passes at Config.ControlPort, through which the harness reaches the node, is never impaired.
//
// A node that is paused (docker pause) has its agent paused with it, and one that is
// stopped has none: to undo that in time is for the provider's guard, outside of the
// node.
//
// # Components
//
// Static pods, kubelet (framework.NodeAgent), container runtime and plain processes are found
// in /proc. A process with neither a manifest nor a unit is held down by killing it at each
// start. The kubelet and systemd start them, as in any cluster, or, with Exec, the agent
// itself. A unit is left down by stopping it, a static pod by stopping (SIGSTOP) its
// containerd shim, the parent of the component's process, of which there is one for each
// pod sandbox. The process that is killed closes its connections and stays a zombie;
// kubelet and containerd do not learn of its end, the API shows the pod as it was, as
// for any component whose end nobody has noticed yet, and what is to be started in the
// pod waits at the shim. When that continues it reports the end, and the kubelet starts the
// container, with its back-off for containers that end again and again (10 s for the
// second time within ten minutes, then twice as long each time). A process that comes
// up all the same, as in another sandbox of the pod, is killed and its shim stopped.
//
// The kubelet continues with its own work. It restarts an API server that was frozen
// for longer than its liveness probe allows (about 80 s), with which the freeze ends.
// Where a component is held down for as long, the kubelet asks containerd to stop the
// container, which waits at the shim and is given up after 2 min 30 s, to be tried again.
// It all comes to its end when the hold does.
//
// One change takes a manifest away for some seconds: that of etcd's arguments, see
// endPod.
//
// # Network
//
// Links are cut, reset and made to lose packets by nftables, through netlink and in
// one table (holdfast), in the receiver's node or, where that has no agent, in the
// sender's. Changes are atomic on a node. Packets are matched by the addresses of the
// other party, so that ARP continues. Loss acts on packets as the kernel hands them on,
// of which a large one may stand for several on a wire. A reset answers the sender of
// each segment with RST by the kernel and the receiver by the agent.
//
// What nftables cannot do (delay, rate, duplicates, reordering, corruption) is done by
// the user-space switch of package vnet, through which the agent leads the frames of a
// link: it needs no netem and measures what it does. It needs a kernel with
// nft_fwd_netdev and CONFIG_NETFILTER_EGRESS (5.16), and TAP devices or packet sockets;
// elsewhere the agent at the other end does it. Where neither can it is refused with
// errors.ErrUnsupported, and the reason: see Network.CheckImpairment.
//
// # Tests
//
//	go test ./clusters/agent
//
// They need user namespaces, in which they run real agents against small processes
// under the names of components, and against nftables between two network namespaces.
package agent
