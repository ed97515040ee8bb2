package suites

import (
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/kind"
	"github.com/holdfast-ha/holdfast/clusters/local"
)

// TestAttachRefused: a suite that takes over a cluster needs a provider that can, and no description of
// another cluster.
func TestAttachRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		options Options
		want    string
	}{
		"a provider that only creates": {Options{Provider: "local"}, "--attach theirs: the provider local creates its clusters and cannot take one over"},
		"a cluster file":               {Options{Provider: "kind", ClusterFile: "mine.yaml"}, "a cluster that is taken over keeps its settings"},
		"a description":                {Options{Provider: "kind", Cluster: &clusters.Cluster{}}, "a cluster that is taken over keeps its settings"},
	} {
		o := tc.options
		o.Attach, o.Providers = "theirs", []clusters.Provider{local.Provider{}, kind.Provider{}}
		provider, err := o.provider()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.cluster(t.Context(), provider); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}
