package component

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
)

//go:embed stages.yaml
var stages []byte

// nodeLeaseDuration is how long a simulated node's lease lasts; kwok renews it
// every quarter of it, 10 s, as the kubelet does by default.
const nodeLeaseDuration = 40 * time.Second

// Workers is what kwok's command line depends on.
type Workers struct {
	// Address is that of the machine that kwok runs on.
	Address netip.Addr
	// Kubeconfig is the path of a kubeconfig. Server is where the API is instead
	// of where it says; empty for there.
	Kubeconfig string
	Server     string
	// Node is the one that it simulates; empty for all but control-plane nodes.
	Node string
	// Config is a directory for small configuration files.
	Config    string
	ExtraArgs clusters.ExtraArgs
}

// controlPlaneLabel is on Nodes of the control plane, as kubeadm sets it.
const controlPlaneLabel = "node-role.kubernetes.io/control-plane"

// Kwok returns the command that simulates Node objects in the cluster, and the pods
// bound to them. It is for kwok v0.8.
func Kwok(w Workers) Command {
	config := filepath.Join(w.Config, "kwok-stages.yaml")
	address := netip.AddrPortFrom(w.Address, kwokPort).String()
	f := flags{
		"kubeconfig":                       w.Kubeconfig,
		"config":                           config,
		"manage-nodes-with-label-selector": "!" + controlPlaneLabel,
		"node-ip":                          w.Address.String(),
		"node-lease-duration-seconds":      strconv.Itoa(int(nodeLeaseDuration.Seconds())),
		"cidr":                             "10.244.0.0/16",
		"server-address":                   address,
	}
	if w.Node != "" {
		delete(f, "manage-nodes-with-label-selector")
		f["manage-single-node"] = w.Node
	}
	if w.Server != "" {
		f["master"] = w.Server
	}
	return Command{
		Component: framework.Kwok,
		Binary:    "kwok",
		Args:      f.args(w.ExtraArgs[framework.Kwok]),
		Files:     map[string][]byte{config: stages},
		Health:    "http://" + address + "/healthz",
	}
}

// WorkerNodes returns n Node objects as JSON, worker-1 to worker-n, to be
// created through an API server (POST /api/v1/nodes) for kwok to simulate.
func WorkerNodes(n int) ([][]byte, error) {
	nodes := make([][]byte, n)
	for i := range nodes {
		var err error
		if nodes[i], err = nodeObject(fmt.Sprintf("worker-%d", i+1), "node-role.kubernetes.io/worker"); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// ControlPlaneNode returns the Node object of a control-plane node, on which no pods are
// meant to run.
func ControlPlaneNode(name string) ([]byte, error) {
	return nodeObject(name, controlPlaneLabel, corev1.Taint{Key: controlPlaneLabel, Effect: corev1.TaintEffectNoSchedule})
}

func nodeObject(name, role string, taints ...corev1.Taint) ([]byte, error) {
	size := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("32"),
		corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourcePods:   resource.MustParse("110"),
	}
	data, err := json.Marshal(&corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"},
			Labels: map[string]string{
				"type":                   "kwok",
				"kubernetes.io/arch":     runtime.GOARCH,
				"kubernetes.io/os":       "linux",
				"kubernetes.io/hostname": name,
				role:                     "",
			},
		},
		Spec: corev1.NodeSpec{Taints: taints},
		Status: corev1.NodeStatus{
			Allocatable: size,
			Capacity:    size,
			NodeInfo:    corev1.NodeSystemInfo{Architecture: runtime.GOARCH},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("failed to write the node object %s: %w", name, err)
	}
	return data, nil
}
