package workload

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/etcdtest"
)

func TestSnapshot(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, 3)
	etcd := openEtcd(t, c)
	if _, err := etcd.Put(t.Context(), "a", "b"); err != nil {
		t.Fatal(err)
	}
	c.Stop(2)
	w, read := recording(t)
	if err := Snapshot(t.Context(), c, "node-3", w); err != nil {
		t.Fatal(err)
	}
	run := read()
	if len(run.Ops) != 2 {
		t.Fatalf("%+v", run.Ops)
	}
	for _, o := range run.Ops {
		if op := o.V; op.Outcome != record.OK || !op.Found || op.Revision != "2" || op.Header != "2" || !strings.HasPrefix(op.Value, "1 keys, ") {
			t.Errorf("%+v", op)
		}
	}
}

func TestVerifySnapshot(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, 1)
	file := filepath.Join(t.TempDir(), "snapshot")
	if _, err := saveSnapshot(t.Context(), c, "node-1", file); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		bytes []byte
		says  string
	}{
		"cut short": {whole[:len(whole)-100], "cut short"},
		"changed":   {append(append([]byte{}, whole[:999]...), append([]byte{whole[999] ^ 1}, whole[1000:]...)...), "checksum"},
		"empty":     {nil, "cut short"},
	} {
		if err := os.WriteFile(file, test.bytes, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := verifySnapshot(file); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
