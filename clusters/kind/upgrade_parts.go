package kind

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-ha/holdfast/clusters/kind/image"
)

const (
	// upgradeLabel marks the containers from which parts of another version are extracted.
	upgradeLabel = "dev.holdfast.upgrade"
	// upgradeDir is where they are put on a node: on a volume with free space.
	upgradeDir = "/var/lib/holdfast-upgrade"
)

// partsFile has the parts of a version, as image.Export writes them, for all nodes.
func (c *Cluster) partsFile(version string) string {
	return filepath.Join(c.dir, "upgrade-"+version+".tar")
}

// parts extracts them from a node image, once per version.
func (c *Cluster) parts(ctx context.Context, version, from string) (file string, err error) {
	file = c.partsFile(version)
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	c.o.Progress("copying the programs and images of " + version + " from " + from)
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return "", fmt.Errorf("failed to make the cluster's directory: %w", err)
	}
	half, err := os.CreateTemp(c.dir, ".upgrade-*")
	if err != nil {
		return "", fmt.Errorf("failed to create a file for the parts of %s: %w", version, err)
	}
	defer os.Remove(half.Name())
	defer half.Close()
	export := image.Export{DockerHost: c.o.Engine, Image: from, Kubernetes: version,
		Container: "holdfast-upgrade-" + c.Name(), Label: upgradeLabel + "=" + c.Name()}
	if err := export.To(ctx, half); err != nil {
		return "", fmt.Errorf("failed to write the parts of %s to %s: %w", version, c.dir, err)
	}
	return file, errors.Join(half.Close(), os.Rename(half.Name(), file))
}

// receive puts parts on the node, and imports the images into its container runtime.
func (n *node) receive(ctx context.Context, parts string) error {
	f, err := os.Open(parts)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = n.cluster.cli.RunWith(ctx, f, "exec", "--interactive", n.name, "sh", "-c", receiveScript)
	return err
}

// receiveScript imports images like those of a node image: unpacked at first use, and skipped
// by the kubelet's image garbage collection.
var receiveScript = strings.NewReplacer("DIR", upgradeDir, "IMAGES", image.ExportedImages).Replace(`set -e
rm -rf DIR
mkdir -p DIR
tar -xf - -C DIR
ctr --namespace k8s.io images import --label io.cri-containerd.pinned=pinned --no-unpack DIR/IMAGES >/dev/null
rm DIR/IMAGES
`)

// installScript replaces the programs, each atomically and the kubelet's while the old one
// runs, and restarts the kubelet in the new version. kind and up --attach read the version
// file.
func installScript(version string) string {
	return strings.NewReplacer("DIR", upgradeDir, "VERSION", version).Replace(`set -e
trap 'rm -f /usr/bin/.holdfast-new' EXIT
for file in DIR/bin/*; do
  cp -a "$file" /usr/bin/.holdfast-new
  mv -fT /usr/bin/.holdfast-new "/usr/bin/${file##*/}"
done
printf %s VERSION >/kind/version
systemctl daemon-reload
systemctl restart kubelet.service
`)
}

// removeParts removes what receive put on the node, also after ctx has ended. If it fails, the
// files are deleted with the next ones or with the node.
func (n *node) removeParts(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardLimit)
	defer cancel()
	_, _ = n.docker(ctx, "exec", n.name, "rm", "-rf", upgradeDir)
}

// servesVersion accepts the answer of an API server of a version.
func servesVersion(body []byte, version string) error {
	var info struct{ GitVersion string }
	if err := json.Unmarshal(body, &info); err != nil {
		return fmt.Errorf("failed to read its version: %w", err)
	}
	if info.GitVersion != version {
		return fmt.Errorf("it is %s", info.GitVersion)
	}
	return nil
}
