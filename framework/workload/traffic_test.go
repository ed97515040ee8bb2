package workload

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/record/recordtest"
	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
)

var recording = recordtest.New

// No client waits for a node that has left, and a node that joins gets clients of every profile,
// also under the name of one that left.
func TestLeaveAndJoin(t *testing.T) {
	t.Parallel()
	c := apitest.New(t, 2)
	node := c.Nodes()[0].Name()
	w, read := recording(t)
	each := 5 * time.Millisecond
	profiles := []string{ProfileRegisters, ProfileLists, ProfileWatches, ProfileSet, ProfileContests, ProfileKubernetes}
	traffic, err := Start(t.Context(), Config{Seed: 1, Cluster: c, Settings: Settings{Profiles: profiles, Registers: RegisterSettings{Interval: each}, Lists: ListSettings{Interval: each},
		Set: SetSettings{Interval: each}, Contests: ContestSettings{Interval: each}, Kubernetes: KubernetesSettings{Interval: each}}}, w)
	if err != nil {
		t.Fatal(err)
	}
	some := func() {
		now := c.Revision()
		waitFor(t, "traffic", func() bool { return c.Revision() > now+100 })
	}
	some()
	traffic.Leave(node)
	left := w.Now()
	some()
	joined := w.Now()
	if err := traffic.Join(node); err != nil {
		t.Fatal(err)
	}
	some()
	traffic.Stop()
	through := ""
	for _, e := range apiServers(c.Entrances()) {
		if e.Node == node {
			through = e.Name
		}
	}
	run := read()
	before, after := map[string]bool{}, map[string]bool{} // clients that were answered
	seen := func(client, entrance string, call record.Nanos, outcome record.Outcome, purpose, problem string) {
		switch {
		case entrance != through || purpose != "":
		case call > joined && outcome == record.OK:
			after[client] = true
		case call > joined:
		case call > left:
			if outcome != record.Refused || !strings.Contains(problem, "the node has left the cluster") {
				t.Errorf("%s after its node has left: %s, %s", client, outcome, problem)
			}
		default:
			before[client] = true
		}
	}
	for _, o := range run.Ops {
		seen(o.V.Client, o.V.Entrance, o.V.Call, o.V.Outcome, o.V.Purpose, o.V.Error)
	}
	for _, l := range run.Lists {
		seen(l.V.Client, l.V.Entrance, l.V.Call, l.V.Outcome, l.V.Purpose, l.V.Error)
	}
	for _, w := range run.Watches {
		if w.V.Phase == record.WatchOpened {
			seen(w.V.Client, w.V.Entrance, w.V.Called, record.OK, "", "")
		}
	}
	for _, profile := range profiles {
		of := func(client string) bool { return strings.HasPrefix(client, profile+"/") }
		if !slices.ContainsFunc(slices.Collect(maps.Keys(after)), of) {
			t.Errorf("no client of %s through the node that joined: %v", profile, slices.Sorted(maps.Keys(after)))
		}
	}
	for client := range after {
		if before[client] && strings.HasPrefix(client, ProfileRegisters+"/") {
			t.Errorf("%s is two clients", client)
		}
	}
}

func TestTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.NewInMemory(t, 3)
		w, read := recording(t)
		traffic, err := Start(t.Context(), Config{Seed: 1, Cluster: c, Settings: Settings{Profiles: []string{ProfileRegisters}, Registers: RegisterSettings{Interval: 2 * time.Millisecond, ValueSize: 2000}}}, w)
		if err != nil {
			t.Fatal(err)
		}
		waitFor(t, "traffic", func() bool { return c.Revision() > 300 })
		traffic.Stop()
		traffic.Stop()
		if err := w.Err(); err != nil {
			t.Fatal(err)
		}
		run := read()

		values, final, kinds := map[string]bool{}, map[string]int{}, map[record.OpType]int{}
		clients, written := map[string]bool{}, map[string]int{}
		for _, o := range run.Ops {
			op := o.V
			if op.Return < op.Call || op.API != "kubernetes" || op.Key == "" || op.Entrance == "" {
				t.Fatalf("malformed: %+v", op)
			}
			if op.Purpose == "final-read" {
				if op.Outcome == record.OK {
					final[op.Entrance]++
				}
				continue
			}
			if op.Purpose == "final-write" {
				written[op.Key]++
				continue
			}
			clients[op.Client] = true
			if op.Collection == "" || (op.Type == record.OpDelete || !op.Found && op.Type == record.OpGet) != (op.Group == "") {
				t.Fatalf("collection or group: %+v", op)
			}
			if op.Outcome == record.OK {
				kinds[op.Type]++
			}
			switch op.Type {
			case record.OpCreate, record.OpUpdate, record.OpPatch:
				if values[op.Value] || op.Value == "" {
					t.Fatalf("value %q written twice", op.Value)
				}
				values[op.Value] = true
				if op.Outcome == record.OK && op.Revision == "" {
					t.Fatalf("no revision: %+v", op)
				}
			case record.OpGet:
				if op.Outcome == record.OK && op.Found != (op.Value != "" && op.Revision != "") {
					t.Fatalf("odd read: %+v", op)
				}
			}
			if op.Outcome == record.Unknown {
				t.Fatalf("unknown on a healthy cluster: %+v", op)
			}
		}
		if len(clients) != 6 {
			t.Errorf("%d clients, want 6", len(clients))
		}
		for _, k := range []record.OpType{record.OpGet, record.OpCreate, record.OpUpdate, record.OpPatch, record.OpDelete} {
			if kinds[k] < 5 {
				t.Errorf("only %d acknowledged operations of type %s", kinds[k], k)
			}
		}
		for _, e := range c.Entrances() {
			if final[e.Name] != 10 { // five before the final writes, five after
				t.Errorf("%d final reads through %s, want 10", final[e.Name], e.Name)
			}
		}
		if len(written) != 5 {
			t.Errorf("final writes: %v", written)
		}
		large := 0
		for value := range values {
			if strings.HasSuffix(value, ":2000") {
				large++
			}
		}
		if large == 0 || large > len(values)/4 {
			t.Errorf("%d of %d values are large", large, len(values))
		}
	}) // which fails if a goroutine is left
}

// TestTrafficUnderFaults shows that the traffic continues when one server answers no writes and
// another one is gone, and that the record distinguishes them.
func TestTrafficUnderFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.NewInMemory(t, 3)
		w, read := recording(t)
		traffic, err := Start(t.Context(), Config{Cluster: c, Settings: Settings{Profiles: []string{ProfileRegisters}, Registers: RegisterSettings{Interval: 2 * time.Millisecond}, Timeout: 100 * time.Millisecond}}, w)
		if err != nil {
			t.Fatal(err)
		}
		c.Server(1).Hook(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodGet {
				return false
			}
			apitest.Fail(w, 500, "InternalError", "etcdserver: request timed out")
			return true
		})
		c.Server(2).Listener.Close()
		c.Server(2).CloseClientConnections()
		at := c.Revision()
		waitFor(t, "traffic", func() bool { return c.Revision() > at+100 })
		c.Server(1).Hook(nil)
		traffic.final = 1500 * time.Millisecond
		traffic.Stop()
		outcomes := map[string]map[record.Outcome]int{}
		for _, o := range read().Ops {
			op := o.V
			if op.Purpose != "" || op.Type == record.OpGet {
				continue
			}
			if outcomes[op.Entrance] == nil {
				outcomes[op.Entrance] = map[record.Outcome]int{}
			}
			outcomes[op.Entrance][op.Outcome]++
			if op.Outcome != record.OK && op.Error == "" {
				t.Fatalf("no error: %+v", op)
			}
		}
		if outcomes["node-1"][record.OK] == 0 || outcomes["node-2"][record.Unknown] == 0 || outcomes["node-3"][record.Refused] == 0 {
			t.Errorf("outcomes: %v", outcomes)
		}
		if n := outcomes["node-3"][record.Unknown]; n > 2 {
			t.Errorf("%d unknown writes through the server that is gone, want one a client at most", n)
		}
	})
}

func TestRegister(t *testing.T) {
	c := apitest.New(t, 1)
	w, _ := recording(t)
	r, err := newRegisters(c.Entrances()[0], w, "test", "ns", "", 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	wantOp := func(what string, op record.Op, outcome record.Outcome, found bool, value string) record.Op {
		t.Helper()
		if op.Outcome != outcome || op.Found != found || op.Type == record.OpGet && op.Value != value {
			t.Errorf("%s: %+v", what, op)
		}
		return op
	}
	wantOp("get of nothing", r.get(ctx, "k"), record.OK, false, "")
	wantOp("update of nothing", r.update(ctx, "k", content{value: "v"}, "1"), record.Refused, false, "")
	wantOp("delete of nothing", r.delete(ctx, "k", ""), record.Refused, false, "")
	made := wantOp("create", r.create(ctx, "k", content{value: "v1"}), record.OK, false, "")
	wantOp("create again", r.create(ctx, "k", content{value: "v2"}), record.Refused, false, "")
	if got := wantOp("get", r.get(ctx, "k"), record.OK, true, "v1"); got.Revision != made.Revision {
		t.Errorf("revision %q, created with %q", got.Revision, made.Revision)
	}
	second := wantOp("update", r.update(ctx, "k", content{value: "v3"}, made.Revision), record.OK, false, "")
	wantOp("update of an old version", r.update(ctx, "k", content{value: "v4"}, made.Revision), record.Refused, false, "")
	wantOp("delete of an old version", r.delete(ctx, "k", made.Revision), record.Refused, false, "")
	wantOp("get", r.get(ctx, "k"), record.OK, true, "v3")
	patched := wantOp("patch", r.patch(ctx, "k", content{value: "v5"}), record.OK, false, "")
	wantOp("update of the version before the patch", r.update(ctx, "k", content{value: "v6"}, second.Revision), record.Refused, false, "")
	wantOp("get", r.get(ctx, "k"), record.OK, true, "v5")
	second = patched
	wantOp("delete", r.delete(ctx, "k", second.Revision), record.OK, false, "")
	wantOp("patch of nothing", r.patch(ctx, "k", content{value: "v7"}), record.Refused, false, "")
	wantOp("get after delete", r.get(ctx, "k"), record.OK, false, "")

	for name, answer := range map[string]string{
		"nothing":        ``,
		"not JSON":       `<html>`,
		"another kind":   `{"kind":"Pod","metadata":{"name":"k","resourceVersion":"1"}}`,
		"another object": `{"kind":"ConfigMap","metadata":{"name":"other","resourceVersion":"1"}}`,
		"no version":     `{"kind":"ConfigMap","metadata":{"name":"k"}}`,
	} {
		c.Server(0).Hook(func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = w.Write([]byte(answer))
			return true
		})
		other := "other"
		if name != "another object" {
			other = "status 200, but no ConfigMap k: " + answer
		}
		if got := wantOp(name, r.get(ctx, "k"), record.OK, true, record.OtherObject+other); !got.IsOther() || got.Error != "" {
			t.Errorf("%s: %+v", name, got)
		}
		wantOp(name, r.create(ctx, "k", content{value: "x"}), record.Unknown, false, "")
		wantOp(name, r.delete(ctx, "k", ""), record.Unknown, false, "")
	}
}

func TestNamespaceBeingDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.NewInMemory(t, 1)
		c.Set("/api/v1/namespaces/"+DefaultNamespace, `{"kind":"Namespace","status":{"phase":"Terminating"}}`)
		w, _ := recording(t)
		ctx, cancel := contextFor(t, 300*time.Millisecond)
		defer cancel()
		_, err := Start(ctx, Config{Cluster: c}, w)
		if err == nil || !strings.Contains(err.Error(), "is being deleted") {
			t.Errorf("error %v", err)
		}
	})
}
