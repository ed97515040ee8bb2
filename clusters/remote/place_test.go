package remote

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// TestPlace: a process runs on a node if it shares the node's kernel and network, or sends from
// the node. Containers of one machine, among them the nodes of kind and of test beds, share only
// the kernel.
func TestPlace(t *testing.T) {
	own := place{"b1", "net:[1]"}
	inventory := []clusters.InventoryNode{{Name: "node-1"}, {Name: "node-2"}}
	nodes := []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Spec: corev1.NodeSpec{PodCIDRs: []string{"10.244.1.0/24", "fd00:1::/64"}}}}
	for _, tc := range []struct {
		name                          string
		boot1, network1, boot2        string
		client1, client2, node, shown string
	}{
		{"another machine", "b2", "net:[5]", "b3", "10.0.0.9", "10.0.0.9", "", ""},
		{"another machine, with a namespace of the same name", "b2", "net:[1]", "b3", "10.0.0.9", "10.0.0.9", "", ""},
		{"another machine, with a node as its jump host", "b2", "net:[5]", "b3", "127.0.0.1", "10.0.0.1", "", ""},
		{"nodes in containers of this machine", "b1", "net:[5]", "b1", "172.18.0.1", "172.18.0.1", "", ""},
		{"nodes in namespaces of this machine, through its loopback device", "b1", "net:[5]", "b1", "127.0.0.1", "127.0.0.1", "", ""},
		{"on the node", "b1", "net:[1]", "b3", "127.0.0.1", "10.0.0.1", "node-1", "node-1 has the boot ID and the network namespace of this process"},
		{"on the node, through a jump host", "b1", "net:[1]", "b3", "10.0.0.9", "10.0.0.9", "node-1", "the network namespace"},
		{"in a container on the node", "b1", "net:[5]", "b3", "172.17.0.2", "10.0.0.1", "node-1", "whose connection to node-2 comes from 10.0.0.1"},
		{"in a pod on the node", "b1", "net:[5]", "b3", "10.244.1.7", "10.244.1.7", "node-1", "whose connection to node-1 comes from 10.244.1.7"},
		{"in a pod on the node, over IPv6", "b1", "net:[5]", "b3", "fd00:1::7", "fd00:1::7", "node-1", "comes from fd00:1::7"},
		{"in a pod elsewhere", "b1", "net:[5]", "b3", "10.244.2.7", "10.244.2.7", "", ""},
		{"nodes without IDs", "", "", "", "10.0.0.9", "10.0.0.9", "", ""},
	} {
		seen := map[string]*sight{}
		for i, lines := range [][3]string{{tc.boot1, tc.network1, tc.client1}, {tc.boot2, "net:[6]", tc.client2}} {
			s, err := parseSight(shown("1", "0", "init") + fmt.Sprintf("boot %s\nnetwork %s\nconnection %s 51234 10.0.0.%d 22\naddress lo 127.0.0.1/8\naddress eth0 10.0.0.%[4]d/24\n", lines[0], lines[1], lines[2], i+1))
			if err != nil {
				t.Fatal(err)
			}
			seen[inventory[i].Name] = s
		}
		node, shows := own.on(inventory, seen, nodes)
		if node != tc.node || !strings.Contains(shows, tc.shown) {
			t.Errorf("%s: on %q, since %q; want %q, since %q", tc.name, node, shows, tc.node, tc.shown)
		}
	}
}

// fakeSSH puts a program ssh first in PATH that prints a file, whatever it is to run.
func fakeSSH(t *testing.T, text string) {
	t.Helper()
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	for path, content := range map[string]string{out: text, filepath.Join(dir, "ssh"): "#!/bin/sh\ncat " + out + "\n"} {
		if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// TestPermitOnNode: on a node of the inventory a run with faults on the network is refused before
// it starts. One that only observes is not, nor one without consent to such faults.
func TestPermitOnNode(t *testing.T) {
	own, err := here()
	if err != nil {
		t.Fatal(err)
	}
	const system = "/api/v1/namespaces/kube-system"
	shares := "boot " + own.boot + "\nnetwork " + own.network + "\n"
	network := [][]record.Effect{{record.EffectIsolated, record.EffectNetwork}, {record.EffectDown}}
	for _, tc := range []struct {
		name, seen, levels string
		faults             [][]record.Effect
		want               error
	}{
		{"faults on the network", shares, "process,network", network, ErrOnNode},
		{"no faults", shares, "process,network", nil, nil},
		{"faults on processes", shares, "process,network", [][]record.Effect{{record.EffectDown}}, nil},
		{"a fault with any effect", shares, "process,network", [][]record.Effect{{}}, ErrOnNode},
		{"without consent to faults on the network", shares, "process", network, nil},
		{"on another machine", "boot b2\nnetwork " + own.network + "\n", "process,network", network, nil},
		{"beside a node in a container", "boot " + own.boot + "\nnetwork net:[1]\n", "process,network", network, nil},
	} {
		fakeSSH(t, kubeadmNode()+tc.seen)
		a := api(t, quiet(system, `{"metadata": {"uid": "u"}}`, consentPath, fmt.Sprintf(`{"data": {"clusterUID": "u", "expires": "2999-01-01T00:00:00Z", "levels": %q}}`, tc.levels)))
		a.Spec.Nodes[0].SSH = "node-1"
		spec := clusters.Default()
		spec.Spec.Inventory = a.Inventory
		err := (Provider{}).Permit(t.Context(), spec, tc.faults...)
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
		if err != nil && !strings.Contains(err.Error(), "runs on a node of the inventory, node-1 (node-1 has the boot ID and the network namespace of this process), and faults on the network would cut it off: run holdfast on another machine, or") {
			t.Errorf("%s: the error is %q", tc.name, err)
		}
	}
}

// TestExamineOnNode: the check of an inventory says that holdfast runs on a node of it.
func TestExamineOnNode(t *testing.T) {
	own, err := here()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, seen, want string }{
		{"on the node", "boot " + own.boot + "\nnetwork " + own.network + "\n", "holdfast runs on a node of the inventory, node-1"},
		{"elsewhere", "boot b2\nnetwork " + own.network + "\n", ""},
	} {
		fakeSSH(t, kubeadmNode()+tc.seen)
		a := api(t, quiet())
		a.Spec.Nodes[0].SSH = "node-1"
		said := ""
		for _, c := range Examine(t.Context(), a.Inventory) {
			if c.What == "where holdfast runs" {
				said = c.Found
			}
		}
		if (said == "") != (tc.want == "") || !strings.Contains(said, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, said, tc.want)
		}
	}
}

// TestImpairOnNode: on a node, the fault itself is refused too, after the cluster is attached.
func TestImpairOnNode(t *testing.T) {
	c := &Cluster{Observed: &Observed{spec: clusters.Default()}, onNode: ErrOnNode,
		consent: Consent{Expires: time.Now().Add(time.Hour), Levels: []Level{Processes, Network}}}
	links := []framework.Link{{From: "node-1", To: "node-2"}}
	_, err := c.Impair(t.Context(), links, framework.Impairment{Cut: true}, time.Minute)
	if !errors.Is(err, ErrOnNode) || !errors.Is(err, framework.ErrNothingDone) || !errors.As(err, new(*fault.MissingAbility)) {
		t.Errorf("a cut: %v", err)
	}
	if err := c.CheckImpairment(t.Context(), links, framework.Impairment{Cut: true}); !errors.Is(err, ErrOnNode) || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("the check of a cut: %v", err)
	}
}

// TestHere: this process has a kernel and a network.
func TestHere(t *testing.T) {
	own, err := here()
	if err != nil || len(own.boot) != 36 || !strings.HasPrefix(own.network, "net:[") {
		t.Errorf("%+v, %v", own, err)
	}
	s := &sight{devices: map[netip.Addr]string{netip.MustParseAddr("::1"): "lo"}}
	if s.sends(netip.MustParseAddr("::1")) || s.sends(netip.Addr{}) {
		t.Error("a node is reached from its own loopback device, or from nowhere")
	}
}
