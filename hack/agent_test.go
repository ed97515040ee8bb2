package hack

import (
	"os/exec"
	"strings"
	"testing"
)

// TestAgentIsSmall: the node agent, which is copied to each node of a vendor's cluster, has 15 MiB at
// most. The types of the Kubernetes API alone make it too large.
func TestAgentIsSmall(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/holdfast-agent")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for imported := range strings.Lines(string(out)) {
		if strings.HasPrefix(imported, "k8s.io/api/") || strings.HasPrefix(imported, "go.etcd.io/etcd/server/") {
			t.Errorf("the node agent imports %s", imported)
		}
	}
}
