package workload

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/etcdtest"
)

// TestAddMember asks real members, of which one is down or none.
func TestAddMember(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, 3)
	w, read := recording(t)
	// Members that have been connected for less than 5 s count as down.
	c.Stop(2)
	undo, err := AddMember(t.Context(), c, "node-3", w)
	if undo != nil || err != nil {
		t.Fatal(undo != nil, err)
	}
	run := read()
	if len(run.Ops) != 2 {
		t.Fatalf("%+v", run.Ops)
	}
	for _, o := range run.Ops {
		if op := o.V; op.Outcome != record.Refused || op.Purpose != "add-member" || !strings.HasSuffix(op.Key, ":"+strangerPort) || !strings.Contains(op.Error, "unhealthy") {
			t.Errorf("%+v", op)
		}
	}
}

// TestAddMemberIsUndone has all members up, so that one more is not a risk.
func TestAddMemberIsUndone(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, 3)
	etcd := openEtcd(t, c)
	time.Sleep(6 * time.Second) // until all count as connected
	w, read := recording(t)
	undo, err := AddMember(t.Context(), c, "node-3", w)
	if undo == nil || err != nil {
		t.Fatal(err)
	}
	if run := read(); len(run.Ops) != 1 || run.Ops[0].V.Outcome != record.OK {
		t.Errorf("%+v", run.Ops)
	}
	count := func() int {
		list, err := etcd.MemberList(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(list.Members)
	}
	if n := count(); n != 4 {
		t.Errorf("%d members", n)
	}
	if err := undo(t.Context()); err != nil {
		t.Error(err)
	}
	if n := count(); n != 3 {
		t.Errorf("%d members", n)
	}
}
