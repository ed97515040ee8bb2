package agent

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework"
)

// TestDurableWrites: while a fault is active that outlasts a loss of power, each write of the state is
// on disk when it returns, also the one that ends the fault: it replaces a file that is.
func TestDurableWrites(t *testing.T) {
	until := time.Now().Add(time.Hour)
	for name, tc := range map[string]struct {
		begin, end func(*state)
		durable    bool
	}{
		"no fault":       {func(*state) {}, func(*state) {}, false},
		"a hold":         {func(st *state) { st.Components[etcdPod].HoldUntil = until }, func(st *state) { st.Components[etcdPod].HoldUntil = time.Time{} }, false},
		"an impairment":  {func(st *state) { st.Impaired["x"] = &impairedState{Until: until} }, func(st *state) { delete(st.Impaired, "x") }, false},
		"certificates":   {func(st *state) { st.Spoilt[etcdPod] = &spoiltState{Until: until, Own: map[string][]byte{"/x": nil}} }, func(st *state) { delete(st.Spoilt, etcdPod) }, true},
		"wiped data":     {func(st *state) { st.Wiped = &wipedState{Until: until} }, func(st *state) { st.Wiped = nil }, true},
		"a full volume":  {func(st *state) { st.Filled = &filledState{Until: until} }, func(st *state) { st.Filled = nil }, true},
		"a promise":      {func(st *state) { st.Promises["x"] = &promiseState{Until: until} }, func(st *state) { delete(st.Promises, "x") }, true},
		"a restore":      {func(st *state) { st.Restoring = &restoringState{Path: "/x"} }, func(st *state) { st.Restoring = nil }, true},
		"a clock's move": {func(st *state) { st.Shifted = true }, func(st *state) { st.Shifted = false }, false},
	} {
		s, err := openStore(t.TempDir())
		must(t, err)
		s.config = Config{Socket: filepath.Join(t.TempDir(), "run", "agent.sock"), EtcdData: "/x",
			Components: []Component{{Name: etcdPod, Command: "etcd", Unit: "etcd.service"}}}
		var durable []bool
		s.replace = func(path string, data []byte, mode os.FileMode, sync bool, prepare ...func(*os.File) error) error {
			durable = append(durable, sync)
			return system.ReplaceFile(path, data, mode, false, prepare...)
		}
		s.note(func(st *state) { st.Components[etcdPod] = &componentState{} })
		if slices.Contains(durable, true) {
			t.Errorf("%s: before it, writes are durable", name)
		}
		durable = nil
		s.note(tc.begin)
		// As every process that exits, and every hold that ends, in the meantime.
		s.note(func(st *state) { st.Components[etcdPod].LastExit = "killed" })
		s.note(func(st *state) { st.Components[etcdPod].HoldUntil = time.Time{} })
		s.note(tc.end)
		if slices.Contains(durable, !tc.durable) || len(durable) < 4 {
			t.Errorf("%s: its writes are durable: %v, want each %t", name, durable, tc.durable)
		}
		durable = nil
		s.note(func(st *state) { st.Components[framework.Scheduler] = &componentState{} })
		if slices.Contains(durable, true) {
			t.Errorf("%s: after it, writes are durable", name)
		}
	}
}
