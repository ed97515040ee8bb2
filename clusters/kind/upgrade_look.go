package kind

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/clusters/internal/readiness"
	"github.com/holdfast-ha/holdfast/clusters/internal/upgrading"
	"github.com/holdfast-ha/holdfast/framework"
)

// components are those with the version of Kubernetes.
var components = []framework.Component{framework.APIServer, framework.ControllerManager, framework.Scheduler}

// looked is the API's state of the nodes and of their static pods.
type looked struct {
	nodes map[string]corev1.Node
	pods  map[string]map[framework.Component]corev1.Pod
}

// look reads the API.
func (c *Cluster) look(ctx context.Context) (looked, error) {
	l := looked{nodes: map[string]corev1.Node{}, pods: map[string]map[framework.Component]corev1.Pod{}}
	var nodes corev1.NodeList
	var pods corev1.PodList
	for path, list := range map[string]any{
		"/api/v1/nodes": &nodes,
		"/api/v1/namespaces/kube-system/pods?labelSelector=tier%3Dcontrol-plane": &pods,
	} {
		if _, err := await.API(ctx, c.Entrances()[0], path, func(body []byte) error { return json.Unmarshal(body, list) }); err != nil {
			return looked{}, fmt.Errorf("failed to ask for %s: %w", path, err)
		}
	}
	for _, n := range nodes.Items {
		l.nodes[n.Name], l.pods[n.Name] = n, map[framework.Component]corev1.Pod{}
	}
	for _, p := range pods.Items {
		if l.pods[p.Spec.NodeName] != nil {
			l.pods[p.Spec.NodeName][framework.Component(p.Labels["component"])] = p
		}
	}
	return l, nil
}

// kubelet returns the version of a node's kubelet; empty where it has not registered.
func (l looked) kubelet(node string) string { return l.nodes[node].Status.NodeInfo.KubeletVersion }

// component returns the version of a component's static pod; empty if none exists.
func (l looked) component(node string, c framework.Component) string {
	p, ok := l.pods[node][c]
	if !ok || len(p.Spec.Containers) == 0 {
		return ""
	}
	image := p.Spec.Containers[0].Image
	return image[strings.LastIndexByte(image, ':')+1:]
}

// apiServer returns the version of a node's API server, or of the kubelet if the API server is
// held down.
func (l looked) apiServer(node string) string {
	return cmp.Or(l.component(node, framework.APIServer), l.kubelet(node))
}

// notYet returns what on a node does not run a version, or is not ready.
func (l looked) notYet(n *node, version string) error {
	problems := []error{readiness.Of(l.nodes, []string{n.name})}
	switch v := l.kubelet(n.name); v {
	case version:
	case "":
		problems = append(problems, errors.New("its kubelet reports no version"))
	default:
		problems = append(problems, fmt.Errorf("its kubelet is %s", v))
	}
	if n.role != controlPlaneRole {
		return errors.Join(problems...)
	}
	for _, component := range append(slices.Clone(components), framework.Etcd) {
		p, ok := l.pods[n.name][component]
		switch v := l.component(n.name, component); {
		case !ok:
			problems = append(problems, fmt.Errorf("%s has no pod", component))
		case component != framework.Etcd && v != version: // kubeadm chooses the version of etcd
			problems = append(problems, fmt.Errorf("%s is %s", component, v))
		default:
			if why := podNotReady(p); why != "" {
				problems = append(problems, fmt.Errorf("%s is not ready: %s", component, why))
			}
		}
	}
	return errors.Join(problems...)
}

// runs reports whether all of a node runs a version.
func (l looked) runs(n *node, version string) bool {
	has := l.kubelet(n.name) == version
	if n.role == controlPlaneRole {
		for _, component := range components {
			has = has && l.component(n.name, component) == version
		}
	}
	return has
}

// oldestUpgrade is the first version whose `kubeadm upgrade apply` has phases; the first one is
// skipped.
const oldestUpgrade = "v1.32.0"

// refusal returns why a node must not change to a version, by the version skew policy or
// because kubeadm does not support it; nil if it may. configured is the version in kubeadm's
// configuration of the cluster.
func (l looked) refusal(n *node, version, configured string, controlPlane, workers []*node) error {
	newest := l.kubelet(n.name)
	if newest == "" {
		return errors.New("the API does not know it: its kubelet has not registered it")
	}
	for _, component := range components {
		if v := l.component(n.name, component); semver.Compare(v, newest) > 0 {
			newest = v
		}
	}
	switch {
	case semver.Compare(version, newest) < 0:
		return fmt.Errorf("it runs %s, and kubeadm cannot downgrade a node: %w", newest, errors.ErrUnsupported)
	case semver.Compare(version, oldestUpgrade) < 0:
		return fmt.Errorf("kubeadm before %s is not supported here: %w", oldestUpgrade, errors.ErrUnsupported)
	case n.role == controlPlaneRole && semver.Compare(version, configured) < 0:
		return fmt.Errorf("kubeadm's configuration of the cluster is already for %s: upgrade it to that", configured)
	}
	has := map[string]map[framework.Component]string{}
	for _, other := range controlPlane {
		v := l.apiServer(other.name)
		has[other.name] = map[framework.Component]string{framework.APIServer: v,
			framework.ControllerManager: l.component(other.name, framework.ControllerManager), framework.Scheduler: l.component(other.name, framework.Scheduler)}
		switch {
		case v == "":
			return fmt.Errorf("the API has no node %s, so its version is unknown: bring it back or remove it first", other.name)
		case n.role == workerRole && upgrading.Minor(version) > upgrading.Minor(v):
			return fmt.Errorf("a kubelet may not be newer than an API server, and that of %s is %s: upgrade the control-plane nodes first", other.name, v)
		}
	}
	if err := upgrading.APIServer(version, has); n.role == controlPlaneRole && err != nil {
		return err
	}
	for _, other := range slices.Concat(controlPlane, workers) {
		if v := l.kubelet(other.name); v != "" && other != n && upgrading.Minor(version)-upgrading.Minor(v) > 3 {
			return fmt.Errorf("a kubelet may be at most three minor versions older than an API server, and that of %s is %s: upgrade that node first", other.name, v)
		}
	}
	return nil
}

// addonsFollow reports whether kubeadm also upgrades the add-ons to a version after a node: it
// does if no other API server has an older one.
func (l looked) addonsFollow(n *node, version string) bool {
	for other, pods := range l.pods {
		if _, ok := pods[framework.APIServer]; ok && other != n.name && l.component(other, framework.APIServer) != version {
			return false
		}
	}
	return n.role == controlPlaneRole
}

// configured returns the version in kubeadm's configuration of the cluster.
func (c *Cluster) configured(ctx context.Context) (string, error) {
	const path = "/api/v1/namespaces/kube-system/configmaps/kubeadm-config"
	var config struct{ KubernetesVersion string }
	_, err := await.API(ctx, c.Entrances()[0], path, func(body []byte) error {
		var cm corev1.ConfigMap
		if err := json.Unmarshal(body, &cm); err != nil {
			return err
		}
		return yaml.Unmarshal([]byte(cm.Data["ClusterConfiguration"]), &config)
	})
	switch {
	case err != nil:
		return "", fmt.Errorf("failed to ask for kubeadm's configuration of the cluster: %w", err)
	case !semver.IsValid(config.KubernetesVersion):
		return "", fmt.Errorf("kubeadm's configuration of the cluster has an invalid kubernetesVersion: %q", config.KubernetesVersion)
	}
	return config.KubernetesVersion, nil
}
