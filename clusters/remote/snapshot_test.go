package remote

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework/workload/etcdtest"
)

func TestSnapshot(t *testing.T) {
	etcd := etcdtest.New(t, 1)
	config, err := etcd.EtcdConfig("node-1")
	if err != nil {
		t.Fatal(err)
	}
	c, err := clientv3.New(config)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Put(t.Context(), "key", "value"); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "snapshots")
	file, status, err := saveSnapshot(t.Context(), etcd, "node-1", dir)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 || status.Revision == 0 {
		t.Errorf("%s: %v, %v, %s", file, info.Mode(), err, status)
	}
	if _, err := verified(file, "1000000"); err == nil || !strings.Contains(err.Error(), "and etcd had 1000000 before") {
		t.Errorf("a snapshot that is too old: %v", err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := verified(file, "1"); err == nil || !strings.Contains(err.Error(), "the checksum of the snapshot does not match its data") {
		t.Errorf("a damaged snapshot: %v", err)
	}
}

type noEtcd struct{}

var errNoEtcd = errors.New("no route to etcd")

func (noEtcd) EtcdConfig(string) (clientv3.Config, error) { return clientv3.Config{}, errNoEtcd }

func TestNoSnapshot(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := saveSnapshot(t.Context(), noEtcd{}, "node-1", dir); !errors.Is(err, errNoEtcd) {
		t.Errorf("without etcd: %v", err)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) > 0 {
		t.Errorf("there is left %v, %v", all, err)
	}
	if _, _, err := saveSnapshot(t.Context(), noEtcd{}, "node-1", ""); err == nil || !strings.Contains(err.Error(), "no directory is set to save it in") {
		t.Errorf("without a directory: %v", err)
	}
}
