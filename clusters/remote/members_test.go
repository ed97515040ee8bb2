package remote

import (
	"errors"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/workload/etcdtest"
)

// etcds gives access to members of several clusters; those on other nodes do not answer.
type etcds map[string]clientv3.Config

func (all etcds) EtcdConfig(node string) (clientv3.Config, error) {
	if c, ok := all[node]; ok {
		return c, nil
	}
	return clientv3.Config{}, errNoEtcd
}

// TestOnlyMembers: a voting member that is on no node of the inventory counts for the quorum, and a
// learner does not.
func TestOnlyMembers(t *testing.T) {
	three, one := etcdtest.New(t, 3), etcdtest.New(t, 1)
	config := func(access framework.EtcdAccess, node string) clientv3.Config {
		c, err := access.EtcdConfig(node)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	etcd, err := clientv3.New(config(one, "node-1"))
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	if _, err := etcd.MemberAddAsLearner(t.Context(), []string{"http://127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		access framework.EtcdAccess
		nodes  []string
		want   string
	}{
		{"all are on nodes", three, []string{"node-1", "node-2", "node-3"}, ""},
		{"one is not", three, []string{"node-1", "node-3"}, `(name "node-2", at http://127.`},
		{"one of them does not answer", etcds{"a": config(three, "node-1"), "b": config(three, "node-2")}, []string{"a", "b", "c"}, ""},
		{"one is not, and another does not answer", etcds{"a": config(three, "node-1")}, []string{"a", "b"}, `(name "node-3", at http://127.`},
		{"none answers", etcds{}, []string{"a"}, ""},
		{"a learner is not", one, []string{"node-1"}, ""},
		{"etcd is not in the inventory", three, nil, ""},
		{"two clusters", etcds{"a": config(one, "node-1"), "b": config(etcdtest.New(t, 1), "node-1")}, []string{"a", "b"}, "does not vote in the cluster of the other nodes' members"},
	} {
		err := onlyMembers(t.Context(), tc.access, tc.nodes)
		if (err == nil) != (tc.want == "") || err != nil && (!errors.Is(err, clusters.ErrUnsafe) || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

// TestSameCluster: a member whose kube-system has another UID is another cluster's.
func TestSameCluster(t *testing.T) {
	const uid = "1b2f-own"
	c := etcdtest.New(t, 1)
	config, err := c.EtcdConfig("node-1")
	if err != nil {
		t.Fatal(err)
	}
	etcd, err := clientv3.New(config)
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	for _, tc := range []struct {
		value string // of kube-system; none if empty
		want  string
	}{
		{"", ""},
		{"k8s\x00\x0a\x0bkube-system*\x081b2f-own", ""},
		{"k8s:enc:aescbc:v1:key1:\x07\x99", ""},
		{"k8s\x00\x0a\x0bkube-system*\x08another", "etcd on node-1 keeps the objects of another cluster"},
	} {
		if tc.value != "" {
			if _, err := etcd.Put(t.Context(), kubeSystem, tc.value); err != nil {
				t.Fatal(err)
			}
		}
		err := sameCluster(t.Context(), c, []string{"node-1", "node-2"}, uid)
		if (err == nil) != (tc.want == "") || err != nil && (!errors.Is(err, clusters.ErrUnsafe) || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%q: %v, want %q", tc.value, err, tc.want)
		}
	}
}
