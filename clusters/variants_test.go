package clusters

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
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

// TestVariants reads the healthy clusters of make e2e-variants: each drains requests, and
// differs from the default one in the setting of its name, and in nothing else.
func TestVariants(t *testing.T) {
	api := func(flag, value string) ExtraArgs { return ExtraArgs{framework.APIServer: {flag: value}} }
	longer := map[string]string{"leader-elect-lease-duration": "40s"}
	variants := map[string]struct{ everywhere, second ExtraArgs }{ // arguments of the cluster, and of its second node
		"all-etcd-endpoints":  {everywhere: api("etcd-servers", "https://10.77.0.11:2379,https://10.77.0.12:2379,https://10.77.0.13:2379")},
		"frequent-compaction": {everywhere: api("etcd-compaction-interval", "5s")},
		"frequent-snapshots":  {everywhere: ExtraArgs{framework.Etcd: {"snapshot-count": "100"}}},
		"goaway":              {everywhere: api("goaway-chance", "0.02")},
		"long-lease-node":     {second: ExtraArgs{framework.ControllerManager: longer, framework.Scheduler: longer}},
		"no-streaming-lists":  {everywhere: api("feature-gates", "WatchList=false")},
		"uncached-node":       {second: api("watch-cache", "false")},
	}
	files, err := filepath.Glob("../suites/testdata/variants/*.yaml")
	if err != nil || len(files) != len(variants) {
		t.Errorf("%d variants, want %d: %q, %v", len(files), len(variants), files, err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".yaml")
		variant, known := variants[name]
		if !known {
			t.Errorf("%s is not a known variant", name)
		}
		c, err := Load(f)
		if err != nil {
			t.Error(err)
			continue
		}
		want := Default()
		want.Spec.ExtraArgs, want.Spec.Nodes[1].ExtraArgs = variant.everywhere, variant.second
		want.Spec.ExtraArgs = want.Spec.ExtraArgs.Merge(ExtraArgs{framework.APIServer: {"shutdown-delay-duration": "5s",
			"shutdown-watch-termination-grace-period": "2s", "shutdown-send-retry-after": "true"}})
		if got, expected := specText(t, c), specText(t, want); got != expected {
			t.Errorf("%s is\n%s\nwant\n%s", name, got, expected)
		}
		s, err := Settings(c)
		if err != nil {
			t.Errorf("%s: %v", f, err)
		}
		if all := name == "all-etcd-endpoints"; s.RemoteEtcd != all {
			t.Errorf("%s: API servers know several etcd members: %v", f, s.RemoteEtcd)
		}
	}
}

func specText(t *testing.T, c *Cluster) string {
	t.Helper()
	b, err := json.Marshal(c.Spec)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
