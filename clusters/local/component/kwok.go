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

// NodeLeaseDuration is how long a simulated node's lease lasts; kwok renews it
// every quarter of it, 10 s, as the kubelet does by default.
const NodeLeaseDuration = 40 * time.Second

// Workers is what kwok's command line depends on.
type Workers struct {
	// Address is that of the machine that kwok runs on.
	Address netip.Addr
	// Kubeconfig is the path of a kubeconfig. Server is where the API is instead
	// of where it says; empty for there.
	Kubeconfig string
	Server     string
	// Config is a directory for small configuration files.
	Config    string
	ExtraArgs clusters.ExtraArgs
}

// Kwok returns the command that simulates every Node object in the cluster, and
// the pods bound to it. It is for kwok v0.8.
func Kwok(w Workers) Command {
	config := filepath.Join(w.Config, "kwok-stages.yaml")
	address := netip.AddrPortFrom(w.Address, KwokPort).String()
	f := flags{
		"kubeconfig":                  w.Kubeconfig,
		"config":                      config,
		"manage-all-nodes":            "true",
		"node-ip":                     w.Address.String(),
		"node-lease-duration-seconds": strconv.Itoa(int(NodeLeaseDuration.Seconds())),
		"cidr":                        "10.244.0.0/16",
		"server-address":              address,
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
		name := fmt.Sprintf("worker-%d", i+1)
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
					"type":                           "kwok",
					"kubernetes.io/arch":             runtime.GOARCH,
					"kubernetes.io/os":               "linux",
					"kubernetes.io/hostname":         name,
					"node-role.kubernetes.io/worker": "",
				},
			},
			Status: corev1.NodeStatus{
				Allocatable: size,
				Capacity:    size,
				NodeInfo:    corev1.NodeSystemInfo{Architecture: runtime.GOARCH},
			},
		})
		if err != nil {
			return nil, fmt.Errorf("failed to write the node object %s: %w", name, err)
		}
		nodes[i] = data
	}
	return nodes, nil
}
