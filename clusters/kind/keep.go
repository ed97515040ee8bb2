package kind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/term"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/keeper"
	"github.com/holdfast-ha/holdfast/clusters/kind/engine"
	"github.com/holdfast-ha/holdfast/clusters/kind/internal/docker"
	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
)

var (
	_ keeper.Access = Provider{}
	_ keeper.Kept   = (*Cluster)(nil)

	_ keeper.UpgradePreparer = Provider{}
)

// engineFile, in the state directory of a kept cluster, contains the address of its engine:
// commands on the cluster may run where another engine is the default.
const engineFile = "engine"

// keptOptions are the options of a kept cluster. Its logs are read from its nodes; those of one
// that could not be created are next to its data, since its state is deleted.
func keptOptions(mine *Options, o clusters.Options) error {
	mine.DropLogs = true
	if o.DataDir != "" {
		mine.LogDir = o.DataDir + "-logs"
		if err := os.RemoveAll(mine.LogDir); err != nil {
			return fmt.Errorf("failed to remove logs of an earlier cluster: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(o.Dir, engineFile), []byte(mine.Engine), 0o600); err != nil {
		return fmt.Errorf("failed to record which engine the cluster is in: %w", err)
	}
	return nil
}

// insideFile, in the same place, is a kubeconfig for clients in the engine's network.
const insideFile = "kubeconfig-inside"

// engineOf is the docker command line for the engine that a kept cluster is in.
func engineOf(h *keeper.Handle) (docker.CLI, error) {
	b, err := os.ReadFile(filepath.Join(h.Dir(), engineFile))
	if err != nil {
		return docker.CLI{}, fmt.Errorf("failed to find the engine of cluster %s: %w; the cluster may still be starting", h.Name, err)
	}
	return docker.CLI{Host: string(b)}, nil
}

// PrepareUpgrade implements keeper.UpgradePreparer: images may not be available where the
// cluster runs.
func (Provider) PrepareUpgrade(ctx context.Context, h *keeper.Handle, r keeper.ChangeRequest, p clusters.Preparation) error {
	cli, err := engineOf(h)
	if err != nil {
		return err
	}
	_, err = ensureImages(ctx, engine.Engine{Host: cli.Host}, []string{r.Version}, p)
	return err
}

// Kubeconfig implements keeper.Kept.
func (c *Cluster) Kubeconfig(server string) ([]byte, error) {
	config, err := clientcmd.Load([]byte(c.kubeconfig))
	if err != nil {
		return nil, fmt.Errorf("failed to read kind's kubeconfig of cluster %s: %w", c.Name(), err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server = server
		if c.foreign { // kubeadm's certificates always have this name
			cluster.TLSServerName = "kubernetes"
		}
	}
	return clientcmd.Write(*config)
}

// writeInside writes the kubeconfig for clients in the engine's network.
func (c *Cluster) writeInside(dir string) error {
	b, err := c.Kubeconfig(c.Entrances()[0].Config.Host)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, insideFile), b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("failed to write a kubeconfig of cluster %s: %w", c.Name(), err)
	}
	return nil
}

// NetworkState implements keeper.Kept. The impairments are those that this process started: a
// query of the nodes would wait for one that does not answer.
func (c *Cluster) NetworkState() (what string, impairments int) {
	return fmt.Sprintf("%s (%s)", c.network.name, c.network.subnet), c.Network.Active()
}

// Hosts implements keeper.Kept.
func (c *Cluster) Hosts(ctx context.Context) []keeper.HostStatus {
	containers := c.containers()
	states := map[string]docker.Container{}
	found, failed := c.cli.Inspect(ctx, framework.NodeNames(containers)...)
	for _, s := range found {
		states[s.Name] = s
	}
	return framework.Map(containers, func(n *node) keeper.HostStatus {
		state, known := states[n.name]
		st := keeper.HostStatus{Name: n.name, Address: n.address.String(), Powered: state.State.Running || !known}
		switch {
		case !known:
			st.Error = fmt.Sprintf("the engine does not report its state: %v", failed)
		case !st.Powered:
		case state.State.Paused:
			st.Error = "paused" // its agent as well
		default:
			var err error
			if st.Components, err = n.Client.Processes(ctx); err != nil {
				st.Error = err.Error()
			}
		}
		return st
	})
}

// EndLimit implements keeper.Access.
func (Provider) EndLimit() time.Duration { return deleteLimit }

// Shell implements keeper.Access. Without a machine it is in the engine's network.
func (Provider) Shell(ctx context.Context, h *keeper.Handle, host *keeper.HostStatus, argv ...string) (*exec.Cmd, error) {
	cli, err := engineOf(h)
	if err != nil {
		return nil, err
	}
	if host == nil {
		return shellBeside(ctx, cli, h, argv)
	}
	terminal := term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd()))
	cmd := exec.CommandContext(ctx, "docker", shellArgs(host, terminal, argv)...)
	cmd.Env = append(os.Environ(), "DOCKER_HOST="+cli.Host)
	return cmd, nil
}

// shellArgs are docker's for a shell or a command on a machine.
func shellArgs(host *keeper.HostStatus, terminal bool, argv []string) []string {
	args := []string{"exec", "--interactive"}
	if terminal {
		args = append(args, "--tty")
	}
	if host.Etcd != nil {
		const pki = "/etc/kubernetes/pki/etcd/"
		for _, v := range []string{
			"KUBECONFIG=/etc/kubernetes/admin.conf",
			"ETCDCTL_API=3",
			"ETCDCTL_ENDPOINTS=https://127.0.0.1:" + etcdPort,
			"ETCDCTL_CACERT=" + pki + "ca.crt",
			"ETCDCTL_CERT=" + pki + "healthcheck-client.crt",
			"ETCDCTL_KEY=" + pki + "healthcheck-client.key",
		} {
			args = append(args, "--env", v)
		}
	}
	if len(argv) == 0 {
		argv = []string{"sh", "-c", "command -v bash >/dev/null && exec bash; exec sh"}
	}
	return append(append(args, host.Name), argv...)
}

// Kubectl implements keeper.Access. If a published image was pulled, the only kubectl is that
// of the nodes.
func (Provider) Kubectl(ctx context.Context, h *keeper.Handle) (string, error) {
	spec, err := h.Spec()
	if err != nil {
		return "", err
	}
	for _, p := range []release.Product{release.KubernetesNode, release.Kubernetes} {
		if e, err := release.Lookup(p, spec.Spec.KubernetesVersion, release.Options{}); err == nil {
			return filepath.Join(e.Dir, "kubectl"), nil
		}
	}
	dir, err := h.DataDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "kubectl")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	cli, err := engineOf(h)
	if err != nil {
		return "", err
	}
	nodes, err := cli.List(ctx, clusterLabel+"="+h.Name)
	if err != nil {
		return "", fmt.Errorf("failed to look for a kubectl on the nodes of cluster %s: %w", h.Name, err)
	}
	whole, err := os.MkdirTemp(dir, "kubectl-")
	if err != nil {
		return "", fmt.Errorf("failed to make room for the kubectl of cluster %s: %w", h.Name, err)
	}
	defer os.RemoveAll(whole)
	var problems []error
	for _, n := range nodes { // the balancer has none
		_, err := cli.Run(ctx, "cp", "--follow-link", n+":/usr/bin/kubectl", filepath.Join(whole, "kubectl"))
		if err == nil {
			err = os.Rename(filepath.Join(whole, "kubectl"), path)
		}
		if err == nil {
			return path, nil
		}
		problems = append(problems, err)
	}
	return "", fmt.Errorf("failed to copy kubectl from the nodes of cluster %s: %w", h.Name, errors.Join(problems...))
}

// shellBeside is a shell or a command in the engine's network.
func shellBeside(ctx context.Context, cli docker.CLI, h *keeper.Handle, argv []string) (*exec.Cmd, error) {
	e, err := engine.Find(ctx)
	if err != nil {
		return nil, err
	}
	if e.Host != cli.Host {
		return nil, fmt.Errorf("cluster %s is in the engine at %s, but the engine found is at %s: set DOCKER_HOST", h.Name, cli.Host, e.Host)
	}
	if len(argv) == 0 {
		argv = []string{system.UserShell()}
	}
	cmd, err := e.Command(ctx, argv[0], argv[1:]...)
	if err != nil {
		return nil, err
	}
	cmd.Env = append(cmd.Env, "KUBECONFIG="+filepath.Join(h.Dir(), insideFile))
	return cmd, nil
}
