// Package kind is the provider whose machines are kind's: containers that run systemd,
// a kubelet, containerd and, as static pods, the components of the control plane. Its
// clusters are created with kubeadm, have real workers, and are upgraded with kubeadm.
//
// It needs a Docker engine that can run privileged containers (see clusters/kind/engine)
// and the images of its nodes (see clusters/kind/image). What runs in this package runs
// where the containers' addresses can be reached.
//
// On each node runs an agent (see clusters/agent), which carries out faults there
// and ends them in time, whatever becomes of this program. A container that is paused or
// killed is brought back by a guard, a process beside this one that outlives it.
//
// Containers get addresses of their own choice on a network of holdfast's own: kind lets
// them change whenever several are stopped and started, which neither etcd's members nor
// the certificates survive.
package kind
