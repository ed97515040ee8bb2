package clusters

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

// TestWhereEtcdIs distinguishes API servers that know several etcd members, or share one address,
// from those that ask the member of their own node.
func TestWhereEtcdIs(t *testing.T) {
	own := func(nodes ...string) []string { return nodes }
	for what, test := range map[string]struct {
		servers []string // of each node
		remote  bool
		want    []string
	}{
		"own":              {own("", "", ""), false, nil},
		"loopback":         {own("https://127.0.0.1:2379", "https://127.0.0.1:2379"), false, nil},
		"localhost":        {own("https://localhost:2379", "https://localhost:2379"), false, nil},
		"own addresses":    {own("https://10.0.0.1:2379", "https://10.0.0.2:2379"), false, own("https://10.0.0.1:2379", "https://10.0.0.2:2379")},
		"all members":      {own("https://10.0.0.1:2379,https://10.0.0.2:2379", "https://10.0.0.1:2379,https://10.0.0.2:2379"), true, own("https://10.0.0.1:2379", "https://10.0.0.2:2379")},
		"a balancer":       {own("https://etcd.example:2379", "https://etcd.example:2379"), true, own("https://etcd.example:2379")},
		"the only node":    {own("https://10.0.0.1:2379"), false, own("https://10.0.0.1:2379")},
		"a balancer, once": {own("https://10.0.0.9:2379", ""), false, own("https://10.0.0.9:2379")},
	} {
		c := Default()
		c.SetNodes(len(test.servers))
		for i, servers := range test.servers {
			if servers != "" {
				c.Spec.Nodes[i].ExtraArgs = ExtraArgs{framework.APIServer: {"etcd-servers": servers}}
			}
		}
		if s, err := Settings(c); err != nil || s.RemoteEtcd != test.remote || !slices.Equal(s.EtcdServers, test.want) {
			t.Errorf("%s: remote %v, servers %q, %v", what, s.RemoteEtcd, s.EtcdServers, err)
		}
	}
}

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
