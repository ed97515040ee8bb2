package workload

import (
	"context"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework/workload/client"
	"github.com/holdfast-ha/holdfast/framework/workload/etcdtest"
)

// TestCleanUpEtcd: holdfast's keys go, also if the first member does not answer, and others stay.
func TestCleanUpEtcd(t *testing.T) {
	c := etcdtest.New(t, 1)
	etcd, err := client.NewEtcd(c, "node-1")
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	const theirs = "/registry/holdfast/x"
	for _, key := range []string{staleKey, crossPrefix + "node-1", etcdPrefix + "1", "holdfast/after-snapshot", theirs} {
		if _, err := etcd.Put(t.Context(), key, "x"); err != nil {
			t.Fatal(err)
		}
	}
	if err := CleanUpEtcd(t.Context(), c, []string{"node-9", "node-1"}); err != nil {
		t.Fatal(err)
	}
	left, err := etcd.Get(t.Context(), "", clientv3.WithPrefix())
	if err != nil || len(left.Kvs) != 1 || string(left.Kvs[0].Key) != theirs {
		t.Errorf("%v, error %v", left.Kvs, err)
	}
	c.Stop(0)
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := CleanUpEtcd(short, c, []string{"node-1"}); err == nil || !strings.Contains(err.Error(), "prefixes /holdfast/ and holdfast/") {
		t.Errorf("no member answered: %v", err)
	}
}
