package remote

import (
	"encoding/base64"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
)

// TestRead: what any API server can answer is read from the first one that does, and then from that one
// again. That an object does not exist is an answer.
func TestRead(t *testing.T) {
	dead, good := api(t, map[string]string{"/api/v1/nodes": "", "/gone": ""}), api(t, quiet())
	a := &access{Inventory: good.Inventory, entrances: []framework.Entrance{dead.entrances[0], good.entrances[0]}}
	if err := a.read(t.Context(), "/unknown", new(struct{})); !notFound(err) || a.answered.Load() != 0 {
		t.Errorf("the first one answers: %v, entrance %d", err, a.answered.Load())
	}
	if nodes, err := a.nodes(t.Context()); err != nil || len(nodes) != 2 || a.answered.Load() != 1 {
		t.Errorf("the first one is silent: %d nodes, %v, entrance %d", len(nodes), err, a.answered.Load())
	}
	a.answered.Store(0)
	if all, err := a.list(t.Context(), "/gone"); err != nil || len(all) > 0 || a.answered.Load() != 1 {
		t.Errorf("the second one answers that it does not exist: %v, %v, entrance %d", all, err, a.answered.Load())
	}
	a.entrances = append(a.entrances[1:], a.entrances[0])
	if _, err := a.nodes(t.Context()); err != nil || a.answered.Load() != 0 {
		t.Errorf("the last one is silent: %v, entrance %d", err, a.answered.Load())
	}
	a.entrances = a.entrances[1:]
	if _, err := a.nodes(t.Context()); err == nil || !strings.Contains(err.Error(), "HTTP 500") {
		t.Errorf("all are silent: %v", err)
	}
}

// fakeNodes puts a program ssh first in PATH that prints what is seen on a destination, and fails for
// others.
func fakeNodes(t *testing.T, seen map[string]string) {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"ssh": "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nexec cat " + dir + "/\"$2\"\n"}
	for destination, text := range seen {
		files[destination] = text
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// stoppedNode is what is seen on a node of kubeadm while its API server does not run.
func stoppedNode() string {
	encoded := func(pod string) string { return base64.StdEncoding.EncodeToString([]byte(pod)) }
	command := "  - name: kube-apiserver\n    command: [kube-apiserver, \"--goaway-chance=0.01\", \"--etcd-cafile=/etc/kubernetes/pki/etcd/ca.crt\"]\n"
	text := strings.Replace(kubeadmNode(), encoded(apiServerPod), encoded(strings.Replace(apiServerPod, "  - name: kube-apiserver\n", command, 1)), 1)
	return strings.Replace(text, "process 201 200 kube-apiserver"+argumentEnd, "process 201 200 other"+argumentEnd, 1)
}

// TestFindSilent: a node whose API server is silent is observed by what runs there. If nothing does, or
// it cannot be reached, its components report nothing. What does not match the inventory is refused.
func TestFindSilent(t *testing.T) {
	all := []framework.Component{framework.Etcd, framework.APIServer, framework.ControllerManager, framework.Scheduler}
	idle := shown("1", "0", "/sbin/init")
	for _, tc := range []struct {
		name    string
		seen    string // on the second node; empty if ssh does not reach it
		version string // as its API server reports it; empty if that is silent
		want    []framework.Component
		lost    string // why nothing of it was found
		refused string
	}{
		{"its API server does not run", stoppedNode(), "", all, "", ""},
		{"it runs, and does not listen", kubeadmNode() + "listen 0016\n", "", all, "", ""},
		{"nothing runs", idle + "address eth1 10.0.0.11/24\n", "", all[1:], "no profile fits how the components on node-2 are run", ""},
		{"it cannot be reached", "", "", all[1:], "on node-2: exit status 1", ""},
		{"its API server does not run, and answers", stoppedNode(), `{"gitVersion": "v1.37.1"}`, nil, "", "no process kube-apiserver that containerd-shim-runc-v2 started"},
		{"it serves on another port", strings.Replace(kubeadmNode(), "--secure-port=6443", "--secure-port=443", 1), "", nil, "", "the API server serves on port 443"},
		{"it is another machine", idle + "address eth1 10.0.0.99/24\n", "", nil, "", "without the address of node node-2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			good, other := api(t, quiet("/api/v1/namespaces/kube-system/pods", `{"items": []}`)), api(t, quiet("/version", tc.version))
			second, e := other.Spec.Nodes[0], other.entrances[0]
			second.Name, second.Address = "node-2", second.Address.Next()
			e.Name, e.Node = second.Name, second.Name
			a := &access{Inventory: &clusters.Inventory{Metadata: good.Metadata, Spec: good.Spec}, entrances: append(good.entrances[:1:1], e)}
			a.Spec.Nodes = append(good.Spec.Nodes[:1:1], second)
			seen := map[string]string{}
			for i, text := range []string{kubeadmNode(), tc.seen} {
				n := &a.Spec.Nodes[i]
				n.SSH = n.Name
				_, port, err := net.SplitHostPort(n.Server())
				if err != nil {
					t.Fatal(err)
				}
				if text != "" {
					seen[n.Name] = strings.NewReplacer("--secure-port=6443", "--secure-port="+port, "10.0.0.11/24", n.Address.String()+"/24").Replace(text)
				}
			}
			fakeNodes(t, seen)
			spec, err := a.describe(t.Context())
			if tc.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refused) {
					t.Errorf("%v, want %q", err, tc.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			ssh, done, err := shells(a.Inventory)
			if err != nil {
				t.Fatal(err)
			}
			defer done()
			if _, err := a.find(t.Context(), ssh, false); err == nil {
				t.Error("it is tolerated for faults")
			}
			byName, err := a.find(t.Context(), ssh, true)
			if err != nil {
				t.Fatal(err)
			}
			c := &Cluster{Observed: &Observed{access: a, spec: spec}, shells: ssh}
			said := ""
			c.add(byName, func(line string) { said += line })
			n := c.Nodes()[1]
			if !slices.Equal(n.Components(), tc.want) || !strings.Contains(said, tc.lost) || (said == "") != (tc.lost == "") {
				t.Errorf("components %v, want %v; it says %q", n.Components(), tc.want, said)
			}
			if _, err := c.EtcdConfig("node-2"); err != nil {
				t.Error(err)
			}
			if tc.lost != "" {
				_, err := n.(framework.ProcessReporter).Process(t.Context(), framework.APIServer)
				if err == nil || !strings.Contains(err.Error(), tc.lost) || len(c.reached) != 1 || len(c.lost) != 1 {
					t.Errorf("the API server of a lost node: %v; %d are reached", err, len(c.reached))
				}
				if _, err := n.(framework.EndpointLister).ServingEndpoints(framework.Etcd); err == nil {
					t.Error("the address of a lost member is known")
				}
				if config := byName["node-2"].config(); len(config.Components) > 0 || n.(framework.AuditSupporter).AuditSupport() == nil {
					t.Errorf("of a lost node is known %+v", config)
				}
				return
			}
			config := byName["node-2"].config()
			if len(c.reached) != 2 || len(config.Components) != 6 || config.EtcdClient.CA != "/etc/kubernetes/pki/etcd/ca.crt" {
				t.Errorf("%d are reached; the agent has %+v", len(c.reached), config)
			}
			if byName["node-2"].processes[framework.APIServer].pid != 0 {
				return
			}
			chance, from := spec.Spec.Nodes[1].ExtraArgs[framework.APIServer]["goaway-chance"], c.source(byName)("node-2", framework.APIServer, "goaway-chance")
			if chance != "0.01" || from != "the manifest of its static pod" {
				t.Errorf("goaway-chance is %q, from %q", chance, from)
			}
		})
	}
}
