package clusters

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestFurtherListeners(t *testing.T) {
	serving := []framework.ServingEndpoint{{Name: "client", Address: "10.0.0.11:2379"}, {Name: "peer", Address: "10.0.0.11:2380"}}
	for _, tt := range []struct {
		name  string
		flags map[string]string
		want  []string
	}{
		{"none", nil, nil},
		{"kubeadm's", map[string]string{"listen-client-urls": "https://127.0.0.1:2379,https://10.0.0.11:2379", "listen-peer-urls": "https://10.0.0.11:2380"}, nil},
		{"k3s's", map[string]string{"listen-client-urls": "https://127.0.0.1:2379,https://10.0.0.11:2379", "listen-client-http-urls": "https://127.0.0.1:2382"}, nil},
		{"all addresses", map[string]string{"listen-client-urls": "https://0.0.0.0:2379", "listen-peer-urls": "https://[::]:2380"}, nil},
		{"another port", map[string]string{"listen-client-urls": "https://10.0.0.11:2379, http://0.0.0.0:4001"}, []string{"client 10.0.0.11:4001"}},
		{"another port of all addresses", map[string]string{"listen-client-urls": "http://:4001,http://[::]:4002"}, []string{"client 10.0.0.11:4001", "client 10.0.0.11:4002"}},
		{"a host that may be another one", map[string]string{"listen-client-urls": "https://10.0.0.11:2379,http://192.168.0.11:2379,http://etcd:2379"}, nil},
		{"HTTP apart", map[string]string{"listen-client-http-urls": "http://10.0.0.11:2382", "listen-peer-urls": "http://10.0.0.11:7001"}, []string{"client 10.0.0.11:2382", "peer 10.0.0.11:7001"}},
		{"no port", map[string]string{"listen-client-urls": "unix://localhost:m0,http://localhost:2400,https://[::1]:2379,http://10.0.0.11"}, nil},
	} {
		var got []string
		for _, e := range FurtherListeners(netip.MustParseAddr("10.0.0.11"), func(name string) string { return tt.flags[name] }, serving) {
			got = append(got, e.Name+" "+e.Address)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
