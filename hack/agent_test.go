package hack

import (
	"os/exec"
	"strings"
	"testing"
)

// TestAgentIsSmall: the node agent, which is copied to each node of a vendor's cluster, has 15 MiB at
// most. The types of the Kubernetes API, or the record with its compression, alone make it too large.
func TestAgentIsSmall(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/holdfast-agent")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for imported := range strings.Lines(string(out)) {
		for _, large := range []string{"k8s.io/api/", "go.etcd.io/etcd/server/", "github.com/klauspost/compress/", "github.com/holdfast-ha/holdfast/framework/record"} {
			if strings.HasPrefix(imported, large) {
				t.Errorf("the node agent imports %s", imported)
			}
		}
	}
}
