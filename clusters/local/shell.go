package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/holdfast-ha/holdfast/clusters/keeper"
	"github.com/holdfast-ha/holdfast/clusters/local/component"
	"github.com/holdfast-ha/holdfast/clusters/local/pki"
	"github.com/holdfast-ha/holdfast/clusters/procfs"
	"github.com/holdfast-ha/holdfast/clusters/sandbox"
	"github.com/holdfast-ha/holdfast/clusters/system"
)

// Shell implements keeper.Access. It needs nsenter of util-linux.
func (Provider) Shell(ctx context.Context, h *keeper.Handle, host *keeper.HostStatus, argv ...string) (*exec.Cmd, error) {
	if len(argv) == 0 {
		argv = []string{system.UserShell()}
	}
	keeper, err := h.PID()
	if err != nil {
		return nil, err
	}
	server, err := procfs.ChildWhere(keeper, func(inner []int) bool { return len(inner) > 1 && inner[len(inner)-1] == 1 })
	if err != nil {
		return nil, fmt.Errorf("failed to find the sandbox of cluster %s: %w", h.Name, err)
	}
	pid, env := server, sandbox.Environ()
	if host != nil {
		// The PID in the sandbox is the second to last one of the machine's first process: in
		// the machine it is 1.
		pid, err = procfs.ChildWhere(server, func(inner []int) bool {
			return len(inner) > 2 && inner[len(inner)-2] == host.PID
		})
		if err != nil {
			return nil, fmt.Errorf("failed to find %s of cluster %s: %w", host.Name, h.Name, err)
		}
		env = append(env, nodeEnv(host)...)
	}
	etcdctl, err := etcdctlPath(h.Dir())
	if err != nil {
		return nil, err
	}
	env = append(env, "PATH="+filepath.Dir(etcdctl)+":"+os.Getenv("PATH"))
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return nil, fmt.Errorf("a shell on a machine needs nsenter (Debian package util-linux): %w", err)
	}
	args := append([]string{"-t", strconv.Itoa(pid), "-U", "-m", "-u", "-i", "-n", "-p", "--preserve-credentials", "--"}, argv...)
	cmd := exec.CommandContext(ctx, nsenter, args...)
	cmd.Env = env
	return cmd, nil
}

// etcdctlPath returns the path of an etcdctl in a cluster's directory: this program under
// that name.
func etcdctlPath(dir string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "bin", "etcdctl")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	// Another holdfast may have left it, or be creating it.
	_ = os.Remove(path)
	if err := os.Symlink(self, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return path, nil
}

// nodeEnv points kubectl and etcdctl at the node's own API server and member.
func nodeEnv(host *keeper.HostStatus) []string {
	if host.Etcd == nil {
		return nil
	}
	pkiDir := filepath.Join(host.Dir, "pki")
	return []string{
		"KUBECONFIG=" + filepath.Join(pkiDir, pki.AdminConfig),
		"ETCDCTL_ENDPOINTS=https://" + host.Address + ":" + strconv.Itoa(component.EtcdClientPort),
		"ETCDCTL_CACERT=" + filepath.Join(pkiDir, pki.EtcdCACert),
		"ETCDCTL_CERT=" + filepath.Join(pkiDir, pki.EtcdServerCert),
		"ETCDCTL_KEY=" + filepath.Join(pkiDir, pki.EtcdServerKey),
	}
}
