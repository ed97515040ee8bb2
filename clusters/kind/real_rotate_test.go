package kind

import (
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/internal/await"
	"github.com/holdfast-ha/holdfast/framework"
)

// TestRotateForReal makes a cluster and gives each node new certificates. It takes what
// TestForReal takes:
//
//	HOLDFAST_TEST_KIND=1 go test ./clusters/kind -run RotateForReal -v -timeout 60m
func TestRotateForReal(t *testing.T) {
	spec := clusters.Default()
	spec.Metadata.Name, spec.Spec.Workers = "holdfast-rotate", 1
	if !insideEngine(t, spec) {
		return
	}
	c := createReal(t, spec)
	if err := c.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, n := range c.controlPlane() {
		var steps []string
		ctx := framework.WithSteps(t.Context(), func(s framework.Step) error {
			t.Logf("%s on %s: %s", s.Name, s.Node, s.Proof)
			steps = append(steps, s.Proof)
			return nil
		})
		if err := c.RotateCertificates(ctx, n.name); err != nil {
			t.Fatal(err)
		}
		// kubeadm, etcd with two ports, the API server, and two that serve nothing to others.
		if all := strings.Join(steps, "\n"); len(steps) != 5 || strings.Count(all, "certificate with fingerprint") != 3 || strings.Count(all, " serves, after process ") != 4 {
			t.Errorf("the steps of %s:\n%s", n.name, all)
		}
		if _, err := await.API(t.Context(), c.Entrances()[0], "/readyz", await.Anything); err != nil {
			t.Errorf("the balancer, after %s: %v", n.name, err)
		}
	}
}
