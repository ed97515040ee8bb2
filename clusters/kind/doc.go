// Package kind is the provider whose machines are kind's: containers that run systemd, a
// kubelet, containerd and, as static pods, the components of the control plane. Its clusters
// are created with kubeadm, have real workers, and are upgraded with kubeadm.
//
// It needs a Docker engine that can run privileged containers (see clusters/kind/engine) and
// the images of its nodes (see clusters/kind/image). The code of this package runs where the
// containers' addresses can be reached.
//
// Each node runs an agent (see clusters/agent), which carries out faults there and ends them in
// time, even if this program exits. A guard, a separate process that outlives this one, brings
// back a container that is paused or killed.
//
// Containers get fixed addresses on a network of holdfast's own: kind lets them change whenever
// several are stopped and started, which breaks etcd's members and the certificates.
package kind
