package workload

import (
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
