package kind

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
)

// Paths on the nodes.
const (
	nodeAuditPolicy = "/etc/kubernetes/audit-policy.yaml"
	nodeAuditDir    = "/var/log/kubernetes/audit"
	nodeAuditLog    = nodeAuditDir + "/audit.log"
	nodePatches     = "/etc/kubernetes/patches"
	nodeManager     = "/etc/systemd/system.conf.d/holdfast.conf"
)

// containerdPatch has containerd measure what containers use once an hour instead of every second,
// its default since version 2.2, which takes a third of a core from a cluster of five nodes.
// Nothing asks for it.
const containerdPatch = `[plugins."io.containerd.cri.v1.runtime"]
  stats_collect_period = "1h"
`

// configuration returns kind's configuration. image names the node image of a Kubernetes
// version, balancer is the address that the load balancer will have; files that nodes mount are
// written to dir.
func configuration(spec *clusters.Cluster, image func(version string) string, balancer netip.Addr, dir string) (*v1alpha4.Cluster, error) {
	policy := filepath.Join(dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(clusters.AuditPolicy), 0o644); err != nil {
		return nil, fmt.Errorf("failed to write the audit policy: %w", err)
	}
	manager := filepath.Join(dir, "systemd.conf")
	if err := os.WriteFile(manager, []byte(managerConfig(spec)), 0o644); err != nil {
		return nil, fmt.Errorf("failed to write the configuration of systemd: %w", err)
	}
	everywhere := v1alpha4.Mount{HostPath: manager, ContainerPath: nodeManager, Readonly: true}
	cluster, err := kubeadmPatches(spec, balancer)
	if err != nil {
		return nil, err
	}
	config := &v1alpha4.Cluster{
		TypeMeta: v1alpha4.TypeMeta{Kind: "Cluster", APIVersion: "kind.x-k8s.io/v1alpha4"},
		Name:     spec.Metadata.Name,
		Networking: v1alpha4.Networking{
			IPFamily: v1alpha4.IPv4Family, APIServerAddress: "127.0.0.1",
			PodSubnet: podSubnet, ServiceSubnet: serviceSubnet,
			DisableDefaultCNI: true, KubeProxyMode: v1alpha4.NFTablesProxyMode,
		},
		KubeadmConfigPatches:    cluster,
		ContainerdConfigPatches: []string{containerdPatch},
	}
	for _, n := range spec.Nodes() {
		own := n.ExtraArgs
		patches, err := writePatches(filepath.Join(dir, fmt.Sprintf("patches-%d", n.Index)), spec.Spec.ExtraArgs, own)
		if err != nil {
			return nil, fmt.Errorf("failed to write the arguments of %s: %w", n.Name, err)
		}
		node := v1alpha4.Node{
			Role: v1alpha4.ControlPlaneRole, Image: image(n.KubernetesVersion),
			Labels:      map[string]string{zoneLabel: n.Zone},
			ExtraMounts: []v1alpha4.Mount{everywhere, {HostPath: policy, ContainerPath: nodeAuditPolicy, Readonly: true}},
		}
		if patches != "" {
			node.ExtraMounts = append(node.ExtraMounts, v1alpha4.Mount{HostPath: patches, ContainerPath: nodePatches, Readonly: true})
			node.KubeadmConfigPatches = patchesFrom(nodePatches)
		}
		config.Nodes = append(config.Nodes, node)
	}
	for range spec.Spec.Workers {
		config.Nodes = append(config.Nodes, v1alpha4.Node{Role: v1alpha4.WorkerRole, Image: image(spec.Spec.KubernetesVersion), ExtraMounts: []v1alpha4.Mount{everywhere}})
	}
	return config, nil
}

// runtimeEnvironment is the environment of Go programs on nodes, which share the machine.
func runtimeEnvironment(spec *clusters.Cluster) (all []pair) {
	set := clusters.RuntimeEnvironment(runtime.NumCPU(), len(spec.Spec.Nodes))
	for _, name := range slices.Sorted(maps.Keys(set)) {
		all = append(all, pair{name, set[name]})
	}
	return all
}

// managerConfig sets it for the services of a node: kubelet and container runtime.
func managerConfig(spec *clusters.Cluster) string {
	text := "[Manager]\nDefaultEnvironment="
	for _, p := range runtimeEnvironment(spec) {
		text += fmt.Sprintf("%q ", p.Name+"="+p.Value)
	}
	return strings.TrimSpace(text) + "\n"
}

const (
	podSubnet     = "10.244.0.0/16"
	serviceSubnet = "10.96.0.0/16"
	zoneLabel     = "topology.kubernetes.io/zone"
)

// pair is one of kubeadm's extraArgs and extraEnvs (kubeadm.k8s.io/v1beta4).
type pair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// listsFrom is the version from which on kind writes configuration of v1beta4, in which
// arguments are lists. Before, they are objects, and the environment cannot be set.
const listsFrom = "v1.36.0"

// component is kubeadm's configuration of one component.
type component struct {
	CertSANs     []string `json:"certSANs,omitempty"`
	ExtraArgs    any      `json:"extraArgs,omitempty"`
	ExtraEnvs    []pair   `json:"extraEnvs,omitempty"`
	ExtraVolumes []mount  `json:"extraVolumes,omitempty"`
}

// withArguments returns a component with flags and, if the format supports it, the environment
// for components of nodes that share a machine (see clusters.RuntimeEnvironment).
func withArguments(spec *clusters.Cluster, flags map[string]string) component {
	if semver.Compare(spec.Spec.KubernetesVersion, listsFrom) < 0 {
		return component{ExtraArgs: flags}
	}
	args := []pair{}
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		args = append(args, pair{name, flags[name]})
	}
	return component{ExtraArgs: args, ExtraEnvs: runtimeEnvironment(spec)}
}

// mount is one of kubeadm's extraVolumes.
type mount struct {
	Name      string `json:"name"`
	HostPath  string `json:"hostPath"`
	MountPath string `json:"mountPath"`
	ReadOnly  bool   `json:"readOnly"`
	PathType  string `json:"pathType"`
}

// kubeadmPatches returns the changes of kubeadm's configuration on every node: audit logs of
// the API servers, the cluster's own arguments, and a kubelet that accepts control groups of
// version 1. A list replaces kind's own, which is therefore repeated.
func kubeadmPatches(spec *clusters.Cluster, balancer netip.Addr) ([]string, error) {
	args := clusters.ExtraArgs{
		framework.APIServer: {
			"runtime-config": "", "audit-policy-file": nodeAuditPolicy, "audit-log-path": nodeAuditLog,
			"audit-log-maxsize": "100", "audit-log-maxbackup": "2",
		},
		framework.ControllerManager: {"enable-hostpath-provisioner": "true"},
	}.Merge(spec.Spec.ExtraArgs)
	var all []string
	add := func(patch any) error {
		b, err := yaml.Marshal(patch)
		all = append(all, string(b))
		return err
	}
	apiServer := withArguments(spec, args[framework.APIServer])
	// Clients that use controlPlaneEndpoint connect by the balancer's name; kubeadm adds it.
	apiServer.CertSANs = []string{"localhost", "127.0.0.1", balancer.String()}
	apiServer.ExtraVolumes = []mount{
		{Name: "audit-policy", HostPath: nodeAuditPolicy, MountPath: nodeAuditPolicy, ReadOnly: true, PathType: "File"},
		{Name: "audit-logs", HostPath: nodeAuditDir, MountPath: nodeAuditDir, PathType: "DirectoryOrCreate"},
	}
	cluster := map[string]any{
		"kind":              "ClusterConfiguration",
		"apiServer":         apiServer,
		"controllerManager": withArguments(spec, args[framework.ControllerManager]),
		"scheduler":         withArguments(spec, args[framework.Scheduler]),
		"etcd":              map[string]any{"local": withArguments(spec, args[framework.Etcd])},
	}
	if err := add(cluster); err != nil {
		return nil, err
	}
	kubelet, err := kubeletPatch(spec)
	if err != nil {
		return nil, err
	}
	return all, add(kubelet)
}

// patchesFrom makes kubeadm patch the static pods that it writes on a node.
func patchesFrom(dir string) []string {
	var all []string
	for _, kind := range []string{"InitConfiguration", "JoinConfiguration"} {
		all = append(all, fmt.Sprintf("kind: %s\npatches:\n  directory: %s\n", kind, dir))
	}
	return all
}

// writePatches writes the changes of a node's static pods for its own arguments, as patches for
// kubeadm, into dir, and returns dir; empty if nothing changes. The last value of a repeated
// flag wins.
func writePatches(dir string, cluster, node clusters.ExtraArgs) (string, error) {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value string `json:"value"`
	}
	written := ""
	for _, c := range []framework.Component{framework.APIServer, framework.ControllerManager, framework.Scheduler, framework.Etcd} {
		var patch []operation
		for _, flag := range slices.Sorted(maps.Keys(node[c])) {
			value := node[c][flag]
			if common, ok := cluster[c][flag]; ok && common == value {
				continue
			}
			patch = append(patch, operation{"add", "/spec/containers/0/command/-", "--" + flag + "=" + value})
		}
		if len(patch) == 0 {
			continue
		}
		b, err := json.Marshal(patch)
		if err == nil {
			err = os.MkdirAll(dir, 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, string(c)+"+json.json"), b, 0o644)
		}
		if err != nil {
			return "", err
		}
		written = dir
	}
	return written, nil
}

// cannot says what part of a description this provider does not support, and what to do.
func cannot(spec *clusters.Cluster) error {
	s := spec.Spec
	switch {
	case len(s.Nodes) > 1 && s.LoadBalancer.Kind != clusters.BalancerBuiltin:
		return fmt.Errorf("the balancer %s is not supported on kind, which has its own: use %s", s.LoadBalancer.Kind, clusters.BalancerBuiltin)
	case s.LoadBalancer.HealthCheck != clusters.Default().Spec.LoadBalancer.HealthCheck:
		return fmt.Errorf("the health checks of kind's balancer cannot be changed or disabled: leave out spec.loadBalancer.healthCheck")
	case s.EtcdBalancer != "":
		return fmt.Errorf("a balancer of etcd members is not supported on kind")
	case s.EtcdVersion != "":
		return fmt.Errorf("the version of etcd cannot be chosen on kind: kubeadm picks it")
	}
	if _, err := nodeLease(spec); err != nil {
		return err
	}
	for c, how := range s.Election {
		if how != clusters.ElectionLease {
			return fmt.Errorf("the election %s of %s is not supported on kind, whose components elect their own leaders", how, c)
		}
	}
	for _, n := range spec.Nodes() {
		switch _, managed := n.ExtraArgs[framework.AddonManager]; {
		case managed:
			return fmt.Errorf("add-on managers are not supported on kind: kubeadm installs its add-ons once, and no component applies them again")
		case n.EtcdVersion != "":
			return fmt.Errorf("the version of etcd cannot be chosen on kind: kubeadm picks it")
		case n.Disk == clusters.DiskFUSE:
			return fmt.Errorf("disk %s is not supported on kind: use disk %s", clusters.DiskFUSE, clusters.DiskNone)
		}
	}
	return nil
}
