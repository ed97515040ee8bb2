package kind

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/kind/internal/docker"
)

// TestAdded: nodes that are added to another tool's cluster are marked, are not described, and
// are the only ones that are removed.
func TestAdded(t *testing.T) {
	var model docker.Container
	model.Config.Labels = map[string]string{clusterLabel: "x", roleLabel: controlPlaneRole}
	c := scaled("x-control-plane", "x-control-plane2")
	if got := c.marked(model); isAdded(got) || len(got.Config.Labels) != 2 {
		t.Errorf("in a cluster of holdfast's own: %v", got.Config.Labels)
	}
	c.foreign = true
	if got := c.marked(model); !isAdded(got) || got.Config.Labels[clusterLabel] != "x" || isAdded(model) {
		t.Errorf("%v, and the model has %v", got.Config.Labels, model.Config.Labels)
	}

	dir := fakeDocker(t, engineOfTheirs)
	touch(t, dir, "added")
	described, err := describe(t.Context(), docker.CLI{}, "y")
	if err != nil || len(described.Spec.Nodes) != 1 {
		t.Errorf("%+v, %v", described, err)
	}
	// What cannot be removed is named; there is nothing to remove in others.
	if err := removeLeft(t.Context(), docker.CLI{}, "y"); err == nil || !strings.Contains(err.Error(), "that were added to cluster y") {
		t.Errorf("%v", err)
	}
	dir = fakeDocker(t, engineOfTheirs)
	if err := removeLeft(t.Context(), docker.CLI{}, "y"); err != nil || strings.Contains(calls(t, dir), "network inspect") {
		t.Errorf("%v:\n%s", err, calls(t, dir))
	}

	// docker says that no container runs, so nothing can be removed: all that were added are tried.
	fakeDocker(t, `echo "[{\"Name\":\"/x\",\"State\":{\"Running\":false}}]"`)
	var said []string
	c.o.Progress = func(line string) { said = append(said, line) }
	if err := c.removeAdded(t.Context()); err != nil || len(said) > 0 {
		t.Errorf("nothing was added: %v, %v", said, err)
	}
	c.nodes[1].added = true
	if err := c.removeAdded(t.Context()); err == nil || !strings.Contains(err.Error(), "failed to remove node x-control-plane2 from cluster x") ||
		!slices.Equal(said, []string{"removing x-control-plane2, which was added"}) {
		t.Errorf("%v, %v", said, err)
	}
}

// TestExpands: nodes are added where addresses are pinned, or will be. Asking changes nothing.
func TestExpands(t *testing.T) {
	for _, test := range []struct {
		nodes int
		files []string
		says  string
	}{
		{nodes: 3},
		{nodes: 3, files: []string{"others"}, says: "other containers are on the network kind too (others)"},
		{nodes: 3, files: []string{"others", "pinned"}},
		{nodes: 1, says: "one control-plane node"},
	} {
		c := clusters.Default()
		c.Metadata.Name = "y"
		c.SetNodes(test.nodes)
		dir := fakeDocker(t, engineOfTheirs)
		for _, file := range append(test.files, "calls") {
			touch(t, dir, file)
		}
		err := expands(t.Context(), docker.CLI{}, c)
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%+v: %v", test, err)
		}
		for line := range strings.Lines(calls(t, dir)) {
			if line != "calls\n" && !strings.HasPrefix(line, "ps --all ") && !strings.HasPrefix(line, "container inspect ") {
				t.Errorf("%+v: docker %s", test, line)
			}
		}
	}
}
