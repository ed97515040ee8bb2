package image

import (
	"context"
	"fmt"
	"io"
	"strings"
)

// ExportedImages is the file with container images in the archive of Export.
const ExportedImages = "images.tar"

// Export writes the parts of a node image that a node of another version needs. The other
// version's image contains all of them, whether it was published or built here, so neither a
// registry nor the build inputs are needed.
type Export struct {
	// DockerHost is as for Config.
	DockerHost string
	// Image is the node image, Kubernetes its version ("v1.37.1").
	Image      string
	Kubernetes string
	// Container is the name of a temporary container of the image; Label is its label, by which
	// remains of a killed process are found.
	Container string
	Label     string
}

// To writes a tar archive: kubeadm, kubelet and kubectl in bin, with the program that they link
// to, if they are links, and ExportedImages, an archive for `ctr images import` of all images
// that this kubeadm starts. If ctx ends or it fails, discard the output.
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
		return fmt.Errorf("failed to extract the parts of Kubernetes %s from %s: %w", e.Kubernetes, e.Image, err)
	}
	return nil
}

// exportScript writes the archive. With an explicit version kubeadm does not use the network.
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
