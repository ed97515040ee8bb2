// Package image builds the two images that a kind cluster is started from: that of its nodes
// and that of its load balancer.
//
// If a registry can be reached, kind's published node image is pulled. Otherwise both are
// built, without a base image:
//
//   - a root file system by debootstrap, with the packages that a node needs; it is
//     kept in the cache, for it is the slow part;
//   - the files that kind's own base image has, out of the source of the pinned kind
//     module, which Go's module cache has or downloads;
//   - binaries that clusters/release fetches or builds: kubeadm, kubelet, kubectl,
//     containerd, network plugins;
//   - the images that kubeadm of that version asks for, each a program and nothing
//     else, already in containerd's store: API server, controller manager,
//     scheduler, etcd, kube-proxy, CoreDNS and pause;
//   - a service that connects the pods of all nodes (files/usr/local/bin/holdfast-network).
//
// Differences to kind's published images: no storage provisioner, no network
// policies, no crictl, and IPv4 only.
//
// The image of the balancer has the root file system and a copy of this program, which runs as
// the balancer through clusters/kind/balancer.
//
// Images are named by their inputs, so nothing is built twice, and any change results in
// another image. A copy of each node image is kept in the cache, for new engines.
//
// Building needs root, debootstrap, a Go toolchain and an engine. The tests need none of these:
// docker and debootstrap are scripts there.
package image
