package workload

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework/polltest"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
	"github.com/holdfast-ha/holdfast/framework/workload/etcdtest"
)

func contextFor(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

var waitFor = polltest.Until

// checkPairs checks that for each ordered pair a write through one was followed
// by a read of its value through the other.
func checkPairs(t *testing.T, run *record.Run, purpose string, nodes int) {
	t.Helper()
	pairs := map[string]bool{}
	var last record.Op
	for _, o := range run.Ops {
		op := o.V
		switch {
		case op.Purpose != purpose:
			t.Errorf("purpose %q: %+v", op.Purpose, op)
		case op.Collection != "":
			t.Errorf("a collection that others write to: %+v", op)
		case op.Type != record.OpGet:
			last = op
		case op.Outcome != record.OK || op.Key != last.Key || op.Value != last.Value || op.Call < last.Return:
			t.Errorf("after %+v came %+v", last, op)
		default:
			pairs[last.Entrance+" "+op.Entrance] = true
		}
	}
	if want := nodes * (nodes - 1); len(pairs) != want {
		t.Errorf("%d pairs, want %d: %v", len(pairs), want, pairs)
	}
}

func TestCrossRead(t *testing.T) {
	c := apitest.New(t, 3)
	w, read := recording(t)
	if err := CrossRead(t.Context(), c, w); err != nil {
		t.Fatal(err)
	}
	checkPairs(t, read(), "cross-read", 3)
	if err := CrossRead(t.Context(), apitest.New(t, 1), w); err == nil {
		t.Error("no error with one API server")
	}
}

func TestReady(t *testing.T) {
	c := apitest.New(t, 2)
	c.Server(1).Hook(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "[-]etcd failed: reason withheld", 500)
		return true
	})
	w, read := recording(t)
	if err := Ready(t.Context(), c, w); err != nil {
		t.Fatal(err)
	}
	got := map[string]record.Outcome{}
	for _, o := range read().Ops {
		if o.V.Purpose != "ready" || o.V.Key != "/readyz" {
			t.Errorf("%+v", o.V)
		}
		got[o.V.Entrance] = o.V.Outcome
	}
	if len(got) != 2 || got["node-1"] != record.OK || got["node-2"] == record.OK {
		t.Errorf("outcomes %v", got)
	}
}

func TestMinorityProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.NewInMemory(t, 3)
		w, read := recording(t)
		if err := EnsureNamespace(t.Context(), c.Entrances(), DefaultNamespace); err != nil {
			t.Fatal(err)
		}
		c.Server(0).Hook(func(w http.ResponseWriter, r *http.Request) bool {
			apitest.Fail(w, 500, "InternalError", "etcdserver: request timed out")
			return true
		})
		if err := minorityProbe(t.Context(), c, "node-1", w, 2*time.Second); err != nil {
			t.Fatal(err)
		}
		tried, acknowledged, keys := map[string]int{}, map[string]int{}, map[string]map[string]bool{}
		for _, o := range read().Ops {
			op := o.V
			if (op.Purpose[:8] == "minority") != (op.Entrance == "node-1") {
				t.Fatalf("%+v", op)
			}
			tried[op.Purpose]++
			if op.Outcome == record.OK {
				acknowledged[op.Purpose]++
			}
			if keys[op.Purpose] == nil {
				keys[op.Purpose] = map[string]bool{}
			}
			keys[op.Purpose][op.Key] = true
		}
		if acknowledged["majority-write"] < 5 || tried["minority-read"] < 5 || tried["minority-write"] < 5 ||
			acknowledged["minority-read"]+acknowledged["minority-write"] > 0 {
			t.Errorf("tried %v, acknowledged %v", tried, acknowledged)
		}
		for key := range keys["minority-read"] {
			if !keys["majority-write"][key] {
				t.Errorf("the majority did not write %s, which the minority read", key)
			}
		}
	})
}

func TestEtcdSteps(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, 3)
	w, read := recording(t)
	if err := CrossMember(t.Context(), c, w); err != nil {
		t.Fatal(err)
	}
	checkPairs(t, read(), "cross-member", 3)

	w, read = recording(t)
	if err := PrepareStale(t.Context(), c, w); err != nil {
		t.Fatal(err)
	}
	// Without its peers the third member is as good as isolated.
	c.Stop(0)
	c.Stop(1)
	ctx, cancel := contextFor(t, 3*time.Second)
	defer cancel()
	if err := StaleRead(ctx, c, "node-3", w); err == nil {
		t.Error("a write was acknowledged without a majority")
	}
	old := ""
	for _, o := range read().Ops {
		switch op := o.V; {
		case op.Purpose == "stale-prepare" && op.Type == record.OpPut:
			old = op.Value
		case op.Purpose == "stale-write" && op.Outcome != record.Unknown:
			t.Errorf("%+v", op)
		}
	}
	w, read = recording(t)
	m, err := openMembers(c, w, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(m)
	if op := m[2].get(t.Context(), "", staleKey, false, 5*time.Second); op.Outcome != record.OK || op.Value != old || op.Consistency != "serializable" {
		t.Errorf("serializable read: %+v, want %q", op, old)
	}
	if op := m[2].get(t.Context(), "", staleKey, true, time.Second); op.Outcome != record.Unknown || op.Found {
		t.Errorf("linearizable read: %+v", op)
	}
	read()
}

func TestStaleReadOnHealthyCluster(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, 3)
	w, read := recording(t)
	if err := PrepareStale(t.Context(), c, w); err != nil {
		t.Fatal(err)
	}
	if err := StaleRead(t.Context(), c, "node-2", w); err != nil {
		t.Fatal(err)
	}
	reads := map[string]record.Op{}
	for _, o := range read().Ops {
		op := o.V
		if op.Purpose == "stale-write" && (op.Entrance == "node-2" || op.Outcome != record.OK) {
			t.Errorf("%+v", op)
		}
		reads[op.Purpose] = op
	}
	for purpose, consistency := range map[string]string{"stale-read": "serializable", "stale-read-linearizable": "linearizable"} {
		if op := reads[purpose]; op.Consistency != consistency || op.Entrance != "node-2" || op.Outcome != record.OK {
			t.Errorf("%s: %+v", purpose, op)
		}
	}
	if err := StaleRead(t.Context(), c, "node-9", w); err == nil {
		t.Error("no error for a node that is not there")
	}
}

func TestMovingReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.NewInMemory(t, 3)
		w, read := recording(t)
		for range 2 { // the register exists the second time
			if err := PrepareMoving(t.Context(), c, w); err != nil {
				t.Fatal(err)
			}
		}
		if err := MovingReads(t.Context(), c, "node-3", w); err != nil {
			t.Fatal(err)
		}
		reads, writes := map[string]int{}, map[string]int{}
		for _, o := range read().Ops {
			switch op := o.V; {
			case op.Purpose == "moving-read":
				if op.Client != "moving" || op.Consistency != "any" || !op.Found || op.Revision == "" {
					t.Errorf("%+v", op)
				}
				reads[op.Entrance]++
			case op.Type == record.OpPatch && op.Outcome == record.OK:
				writes[op.Entrance]++
			}
		}
		if reads["node-1"] != movingRounds || reads["node-2"] != movingRounds || reads["node-3"] != movingRounds {
			t.Errorf("reads %v", reads)
		}
		if writes["node-1"] < movingRounds/2 || writes["node-2"] != movingRounds/2 || writes["node-3"] != 0 {
			t.Errorf("writes %v", writes)
		}
		if err := MovingReads(t.Context(), c, "node-4", w); err == nil {
			t.Error("no error without an API server on the node")
		}
	})
}
