package workload

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
	"github.com/holdfast-ha/holdfast/framework/workload/etcdtest"
)

func startEtcd(t *testing.T, c *etcdtest.Cluster, s EtcdSettings) (*Traffic, func() *record.Run) {
	t.Helper()
	w, read := recording(t)
	traffic, err := Start(t.Context(), Config{Seed: 1, Cluster: c, Settings: Settings{Profiles: []string{ProfileEtcd}, Etcd: s}}, w)
	if err != nil {
		t.Fatal(err)
	}
	return traffic, read
}

func openEtcd(t *testing.T, c *etcdtest.Cluster) *clientv3.Client {
	t.Helper()
	cl, err := client.NewEtcd(c, "node-1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cl.Close() })
	return cl
}

// A member that joins gets clients and watches, also on a node under the name of one that left.
func TestEtcdLeaveAndJoin(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, 3)
	traffic, read := startEtcd(t, c, EtcdSettings{Interval: 10 * time.Millisecond, Lifetime: 300 * time.Millisecond})
	more := func() {
		now := traffic.watches.Load()
		waitFor(t, "watches", func() bool { return traffic.watches.Load() > now+20 })
	}
	more()
	traffic.Leave("node-1")
	left := traffic.w.Now()
	more()
	joined := traffic.w.Now()
	if err := traffic.Join("node-1"); err != nil {
		t.Fatal(err)
	}
	more()
	traffic.Stop()
	between, after := 0, map[string]bool{}
	run := read()
	for _, o := range run.Ops {
		switch op := o.V; {
		case op.Entrance != "node-1" || op.Call < left || op.Purpose != "":
		case op.Call < joined:
			between++ // of the two clients: the rest of one step, and perhaps one more
		case op.Outcome == record.OK:
			after[op.Client] = true
		}
	}
	if between > 16 || !after["etcd/2/node-1"] || after["etcd/0/node-1"] {
		t.Errorf("%d operations after the node left; after it joined, %v were answered", between, after)
	}
	if !slices.ContainsFunc(run.Watches, func(w record.Timed[record.Watch]) bool {
		return w.V.Client == "etcd/watch-2/node-1" && w.V.Phase == record.WatchOpened
	}) {
		t.Error("no watch of a client of the member that joined")
	}
}

func TestEtcd(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, 3)
	traffic, read := startEtcd(t, c, EtcdSettings{Interval: 10 * time.Millisecond, ValueSize: 1000, Watches: 2, Lifetime: 300 * time.Millisecond})
	waitFor(t, "watches", func() bool { return traffic.watches.Load() > 60 })
	traffic.Stop()
	run := read()

	counts, transactions := map[string]int{}, map[string][]record.Op{}
	for _, o := range run.Ops {
		op := o.V
		if op.API != apiEtcd || !strings.HasPrefix(op.Key, etcdPrefix) || op.Return < op.Call || op.Outcome == record.Unknown {
			t.Fatalf("%+v", op)
		}
		leased := strings.Contains(op.Key, "/leased-")
		if leased == (op.Collection != "") || leased == (op.Group != "") {
			t.Fatalf("collection or group: %+v", op)
		}
		if leased && op.Type == record.OpGet && op.Found != (op.Value != "") {
			t.Fatalf("%+v", op)
		}
		sort := string(op.Type) + " " + string(op.Outcome) + op.Purpose
		if leased {
			sort = "leased " + sort
		}
		counts[sort]++
		counts[op.Consistency]++
		if op.Transaction != "" {
			transactions[op.Transaction] = append(transactions[op.Transaction], op)
		}
	}
	for _, sort := range []string{"get ok", "put ok", "create ok", "update ok", "update refused", "delete ok", "leased put ok", "leased delete ok",
		"linearizable", "serializable"} {
		if counts[sort] < 3 {
			t.Errorf("only %d of %s: %v", counts[sort], sort, counts)
		}
	}
	if counts["put okfinal-write"] != 6 || counts["get okfinal-read"] != 36 || counts["delete okcleanup"] != 6 {
		t.Errorf("at the end: %v", counts)
	}
	if len(transactions) < 5 {
		t.Errorf("%d transactions", len(transactions))
	}
	for id, ops := range transactions {
		if len(ops) != 2 || ops[0].Key == ops[1].Key || ops[0].Outcome != ops[1].Outcome || ops[0].Revision != ops[1].Revision {
			t.Errorf("transaction %s: %+v", id, ops)
		}
	}
	sorts := checkLists(t, run, apiEtcd)
	for _, sort := range []string{"unset", "any", "exact", "paged", "group"} {
		if sorts[sort] < 3 {
			t.Errorf("only %d lists of %s: %v", sorts[sort], sort, sorts)
		}
	}
	sorts = checkLives(t, run, apiEtcd)
	for _, sort := range []string{"key", "group", "from", "empty", "resumed", "elsewhere"} {
		if sorts[sort] < 3 {
			t.Errorf("only %d watches of %s: %v", sorts[sort], sort, sorts)
		}
	}
	checkFinal(t, sorts, 6)
	left, err := openEtcd(t, c).Get(t.Context(), "", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil || len(left.Kvs) > 0 {
		t.Errorf("left in etcd: %v, %v", left, err)
	}
}

// Events have etcd's data of the pairs before and after.
func TestEtcdWatch(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, 1)
	w, read := recording(t)
	members, err := openMembers(c, w, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(members)
	m := members[0]
	m.of = &collection{name: "x"}
	ctx := t.Context()
	key := groupPrefix(m.of, "a") + "k"
	first := m.put(ctx, "", key, "1")
	second := m.put(ctx, "", key, "2")
	gone := m.delete(ctx, "", key)
	again := m.delete(ctx, "", key)
	if again.Outcome != record.Refused || gone.Outcome != record.OK {
		t.Errorf("%+v, %+v", gone, again)
	}
	var seen progress
	seen.begin(0)
	m.of.close(map[string]end{key: {number(gone.Revision), "a"}})
	result := m.watch(ctx, "w1", watching{from: first.Revision, previous: true}, &seen, func() bool { return seen.shows(m.of.last("", "")) })
	if number(result.from) != number(gone.Revision)+1 {
		t.Errorf("%+v", result)
	}
	// What was compacted is gone, and a range of it is too.
	if _, err := m.Compact(ctx, int64(number(second.Revision))); err != nil {
		t.Fatal(err)
	}
	result = m.watch(ctx, "w2", watching{from: first.Revision}, &seen, func() bool { return false })
	if l := m.list(ctx, "", listing{match: record.MatchExact, asked: first.Revision}); l.Status != http.StatusGone || l.Outcome != record.Refused {
		t.Errorf("%+v", l)
	}
	// Progress notifications arrive if requested.
	limited, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	told := func() bool { return seen.shows(map[string]end{"none": {number(gone.Revision), ""}}) }
	seen.begin(0)
	m.watch(limited, "w3", watching{from: gone.Revision, bookmarks: true}, &seen, told)

	run := read()
	all := lives(t, run, apiEtcd)
	if got := all["w2"].ended; result.status != http.StatusGone || got.Status != http.StatusGone || got.Compacted != second.Revision {
		t.Errorf("%+v", got)
	}
	events := all["w1"].events
	if len(events) != 3 {
		t.Fatalf("%+v", events)
	}
	for i, want := range []record.Event{
		{Type: record.EventAdded, Value: "1", Revision: first.Revision, CreateRevision: first.Revision, Version: 1},
		{Type: record.EventModified, Value: "2", Revision: second.Revision, CreateRevision: first.Revision, Version: 2, PreviousValue: "1", PreviousRevision: first.Revision},
		{Type: record.EventDeleted, Revision: gone.Revision, PreviousValue: "2", PreviousRevision: second.Revision},
	} {
		want.Watch, want.Key, want.Group, want.Batch, want.Seen = "w1", key, "a", events[i].Batch, events[i].Seen
		if events[i] != want || want.Batch == 0 {
			t.Errorf("got %+v\nwant %+v", events[i], want)
		}
	}
	if e := all["w3"].events; len(e) != 2 || e[1].Type != record.EventBookmark || e[1].Revision != gone.Revision {
		t.Errorf("%+v", e)
	}
}

// slowKV answers reads of a key that does not exist after the harness was suspended for a while.
type slowKV struct{ clientv3.KV }

func (slowKV) Put(context.Context, string, string, ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	return &clientv3.PutResponse{Header: &etcdserverpb.ResponseHeader{Revision: 2}}, nil
}

func (slowKV) Get(context.Context, string, ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	time.Sleep(2 * time.Minute)
	return &clientv3.GetResponse{Header: &etcdserverpb.ResponseHeader{Revision: 3}}, nil
}

type anyLease struct{ clientv3.Lease }

func (anyLease) Grant(context.Context, int64) (*clientv3.LeaseGrantResponse, error) {
	return &clientv3.LeaseGrantResponse{ID: 1}, nil
}

func (anyLease) Revoke(context.Context, clientv3.LeaseID) (*clientv3.LeaseRevokeResponse, error) {
	return nil, rpctypes.ErrLeaseNotFound
}

// A lease that expires while the harness is suspended deletes its key, which is not the loss of an
// acknowledged write.
func TestLeaseExpiresUnnoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, read := recording(t)
		m := &member{Client: &clientv3.Client{KV: slowKV{}, Lease: anyLease{}}, w: w, node: "node-1", name: "test", of: &collection{name: "x"}}
		c := &etcdClient{member: m, values: newValues(rand.New(rand.NewPCG(1, 1)), "e", 0)}
		c.leased(t.Context())
		ops := read().Ops
		for _, o := range ops {
			if o.V.Type == record.OpGet {
				t.Errorf("recorded: %+v", o.V)
			}
		}
		if len(ops) != 2 {
			t.Errorf("%d operations, want the put and the revocation", len(ops))
		}
	})
}

// With a member gone, its clients learn nothing, the others continue, and watches
// move over.
func TestEtcdMemberGone(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, 3)
	traffic, read := startEtcd(t, c, EtcdSettings{Interval: 20 * time.Millisecond, Lifetime: 300 * time.Millisecond})
	waitFor(t, "watches", func() bool { return traffic.watches.Load() > 10 })
	c.Stop(2)
	waitFor(t, "watches", func() bool { return traffic.watches.Load() > 40 })
	traffic.final = 3 * time.Second
	traffic.Stop()
	run := read()
	unknown, refused := 0, 0
	for _, o := range run.Ops {
		if o.V.Outcome == record.Unknown && o.V.Entrance == "node-3" {
			unknown++
		}
	}
	for _, o := range run.Watches {
		if o.V.Phase == record.WatchRefused {
			refused++
		}
	}
	if unknown == 0 || refused == 0 {
		t.Errorf("%d operations without an answer, %d watches refused", unknown, refused)
	}
	lives(t, run, apiEtcd)
}

// On a cluster whose etcd must not be touched the rest of the traffic continues.
func TestEtcdOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.NewInMemory(t, 1)
		w, read := recording(t)
		traffic, err := Start(t.Context(), Config{Cluster: c, Settings: Settings{Profiles: []string{ProfileRegisters, ProfileEtcd}}}, w)
		if err != nil {
			t.Fatal(err)
		}
		waitFor(t, "traffic", func() bool { return c.Revision() > 3 })
		traffic.Stop()
		run := read()
		if len(run.Phases) != 1 || !strings.Contains(run.Phases[0].V.Name, "traffic etcd is left out") || len(run.Ops) == 0 {
			t.Errorf("%+v", run.Phases)
		}
	})
}
