package clusters

import (
	"path/filepath"
	"testing"
)

// TestVariants reads the healthy clusters of make e2e-variants, which are set up otherwise
// than the default one.
func TestVariants(t *testing.T) {
	files, err := filepath.Glob("../suites/testdata/variants/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		c, err := Load(f)
		if err != nil {
			t.Error(err)
			continue
		}
		s, err := Settings(c)
		if err != nil {
			t.Errorf("%s: %v", f, err)
		}
		if all := filepath.Base(f) == "all-etcd-endpoints.yaml"; s.RemoteEtcd != all {
			t.Errorf("%s: API servers know several etcd members: %v", f, s.RemoteEtcd)
		}
	}
}
