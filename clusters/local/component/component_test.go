package component

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local/pki"
	"github.com/holdfast-ha/holdfast/framework"
)

func testNode() Node {
	return Node{
		Cluster: "demo", Name: "node-1", Address: netip.MustParseAddr("10.77.0.11"),
		PKI: "/n/pki", Config: "/n/config", Data: "/n/etcd", Logs: "/n/logs",
		Members: []Member{
			{"node-1", netip.MustParseAddr("10.77.0.11")},
			{"node-2", netip.MustParseAddr("10.77.0.12")},
			{"node-3", netip.MustParseAddr("10.77.0.13")},
		},
	}
}

func TestArguments(t *testing.T) {
	extra := testNode()
	extra.ExtraArgs = clusters.ExtraArgs{
		framework.APIServer: {"endpoint-reconciler-type": "none", "feature-gates": ""},
		framework.Scheduler: {"leader-elect": "false"},
	}
	joining := testNode()
	joining.Existing = true
	alone := testNode()
	alone.OnlyNodeAddress = true
	six := testNode()
	six.Address = netip.MustParseAddr("fd00::11")
	for _, tc := range []struct {
		name      string
		command   Command
		want, not []string
	}{
		{"etcd", etcd(testNode()), []string{
			"--name=node-1", "--data-dir=/n/etcd", "--initial-cluster-state=new", "--initial-cluster-token=demo",
			"--initial-cluster=node-1=https://10.77.0.11:2380,node-2=https://10.77.0.12:2380,node-3=https://10.77.0.13:2380",
			"--listen-client-urls=https://10.77.0.11:2379,https://127.0.0.1:2379", "--advertise-client-urls=https://10.77.0.11:2379",
			"--client-cert-auth=true", "--peer-client-cert-auth=true", "--listen-metrics-urls=http://127.0.0.1:2381",
		}, []string{"unsafe", "experimental"}},
		{"etcd joins", etcd(joining), []string{"--initial-cluster-state=existing"}, nil},
		{"etcd on its address alone", etcd(alone), []string{"--listen-client-urls=https://10.77.0.11:2379", "--listen-metrics-urls=http://10.77.0.11:2381"}, []string{"127.0.0.1"}},
		{"API server", apiServer(testNode()), []string{
			"--etcd-servers=https://127.0.0.1:2379", "--advertise-address=10.77.0.11", "--bind-address=0.0.0.0", "--secure-port=6443",
			"--authorization-mode=Node,RBAC", "--endpoint-reconciler-type=lease", "--service-cluster-ip-range=10.96.0.0/16",
			"--audit-policy-file=/n/config/audit-policy.yaml", "--audit-log-path=/n/logs/audit.log",
		}, []string{"10.77.0.12"}},
		{"API server, IPv6", apiServer(six), []string{"--etcd-servers=https://[::1]:2379", "--advertise-address=fd00::11", "--bind-address=::"}, nil},
		{"controller manager", controllerManager(testNode()), []string{
			"--kubeconfig=/n/pki/controller-manager.conf", "--leader-elect=true", "--use-service-account-credentials=true",
			"--cluster-signing-cert-file=/n/pki/signing-ca.crt", "--root-ca-file=/n/pki/ca.crt", "--cluster-name=demo",
		}, []string{"lease-duration", "retry-period"}},
		{"scheduler", scheduler(testNode()), []string{"--kubeconfig=/n/pki/scheduler.conf", "--leader-elect=true"}, []string{"lease-duration"}},
		{"replaced and added", apiServer(extra), []string{"--endpoint-reconciler-type=none", "--feature-gates="}, []string{"--endpoint-reconciler-type=lease"}},
		{"replaced", scheduler(extra), []string{"--leader-elect=false"}, []string{"--leader-elect=true"}},
		{"not for this one", controllerManager(extra), []string{"--leader-elect=true"}, []string{"feature-gates"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, want := range tc.want {
				if !slices.Contains(tc.command.Args, want) {
					t.Errorf("%s is missing in %s", want, strings.Join(tc.command.Args, "\n"))
				}
			}
			for _, not := range tc.not {
				if strings.Contains(strings.Join(tc.command.Args, "\n"), not) {
					t.Errorf("%s is in %s", not, strings.Join(tc.command.Args, "\n"))
				}
			}
			seen := map[string]bool{}
			for _, arg := range tc.command.Args {
				name, _, _ := strings.Cut(arg, "=")
				if seen[name] {
					t.Errorf("%s is given twice", name)
				}
				seen[name] = true
			}
		})
	}
}

// TestFilesAreThere: every file that an argument names is made by pki, or
// comes with the command.
func TestFilesAreThere(t *testing.T) {
	dir := t.TempDir()
	n := testNode()
	n.PKI = filepath.Join(dir, "pki")
	authority, err := pki.New(pki.Options{Cluster: n.Cluster})
	if err != nil {
		t.Fatal(err)
	}
	if err := authority.WriteNode(n.PKI, n.Name, APIServerURL(n.Address), nil); err != nil {
		t.Fatal(err)
	}
	for _, command := range Commands(n) {
		for _, arg := range command.Args {
			_, value, _ := strings.Cut(arg, "=")
			if !strings.HasPrefix(value, n.PKI) && !strings.HasPrefix(value, n.Config+"/audit") {
				continue
			}
			if _, written := command.Files[value]; written {
				continue
			}
			if _, err := os.Stat(value); err != nil {
				t.Errorf("%s: %s: %v", command.Binary, arg, err)
			}
		}
	}
}

func TestKwok(t *testing.T) {
	w := Workers{Address: netip.MustParseAddr("10.77.0.100"), Kubeconfig: "/w/kwok.conf", Config: "/w"}
	command := Kwok(w)
	for _, want := range []string{"--kubeconfig=/w/kwok.conf", "--manage-nodes-with-label-selector=!node-role.kubernetes.io/control-plane", "--node-lease-duration-seconds=40", "--config=/w/kwok-stages.yaml"} {
		if !slices.Contains(command.Args, want) {
			t.Errorf("%s is missing in %v", want, command.Args)
		}
	}
	w.Node = "node-1"
	args := strings.Join(Kwok(w).Args, " ")
	if !strings.Contains(args, "--manage-single-node=node-1") || strings.Contains(args, "--manage-nodes-with-label-selector") {
		t.Errorf("for one node: %s", args)
	}
	kinds := map[string]int{}
	documents := yaml.NewDecoder(strings.NewReader(string(command.Files["/w/kwok-stages.yaml"])))
	for {
		var stage struct {
			Spec struct {
				ResourceRef struct{ Kind string } `yaml:"resourceRef"`
			}
		}
		if documents.Decode(&stage) != nil {
			break
		}
		kinds[stage.Spec.ResourceRef.Kind]++
	}
	if kinds["Node"] != 2 || kinds["Pod"] != 3 {
		t.Errorf("there are stages for %v", kinds)
	}
}

func TestWorkerNodes(t *testing.T) {
	objects, err := WorkerNodes(3)
	if err != nil || len(objects) != 3 {
		t.Fatal(objects, err)
	}
	var node corev1.Node
	if err := json.Unmarshal(objects[2], &node); err != nil {
		t.Fatal(err)
	}
	if node.Name != "worker-3" || node.Kind != "Node" || node.Annotations["kwok.x-k8s.io/node"] != "fake" || node.Status.Allocatable.Cpu().IsZero() {
		t.Errorf("it is %s", objects[2])
	}
}
