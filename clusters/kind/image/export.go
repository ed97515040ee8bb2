package image

import (
	"context"
	"fmt"
	"io"
	"strings"
)

// ExportedImages is the file in what Export writes that has container images.
const ExportedImages = "images.tar"

// Export says what of a node image goes to a node that has another version. The other
// version's image has all of it, whether it was published or built here, and needs
// neither a registry nor what it was built from.
type Export struct {
	// DockerHost is as for Config.
	DockerHost string
	// Image is the node image, Kubernetes its version ("v1.37.1").
	Image      string
	Kubernetes string
	// Container is a name for a container of the image, which goes in the end; Label is
	// a label for it, for those who look for what was left by a process that was killed.
	Container string
	Label     string
}

// To writes a tar archive: kubeadm, kubelet and kubectl, and the program that they are
// links to where they are, in bin, and ExportedImages, an archive for `ctr images import`
// of all images that this kubeadm starts. When ctx ends or it fails, what was written is
// of no use.
func (e Export) To(ctx context.Context, out io.Writer) error {
	engine := engine{host: e.DockerHost}
	engine.cleanup(ctx, "rm", "--force", "--volumes", e.Container)
	defer engine.cleanup(ctx, "rm", "--force", "--volumes", e.Container)
	if err := engine.startContainerd(ctx, e.Container, e.Image, "--label", e.Label); err != nil {
		return err
	}
	c := engine.command("exec", e.Container, "sh", "-c", exportScript(e.Kubernetes))
	c.Stdout = out
	if _, err := engine.do(ctx, c); err != nil {
		return fmt.Errorf("take the parts of Kubernetes %s out of %s: %w", e.Kubernetes, e.Image, err)
	}
	return nil
}

// exportScript writes the archive. With a version kubeadm asks nobody on the network.
// ctr writes its progress to the standard output, so its archive goes through a file.
func exportScript(version string) string {
	return strings.NewReplacer("VERSION", version, "IMAGES", ExportedImages).Replace(`set -e
names=
for name in kubeadm kubelet kubectl; do
  for file in $name $(readlink /usr/bin/$name || true); do
    case $file in */*) echo "/usr/bin/$name links to $file, outside of its folder" >&2; exit 1 ;; esac
    case " $names " in *" bin/$file "*) ;; *) names="$names bin/$file" ;; esac
  done
done
images=$(kubeadm config images list --kubernetes-version VERSION)
mkdir -p /holdfast
ctr --namespace k8s.io images export /holdfast/IMAGES $images >&2
exec tar --create --file - --directory /usr $names --directory /holdfast IMAGES
`)
}
