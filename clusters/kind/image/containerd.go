package image

import (
	"context"
	"fmt"
)

// inside runs a script in a container.
func (e engine) inside(ctx context.Context, container, script string) (string, error) {
	return e.run(ctx, "exec", container, "sh", "-c", script)
}

// startContainerd starts a container of a node image, or of a future one, that runs only
// containerd. The container needs no privileges, since no image is unpacked in it. options are
// further options of docker.
func (e engine) startContainerd(ctx context.Context, container, image string, options ...string) error {
	args := append([]string{"run", "--detach", "--name", container, "--network", "none", "--security-opt", "seccomp=unconfined"}, options...)
	if _, err := e.run(ctx, append(args, "--entrypoint", "sleep", image, "infinity")...); err != nil {
		return fmt.Errorf("failed to start a container of %s: %w", image, err)
	}
	if _, err := e.run(ctx, "exec", "--detach", container, "sh", "-c", "exec containerd >/run/containerd.log 2>&1"); err != nil {
		return err
	}
	// Without a socket ctr waits forever.
	const wait = `for i in $(seq 300); do
  if [ -S /run/containerd/containerd.sock ] && ctr --timeout 5s version >/dev/null 2>&1; then exit 0; fi
  sleep 0.1
done
echo "its log ends with:" >&2
tail -n 8 /run/containerd.log >&2
exit 1`
	if _, err := e.inside(ctx, container, wait); err != nil {
		return fmt.Errorf("containerd did not start in a container of %s: %w", image, err)
	}
	return nil
}
