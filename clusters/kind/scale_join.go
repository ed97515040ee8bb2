package kind

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/clusters/kind/internal/docker"
)

const (
	kubernetesDir = "/etc/kubernetes/"
	// kubeadmConfig is where kind has kubeadm's configuration on each node.
	kubeadmConfig = "/kind/kubeadm.conf"
	// tokenLife is how long a join token is valid, in case it is never deleted.
	tokenLife = 15 * time.Minute
	// systemUp is how long a container may take until its container runtime runs.
	systemUp = time.Minute
)

// shared are the files that all control-plane nodes have in common, below
// kubernetesDir: those that kind copies from the first to the others.
var shared = []string{"admin.conf", "pki/ca.crt", "pki/ca.key", "pki/front-proxy-ca.crt", "pki/front-proxy-ca.key",
	"pki/sa.pub", "pki/sa.key", "pki/etcd/ca.crt", "pki/etcd/ca.key"}

// join creates a container for a node like those of the others and has kubeadm join it as a
// control-plane node. A failed join leaves its remains in that container, in etcd's member list
// and in the API.
func (c *Cluster) join(ctx context.Context, n *node) error {
	sponsor, files, err := c.sponsor(ctx)
	if err != nil {
		return err
	}
	models, err := c.cli.Inspect(ctx, sponsor.name)
	if err != nil {
		return err
	}
	image := models[0].Config.Image
	if v := n.spec.KubernetesVersion; sponsor.upgraded || sponsor.spec.KubernetesVersion != v {
		if image, err = c.image(ctx, v); err != nil {
			return fmt.Errorf("no node of Kubernetes %s is left to take the image from: %w", v, err)
		}
	}
	c.o.Progress("starting " + n.name)
	if _, err := c.cli.Run(ctx, likeContainer(c.marked(models[0]), n.name, image, c.network.name, n.address)...); err != nil {
		return fmt.Errorf("failed to start the container of %s: %w", n.name, err)
	}
	if err := n.awaitSystem(ctx); err != nil {
		return err
	}
	token, err := sponsor.docker(ctx, "exec", sponsor.name, "kubeadm", "token", "create", "--ttl", tokenLife.String())
	if err != nil {
		return fmt.Errorf("failed to make a token for %s to join with: %w", n.name, err)
	}
	defer func() {
		// A token that cannot be deleted expires.
		_, _ = sponsor.docker(context.WithoutCancel(ctx), "exec", sponsor.name, "kubeadm", "token", "delete", token)
	}()
	if files[kubeadmConfig], err = joinConfiguration(files[kubeadmConfig], n.name, n.address, n.spec.Zone, token); err != nil {
		return fmt.Errorf("the configuration of kubeadm on %s: %w", sponsor.name, err)
	}
	// Most of them are keys of the cluster.
	if err := n.put(ctx, func(t *tar.Writer) error { return agent.AddFiles(t, files, 0o600) }); err != nil {
		return fmt.Errorf("failed to write the certificates of the cluster to %s: %w", n.name, err)
	}
	c.o.Progress("kubeadm joins " + n.name)
	if _, err := n.docker(ctx, "exec", n.name, "kubeadm", "join", "--config", kubeadmConfig); err != nil {
		return fmt.Errorf("kubeadm on %s failed to join: %w; its logs are in %s", n.name, err, c.o.LogDir)
	}
	return nil
}

// sponsor returns a working control-plane node, and its files that a joining one needs: one of
// the wanted version if there is one, since its image is available.
func (c *Cluster) sponsor(ctx context.Context) (*node, map[string][]byte, error) {
	nodes := slices.Clone(c.controlPlane())
	slices.SortStableFunc(nodes, func(a, b *node) int {
		return cmp.Compare(c.otherVersion(a), c.otherVersion(b))
	})
	script := "tar -cf - -C " + kubernetesDir + " " + strings.Join(shared, " ") + " -C / " + kubeadmConfig[1:] + " | base64 -w 0"
	var errs []error
	for _, n := range nodes {
		out, err := c.cli.Run(ctx, "exec", n.name, "sh", "-c", script)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		files, err := sharedFiles(out)
		if err != nil {
			return nil, nil, fmt.Errorf("failed to read the certificates of the cluster on %s: %w", n.name, err)
		}
		return n, files, nil
	}
	return nil, nil, fmt.Errorf("no working control-plane node is left to copy the configuration from: %w", errors.Join(errs...))
}

// otherVersion is 1 for a node that has another version than the cluster, else 0.
func (c *Cluster) otherVersion(n *node) int {
	if n.spec.KubernetesVersion == cmp.Or(c.upgraded, c.spec.Spec.KubernetesVersion) {
		return 0
	}
	return 1
}

// sharedFiles reads the files that sponsor has a node write, by path.
func sharedFiles(encoded string) (map[string][]byte, error) {
	files := map[string][]byte{}
	t := tar.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(encoded)))
	for {
		header, err := t.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(t)
		if err != nil {
			return nil, err
		}
		name := "/" + header.Name
		if name != kubeadmConfig {
			name = path.Join(kubernetesDir, header.Name)
		}
		files[name] = b
	}
	for _, name := range shared {
		if files[kubernetesDir+name] == nil {
			return nil, fmt.Errorf("%s%s is missing", kubernetesDir, name)
		}
	}
	if files[kubeadmConfig] == nil {
		return nil, fmt.Errorf("%s is missing", kubeadmConfig)
	}
	return files, nil
}

// image returns the node image of a version.
func (c *Cluster) image(ctx context.Context, version string) (string, error) {
	if c.o.Image != nil {
		if name := c.o.Image(version); name != "" {
			return name, nil
		}
	}
	if c.o.EnsureImage == nil {
		return "", fmt.Errorf("no node image of Kubernetes %s exists", version)
	}
	name, err := c.o.EnsureImage(ctx, version)
	if err != nil {
		return "", fmt.Errorf("failed to prepare the node image of Kubernetes %s: %w; `holdfast kind image --kubernetes %s` prepares it in advance", version, err, version)
	}
	return name, nil
}

// awaitSystem returns when the node's container runtime answers: kubeadm must run after all
// preparation of the node.
func (n *node) awaitSystem(ctx context.Context) error {
	waiting, cancel := context.WithTimeoutCause(ctx, systemUp, fmt.Errorf("not up after %s", systemUp))
	defer cancel()
	err := await.Until(waiting, 250*time.Millisecond, func(ctx context.Context) error {
		_, err := n.docker(ctx, "exec", n.name, "sh", "-c", "systemctl is-active --quiet containerd.service && test -S /run/containerd/containerd.sock")
		return err
	})
	if err != nil {
		ctx, cancel := context.WithTimeout(ctx, lastWordsLimit)
		defer cancel()
		logs, _ := n.docker(ctx, "logs", "--tail", "20", n.name)
		return fmt.Errorf("containerd on %s did not start: %w; its output:\n  %s", n.name, err, strings.ReplaceAll(logs, "\n", "\n  "))
	}
	return nil
}

// likeContainer returns docker's arguments to run a container like another one, but with its
// own name, image, address and component arguments.
func likeContainer(model docker.Container, name, image, network string, address netip.Addr) []string {
	config, host := model.Config, model.HostConfig
	args := []string{"run", "--detach", "--tty", "--name", name, "--hostname", name, "--network", network, "--ip", address.String()}
	add := func(flag, value string) {
		if value != "" {
			args = append(args, flag, value)
		}
	}
	pairs := func(flag, separator string, all map[string]string) {
		for _, key := range slices.Sorted(maps.Keys(all)) {
			value := all[key]
			if value != "" {
				value = separator + value
			}
			add(flag, key+value)
		}
	}
	pairs("--label", "=", config.Labels)
	if host.Privileged {
		args = append(args, "--privileged")
	}
	for _, option := range host.SecurityOpt {
		add("--security-opt", option)
	}
	pairs("--tmpfs", ":", host.Tmpfs)
	for _, volume := range slices.Sorted(maps.Keys(config.Volumes)) {
		add("--volume", volume)
	}
	for _, bind := range host.Binds {
		if parts := strings.Split(bind, ":"); len(parts) > 1 && parts[1] == nodePatches {
			continue
		}
		add("--volume", bind)
	}
	for _, variable := range config.Env {
		add("--env", variable)
	}
	if policy := host.RestartPolicy; policy.MaximumRetryCount > 0 {
		add("--restart", fmt.Sprintf("%s:%d", policy.Name, policy.MaximumRetryCount))
	} else {
		add("--restart", policy.Name)
	}
	if host.Init != nil {
		args = append(args, fmt.Sprintf("--init=%t", *host.Init))
	}
	add("--cgroupns", host.CgroupnsMode)
	add("--userns", host.UsernsMode)
	pairs("--sysctl", "=", host.Sysctls)
	for _, d := range host.Devices {
		add("--device", d.PathOnHost+":"+d.PathInContainer+":"+d.CgroupPermissions)
	}
	return append(args, image)
}

// joinConfiguration derives the configuration for a join from the one that kind wrote for
// kubeadm on a control-plane node.
func joinConfiguration(theirs []byte, name string, address netip.Addr, zone, token string) ([]byte, error) {
	var parts [][]byte
	joins := false
	for _, part := range bytes.Split(theirs, []byte("\n---\n")) {
		var doc map[string]any
		if err := yaml.Unmarshal(part, &doc); err != nil {
			return nil, err
		}
		switch doc["kind"] {
		case "InitConfiguration":
			continue // of the first node
		case "JoinConfiguration":
			joins = true
			if err := joinAs(doc, name, address, zone, token); err != nil {
				return nil, fmt.Errorf("JoinConfiguration: %w", err)
			}
			b, err := yaml.Marshal(doc)
			if err != nil {
				return nil, err
			}
			part = b
		}
		parts = append(parts, bytes.TrimSpace(part))
	}
	if !joins {
		return nil, errors.New("it has no JoinConfiguration")
	}
	return append(bytes.Join(parts, []byte("\n---\n")), '\n'), nil
}

// joinAs adapts a JoinConfiguration to another node.
func joinAs(doc map[string]any, name string, address netip.Addr, zone, token string) error {
	at := func(keys ...string) map[string]any {
		here := doc
		for _, key := range keys {
			here, _ = here[key].(map[string]any)
		}
		return here
	}
	endpoint, registration, bootstrap := at("controlPlane", "localAPIEndpoint"), at("nodeRegistration"), at("discovery", "bootstrapToken")
	if endpoint == nil || registration == nil || bootstrap == nil {
		return errors.New("it has no localAPIEndpoint, nodeRegistration or bootstrapToken: it is not from a control-plane node of kind")
	}
	endpoint["advertiseAddress"] = address.String()
	bootstrap["token"] = token
	delete(doc, "patches") // arguments of that node only
	switch args := registration["kubeletExtraArgs"].(type) {
	case map[string]any: // v1beta3
		for flag, value := range args {
			text, _ := value.(string)
			args[flag] = kubeletArgument(flag, text, name, address, zone)
		}
	case []any: // v1beta4
		for _, arg := range args {
			if pair, ok := arg.(map[string]any); ok {
				flag, _ := pair["name"].(string)
				text, _ := pair["value"].(string)
				pair["value"] = kubeletArgument(flag, text, name, address, zone)
			}
		}
	default:
		return errors.New("it has no kubeletExtraArgs")
	}
	return nil
}

// kubeletArgument adapts the value of a kubelet's flag from another node to a node.
func kubeletArgument(flag, theirs, name string, address netip.Addr, zone string) string {
	switch flag {
	case "node-ip":
		return address.String()
	case "node-labels":
		return zoneLabel + "=" + zone
	case "provider-id":
		return theirs[:strings.LastIndex(theirs, "/")+1] + name
	}
	return theirs
}
