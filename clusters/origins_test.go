package clusters

import (
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

// TestOrigins: a setting comes from the flag that has the longest time, or is a default.
func TestOrigins(t *testing.T) {
	c := Default()
	c.Spec.Nodes = make([]NodeSpec, 3)
	c.Spec.Nodes[0].ExtraArgs = ExtraArgs{framework.Scheduler: {"leader-elect-lease-duration": "20s"}}
	c.Spec.Nodes[1].ExtraArgs = ExtraArgs{framework.ControllerManager: {"leader-elect-lease-duration": "40s"}, framework.Etcd: {"election-timeout": "2000"}}
	s, err := Settings(c)
	if err != nil {
		t.Fatal(err)
	}
	for symbol, want := range map[string]string{
		"L": "leader-elect-lease-duration of kube-controller-manager on " + c.Node(1).Name,
		"E": "election-timeout of etcd on " + c.Node(1).Name,
		"P": "default of kube-controller-manager and kube-scheduler",
		"T": "constant of kube-apiserver",
		"H": "health check of the load balancer, as described",
	} {
		if got := s.Origins[symbol]; got != want {
			t.Errorf("%s: %q, want %q", symbol, got, want)
		}
	}
	from := Origins(c, s, func(node string, component framework.Component, flag string) string {
		if component == framework.Etcd {
			return ""
		}
		return "the " + flag + " in the file of " + node
	})
	if want := "leader-elect-lease-duration of kube-controller-manager on node-2, from the leader-elect-lease-duration in the file of node-2"; from["L"] != want {
		t.Errorf("L: %q, want %q", from["L"], want)
	}
	for _, symbol := range []string{"E", "P", "T", "H"} {
		if from[symbol] != s.Origins[symbol] {
			t.Errorf("%s: %q without a source, want %q", symbol, from[symbol], s.Origins[symbol])
		}
	}
}
