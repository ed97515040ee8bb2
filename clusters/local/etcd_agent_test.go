package local

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
)

// TestRejoinIsInterrupted shows with what an etcd member is started that is to join a
// cluster and is restarted before it has: as one that joins until it has a log, and then
// as ever; its data goes once.
func TestRejoinIsInterrupted(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "etcd")
	put := func(names ...string) {
		t.Helper()
		for _, name := range names {
			file := filepath.Join(data, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(data, name))
		return err == nil
	}
	state := map[framework.Component]*savedState{framework.Etcd: {Etcd: &etcdOrder{InitialCluster: "node-1=a,node-4=d"}}}
	a := &agent{cfg: agentConfig{State: filepath.Join(dir, "state")}, state: state}
	ever := []string{"etcd", "--data-dir=" + data, "--initial-cluster=node-1=a", "--initial-cluster-state=new"}
	joins := []string{"etcd", "--data-dir=" + data, "--initial-cluster=node-1=a,node-4=d", "--initial-cluster-state=existing"}
	s := newSupervisor(a, componentSpec{Name: framework.Etcd, Args: ever})
	starts := func(what string, want []string) {
		t.Helper()
		if got, err := s.arguments(s.spec.Args); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: started with %q, %v", what, got, err)
		}
	}

	put("member/wal/0.wal", "member/snap/db")
	starts("at first", joins)
	if has("member") {
		t.Error("the old data is still there")
	}
	put("member/snap/db", "member/wal.tmp/0.wal")
	starts("killed before it had a log", joins)
	if !has("member/snap/db") {
		t.Error("its data was wiped twice")
	}
	put("member/wal/0.wal")
	starts("killed once it had a log", ever)
	starts("killed again", ever)
	if !has("member/wal/0.wal") || a.saved(framework.Etcd).Etcd != nil {
		t.Errorf("its data went, or there is still an order: %+v", a.saved(framework.Etcd).Etcd)
	}
}
