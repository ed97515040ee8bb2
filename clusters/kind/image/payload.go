package image

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-ha/holdfast/clusters/kind/internal/archive"
	"github.com/holdfast-ha/holdfast/clusters/release"
)

// path is the PATH of all images.
const path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// programs is the folder where kubeadm's manifests expect programs.
const programs = "usr/local/bin"

// payloadsOf builds the images inside a node image, with kubeadm's names for them; pause also
// has containerd's name for it.
func payloadsOf(bins binaries, refs []reference, sandbox string, netTools []archive.File, arch string) ([]archive.Image, error) {
	byComponent := map[string][]string{}
	for _, r := range refs {
		byComponent[r.component()] = append(byComponent[r.component()], string(r))
	}
	if pause := byComponent["pause"]; !slices.Contains(pause, sandbox) {
		byComponent["pause"] = append(pause, sandbox)
	}
	var images []archive.Image
	add := func(c archive.Config, files []archive.File, components ...string) {
		// Some programs write there, and the folder does not disturb the others.
		files = append(files, archive.File{Name: "tmp", Mode: fs.ModeDir | fs.ModeSticky | 0o777})
		i := archive.Image{Arch: arch, Config: c, Layers: []archive.Layer{archive.Files(files)}}
		i.Config.Env = []string{path}
		for _, name := range components {
			i.Tags = append(i.Tags, byComponent[name]...)
		}
		images = append(images, i)
	}

	// One program with three names is one image with three names.
	servers := []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"}
	files, err := bins.files(release.Kubernetes, programs, servers...)
	if err != nil {
		return nil, err
	}
	add(archive.Config{}, files, servers...)

	if files, err = bins.files(release.Etcd, programs, "etcd"); err != nil {
		return nil, err
	}
	add(archive.Config{}, files, "etcd")

	// kubeadm calls this program by its full path.
	if files, err = bins.files(release.KubernetesNode, programs, "kube-proxy"); err != nil {
		return nil, err
	}
	add(archive.Config{}, slices.Concat(netTools, files), "kube-proxy")

	coredns := archive.File{Name: "coredns", Mode: 0o755, Path: bins.path(release.CoreDNS, "coredns")}
	add(archive.Config{Entrypoint: []string{"/coredns"}, WorkingDir: "/"}, []archive.File{coredns}, "coredns")

	pause := archive.File{Name: "pause", Mode: 0o755, Path: bins.path(release.Pause, "pause")}
	add(archive.Config{Entrypoint: []string{"/pause"}, User: "65535:65535"}, []archive.File{pause}, "pause")
	return images, nil
}

// sandboxImage returns the image of pause that containerd is configured with.
func sandboxImage(files []archive.File) (string, error) {
	const config = "etc/containerd/config.toml"
	at := slices.IndexFunc(files, func(f archive.File) bool { return f.Name == config })
	if at < 0 {
		return "", fmt.Errorf("kind's files for nodes have no %s: was its source changed?", config)
	}
	for line := range strings.Lines(string(files[at].Data)) {
		name, value, ok := strings.Cut(line, "=")
		if ok && strings.TrimSpace(name) == "sandbox_image" {
			return strings.Trim(strings.TrimSpace(value), `"`), nil
		}
	}
	return "", fmt.Errorf("%s of kind's files for nodes has no sandbox_image", filepath.Base(config))
}
