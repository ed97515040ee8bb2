package image

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json" // keeps integers

	"github.com/holdfast-ha/holdfast/clusters/internal/command"
	"github.com/holdfast-ha/holdfast/clusters/kind/internal/archive"
	"github.com/holdfast-ha/holdfast/clusters/release"
)

// own are files of holdfast's own in a node image.
//
//go:embed files
var own embed.FS

// enabled are the services that a node starts with.
var enabled = []string{"containerd.service", "holdfast-network.service", "kubelet.service", "undo-mount-hacks.service"}

// nodeFiles returns the files that a node image adds to the root file system. It follows
// images/base/Dockerfile and pkg/build/nodeimage of kind, whose files are in base.
func nodeFiles(ctx context.Context, version, base string, bins binaries) ([]archive.File, error) {
	if _, err := os.Stat(base + "/usr/local/bin/entrypoint"); err != nil {
		return nil, fmt.Errorf("kind's files for nodes were not found: %w", err)
	}
	files, err := tree(os.DirFS(base))
	if err != nil {
		return nil, fmt.Errorf("kind's files for nodes: %w", err)
	}
	ours, err := fs.Sub(own, "files")
	if err != nil {
		return nil, err
	}
	more, err := tree(ours)
	if err != nil {
		return nil, err
	}
	files = append(files, more...)
	for _, group := range []struct {
		product release.Product
		folder  string
		names   []string
	}{
		// kubeadm, kubelet and containerd are in the paths of kind's services.
		{release.KubernetesNode, "usr/bin", []string{"kubeadm", "kubelet", "kubectl"}},
		{release.Containerd, "usr/local/bin", release.Containerd.Files()},
		{release.CNIPlugins, "opt/cni/bin", release.CNIPlugins.Files()},
	} {
		more, err := bins.files(group.product, group.folder, group.names...)
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	spec, err := containerSpec(ctx, bins.path(release.Containerd, "ctr"))
	if err != nil {
		return nil, err
	}
	files = append(files,
		archive.File{Name: "etc/containerd/cri-base.json", Mode: 0o644, Data: spec},
		archive.File{Name: "etc/kubernetes/manifests", Mode: fs.ModeDir | 0o755},
		archive.File{Name: "kind/version", Mode: 0o644, Data: []byte(version)},
		archive.File{Name: "usr/sbin/init", Link: "/usr/lib/systemd/systemd"},
		// It would register formats in the kernel, which all nodes share.
		archive.File{Name: "etc/systemd/system/systemd-binfmt.service", Link: "/dev/null"},
	)
	for _, service := range enabled {
		files = append(files, archive.File{Name: "etc/systemd/system/multi-user.target.wants/" + service, Link: "/etc/systemd/system/" + service})
	}
	return files, nil
}

// tree returns the files below a folder, with the permissions of kind's Dockerfile.
func tree(folder fs.FS) ([]archive.File, error) {
	var files []archive.File
	err := fs.WalkDir(folder, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := fs.ReadFile(folder, name)
		f := archive.File{Name: name, Mode: 0o644, Data: data}
		if strings.HasPrefix(name, "usr/local/bin/") || strings.HasPrefix(name, "kind/bin/") {
			f.Mode = 0o755
		}
		files = append(files, f)
		return err
	})
	return files, err
}

// ownFiles is a digest of holdfast's own files.
func ownFiles() string {
	files, err := tree(own)
	if err != nil {
		panic(err) // they are embedded in the program
	}
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%q %q\n", f.Name, f.Data)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// containerSpec returns the specification from which containerd starts containers of pods: its
// default, with the node's product files added and without limits, as in kind's images.
func containerSpec(ctx context.Context, ctr string) ([]byte, error) {
	out, err := command.Command{Name: ctr, Args: []string{"oci", "spec"}}.Run(ctx)
	if err != nil {
		return nil, fmt.Errorf("failed to ask ctr for its default specification of containers: %w", err)
	}
	return amendSpec([]byte(out))
}

func amendSpec(spec []byte) ([]byte, error) {
	var all map[string]any
	if err := json.Unmarshal(spec, &all); err != nil {
		return nil, fmt.Errorf("ctr's default specification of containers: %w", err)
	}
	if _, ok := all["process"].(map[string]any); !ok {
		return nil, errors.New("ctr's default specification of containers has no process")
	}
	unstructured.RemoveNestedField(all, "process", "rlimits")
	create, _, err := unstructured.NestedSlice(all, "hooks", "createContainer")
	if err == nil {
		create = append(create, map[string]any{"path": "/kind/bin/mount-product-files.sh"})
		err = unstructured.SetNestedSlice(all, create, "hooks", "createContainer")
	}
	if err != nil {
		return nil, fmt.Errorf("hooks of ctr's default specification of containers: %w", err)
	}
	return json.Marshal(all)
}
