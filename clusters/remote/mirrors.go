package remote

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
)

// mirrors are the mirror pods of a control plane's static pods.
type mirrors []corev1.Pod

// pods returns the mirror pods, on nodes under their names in the inventory.
func (a *access) pods(ctx context.Context) (mirrors, error) {
	var pods corev1.PodList
	if err := a.read(ctx, "/api/v1/namespaces/kube-system/pods?labelSelector=tier%3Dcontrol-plane", &pods); err != nil {
		return nil, fmt.Errorf("failed to list the components of the control plane: %w", err)
	}
	nodes := framework.Names(pods.Items, func(p corev1.Pod) string { return p.Spec.NodeName })
	for i, p := range pods.Items {
		pods.Items[i].Spec.NodeName = a.named(p.Spec.NodeName, []string{p.Status.HostIP}, nodes)
	}
	return pods.Items, nil
}

// of returns the containers of a node's components, by the component.
func (m mirrors) of(node string) map[framework.Component]corev1.Container {
	all := map[framework.Component]corev1.Container{}
	for _, p := range m {
		if p.Spec.NodeName == node && p.Labels["component"] != "" && len(p.Spec.Containers) > 0 {
			all[framework.Component(p.Labels["component"])] = p.Spec.Containers[0]
		}
	}
	return all
}

// args returns the arguments for bounds, as far as pods show them.
func (m mirrors) args(node string) clusters.ExtraArgs { return argsOf(m.processes(node)) }

// processes returns a node's components with the command lines of their pods.
func (m mirrors) processes(node string) map[framework.Component]process {
	processes := map[framework.Component]process{}
	for c, container := range m.of(node) {
		if line := slices.Concat(container.Command, container.Args); len(line) > 0 { // the program may be the image's
			processes[c] = process{args: slices.Concat([]string{string(c)}, line)}
		}
	}
	return processes
}

// etcdServers returns the URLs at which API servers reach an external etcd; none if members are
// static pods beside them.
func (m mirrors) etcdServers() (urls []string) {
	if slices.ContainsFunc(m, func(p corev1.Pod) bool { return p.Labels["component"] == string(framework.Etcd) }) {
		return nil
	}
	for _, p := range m {
		for _, server := range strings.Split(m.args(p.Spec.NodeName)[framework.APIServer]["etcd-servers"], ",") {
			if server != "" && !slices.Contains(urls, server) {
				urls = append(urls, server)
			}
		}
	}
	return urls
}

// version returns the version of a component by the tag of its image; empty if it has none.
func (m mirrors) version(node string, c framework.Component) string {
	image, _, _ := strings.Cut(path.Base(m.of(node)[c].Image), "@") // without its digest
	_, tag, _ := strings.Cut(image, ":")
	return tag
}

// argsOf returns the arguments from which bounds are computed.
func argsOf(processes map[framework.Component]process) clusters.ExtraArgs {
	all := clusters.ExtraArgs{}
	for c, flags := range clusters.BoundFlags {
		p, ok := processes[c]
		for _, flag := range flags {
			if value := ""; ok {
				if value = p.flag(flag); value != "" {
					if all[c] == nil {
						all[c] = map[string]string{}
					}
					all[c][flag] = value
				}
			}
		}
	}
	return all
}
