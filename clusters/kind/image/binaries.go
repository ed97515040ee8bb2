package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/clusters/internal/command"
	"github.com/holdfast-ha/holdfast/clusters/kind/internal/archive"
	"github.com/holdfast-ha/holdfast/clusters/release"
)

// getter downloads or builds the binaries of a product.
type getter func(ctx context.Context, p release.Product, version string) (release.Entry, error)

// binaries are all binaries of a node image.
type binaries map[release.Product]release.Entry

// gather fetches the binaries of a node image, and its container images. kubeadm decides the
// versions of etcd and CoreDNS.
func gather(ctx context.Context, version string, get getter) (binaries, []reference, error) {
	bins := binaries{}
	add := func(p release.Product, version string) error {
		e, err := get(ctx, p, version)
		bins[p] = e
		return err
	}
	for _, p := range []release.Product{release.KubernetesNode, release.Kubernetes, release.Containerd, release.CNIPlugins, release.Pause} {
		v := p.Default()
		if p == release.KubernetesNode || p == release.Kubernetes {
			v = version
		}
		if err := add(p, v); err != nil {
			return nil, nil, err
		}
	}
	refs, err := kubeadmImages(ctx, bins.path(release.KubernetesNode, "kubeadm"), version)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range refs {
		switch r.component() {
		case "etcd":
			err = add(release.Etcd, r.version())
		case "coredns":
			err = add(release.CoreDNS, r.version())
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return bins, refs, nil
}

// path returns the file of an executable.
func (b binaries) path(p release.Product, name string) string {
	return filepath.Join(b[p].Dir, name)
}

// digests returns the digests of all binaries.
func (b binaries) digests() []string {
	var all []string
	for p, e := range b {
		// An entry of the cache is named by the digest of what is in it.
		all = append(all, fmt.Sprintf("%s %s %s", p, e.Version, filepath.Base(e.Dir)))
	}
	slices.Sort(all)
	return all
}

// files returns some executables of a product as entries of a folder. A link to a program with
// several names stays a link.
func (b binaries) files(p release.Product, folder string, names ...string) ([]archive.File, error) {
	var files []archive.File
	for _, name := range names {
		file := b.path(p, name)
		target, err := os.Readlink(file)
		if err != nil {
			target = name
		} else {
			files = append(files, archive.File{Name: folder + "/" + name, Link: target})
		}
		if strings.Contains(target, "/") {
			return nil, fmt.Errorf("%s links to %s, outside of its folder", file, target)
		}
		files = append(files, archive.File{Name: folder + "/" + target, Mode: 0o755, Path: b.path(p, target)})
	}
	return files, nil
}

// reference is the full name of an image.
type reference string

// component is the last part of the name, without the tag.
func (r reference) component() string {
	name, _ := r.split()
	return name[strings.LastIndexByte(name, '/')+1:]
}

// version is the version of the image's content: tags of etcd have no v, and count the images
// of a version.
func (r reference) version() string {
	_, tag := r.split()
	if r.component() == "etcd" {
		if i := strings.LastIndexByte(tag, '-'); i > 0 {
			tag = tag[:i]
		}
	}
	return "v" + strings.TrimPrefix(tag, "v")
}

func (r reference) split() (name, tag string) {
	i := strings.LastIndexByte(string(r), ':')
	if i < 0 || strings.Contains(string(r[i:]), "/") {
		return string(r), ""
	}
	return string(r[:i]), string(r[i+1:])
}

// kubeadmImages asks kubeadm for the images that it starts.
func kubeadmImages(ctx context.Context, kubeadm, version string) ([]reference, error) {
	// With an explicit version kubeadm does not use the network.
	c := command.Command{Name: kubeadm, Args: []string{"config", "images", "list", "--kubernetes-version", version}}
	out, err := c.Run(ctx)
	if err != nil {
		return nil, fmt.Errorf("failed to ask kubeadm for the images of Kubernetes %s: %w", version, err)
	}
	return parseImages(out)
}

// components are the images that can be built here.
var components = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "coredns", "pause", "etcd"}

// parseImages reads kubeadm's list: all components, once each, and no others.
func parseImages(list string) ([]reference, error) {
	var refs []reference
	missing := slices.Clone(components)
	for line := range strings.Lines(list) {
		r := reference(strings.TrimSpace(line))
		if r == "" {
			continue
		}
		if _, tag := r.split(); tag == "" || strings.ContainsAny(string(r), " \t@") {
			return nil, fmt.Errorf("kubeadm names the image %q: want a name and a tag", r)
		}
		i := slices.Index(missing, r.component())
		if i < 0 {
			return nil, fmt.Errorf("kubeadm names the image %s, which cannot be built here: want each of %s once", r, strings.Join(components, ", "))
		}
		missing = slices.Delete(missing, i, i+1)
		refs = append(refs, r)
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("kubeadm names no image of %s", strings.Join(missing, ", "))
	}
	return refs, nil
}
