package release

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/holdfast-ha/holdfast/framework"
)

// Product is a set of binaries that a control plane or a node needs.
type Product string

const (
	// Kubernetes is kube-apiserver, kube-controller-manager, kube-scheduler
	// and kubectl.
	Kubernetes Product = "kubernetes"
	// KubernetesNode is what a node runs: kubeadm, kubelet, kubectl and
	// kube-proxy.
	KubernetesNode Product = "kubernetes-node"
	// KubernetesFused is etcd, kube-apiserver, kube-controller-manager and kube-scheduler in
	// one process, for tests of clusters with such a process.
	KubernetesFused Product = "kubernetes-fused"
	// Etcd is the etcd server.
	Etcd Product = "etcd"
	// Kwok is kwok, which simulates worker nodes and their pods.
	Kwok Product = "kwok"
	// Containerd is containerd with ctr and the shim of runc.
	Containerd Product = "containerd"
	// CNIPlugins are the network plugins that a kind node uses.
	CNIPlugins Product = "cni-plugins"
	// CoreDNS is the DNS server of a cluster.
	CoreDNS Product = "coredns"
	// Pause is the first process of a pod. It is a program of holdfast's own that behaves like
	// Kubernetes' one, so it has one version.
	Pause Product = "pause"
)

const (
	// DefaultKubernetes is the Kubernetes version of a cluster that does not specify one.
	DefaultKubernetes = "v1.37.1"
	// DefaultKwok is the kwok version in use.
	DefaultKwok = "v0.8.0"
	// EmbeddedEtcd is the version of the etcd server inside holdfast itself,
	// which needs no fetch.
	EmbeddedEtcd = "v3.7.3"
	// DefaultContainerd is the containerd version of a node image.
	DefaultContainerd = "v2.3.7"
	// DefaultCNIPlugins is the version of the network plugins of a node image;
	// kind's own images have the same.
	DefaultCNIPlugins = "v1.9.1"
	// DefaultCoreDNS is the version that kubeadm of DefaultKubernetes deploys.
	DefaultCoreDNS = "v1.14.6"
	// DefaultPause is the only version of Pause.
	DefaultPause = "v1.0.0"
)

// details are a product's default version, its executables and, if there is one, the release archive
// that contains it, and the folder in it.
type details struct {
	version         string
	files           []string
	archive, folder string
}

var products = map[Product]details{
	Kubernetes: {DefaultKubernetes, []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"},
		"kubernetes-server", "kubernetes/server/bin"},
	KubernetesNode: {DefaultKubernetes, []string{"kubeadm", "kubelet", "kubectl", "kube-proxy"},
		"kubernetes-node", "kubernetes/node/bin"},
	KubernetesFused: {version: DefaultKubernetes, files: []string{"kubernetes-fused"}},
	Etcd:            {version: EmbeddedEtcd, files: []string{"etcd"}},
	Kwok:            {version: DefaultKwok, files: []string{"kwok"}},
	Containerd:      {version: DefaultContainerd, files: []string{"containerd", "containerd-shim-runc-v2", "ctr"}},
	CNIPlugins:      {version: DefaultCNIPlugins, files: []string{"host-local", "loopback", "portmap", "ptp"}},
	CoreDNS:         {version: DefaultCoreDNS, files: []string{"coredns"}},
	Pause:           {version: DefaultPause, files: []string{"pause"}},
}

// Products lists all products.
func Products() []Product {
	return []Product{Kubernetes, KubernetesNode, KubernetesFused, Etcd, Kwok, Containerd, CNIPlugins, CoreDNS, Pause}
}

// ParseProduct returns the product of that name.
func ParseProduct(name string) (Product, error) {
	if p := Product(name); slices.Contains(Products(), p) {
		return p, nil
	}
	names := framework.Names(Products(), func(p Product) string { return string(p) })
	return "", fmt.Errorf("unknown product %q: want one of %s", name, strings.Join(names, ", "))
}

// Files returns the names of the executables in the directory of p.
func (p Product) Files() []string { return slices.Clone(products[p].files) }

// Default returns the version of p if none is specified.
func (p Product) Default() string { return products[p].version }

// archive returns the release archive that contains p, such as kubernetes-server, and the
// folder in it; false if none exists.
func (p Product) archive() (name, folder string, ok bool) {
	d := products[p]
	return d.archive, d.folder, d.archive != ""
}

// ParseVersion checks a full version (1.37.1, v1.37.1, v1.38.0-rc.1) and
// returns it with the leading v. Its errors are a *VersionError.
func ParseVersion(p Product, version string) (string, error) {
	v := "v" + strings.TrimPrefix(version, "v")
	core, _, _ := strings.Cut(v, "-")
	if !semver.IsValid(v) || strings.Count(core, ".") != 2 || semver.Build(v) != "" {
		return "", &VersionError{Product: p, Version: version,
			Problem: "is not a version such as " + p.Default()}
	}
	return v, nil
}

// VersionError says that a version is malformed, or does not exist in the requested source.
type VersionError struct {
	Product Product
	Version string
	// Problem completes the sentence "PRODUCT VERSION ...".
	Problem string
	// Near are existing versions close to the requested one, oldest first.
	Near []string
	// Err is the source's answer, if it was queried.
	Err error
}

func (e *VersionError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s", e.Product, e.Version, e.Problem)
	if len(e.Near) > 0 {
		fmt.Fprintf(&b, "; similar ones are %s", strings.Join(e.Near, ", "))
	}
	if e.Err != nil {
		fmt.Fprintf(&b, " (%v)", e.Err)
	}
	return b.String()
}

func (e *VersionError) Unwrap() error { return e.Err }

// ErrNotCached says that the cache has no entry for a product's version.
var ErrNotCached = errors.New("not in the cache")

// errChecksum says that a source served content with a different checksum than announced. No
// other source is tried then: a person must investigate.
var errChecksum = errors.New("checksum differs")
