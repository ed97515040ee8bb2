package observe

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/record/recordtest"
	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
	"github.com/holdfast-ha/holdfast/framework/workload/etcdtest"
)

// stacked is API servers with etcd members.
type stacked struct {
	*apitest.Cluster
	etcd *etcdtest.Cluster
}

func (s stacked) Nodes() []framework.Node                         { return s.etcd.Nodes() }
func (s stacked) EtcdConfig(node string) (clientv3.Config, error) { return s.etcd.EtcdConfig(node) }

func TestSteadyState(t *testing.T) {
	c := stacked{apitest.New(t, 2), etcdtest.New(t, 3)}
	s := SteadyState(t.Context(), c, 20*time.Second)
	if !s.OK || len(s.Problems) > 0 || s.Took > s.Limit || s.Limit != 20*time.Second {
		t.Fatalf("healthy: %+v", s)
	}

	// The etcd observer, on the same members, since they take long to start.
	w, soFar, read := recordtest.Growing(t)
	o := &Observers{cfg: Config{Cluster: c, StatusInterval: 50 * time.Millisecond}.withDefaults(), w: w}
	loops, err := o.etcd(t.Context())
	if err != nil || len(loops) != 3 {
		t.Fatal(len(loops), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	o.cancel = cancel
	for _, l := range loops {
		o.running.Go(func() { l(ctx) })
	}
	waitFor(t, "a list of members by each", func() bool {
		listed := map[string]bool{}
		for _, e := range soFar().Etcd {
			if e.V.Members != nil {
				listed[e.V.Node] = true
			}
		}
		return len(listed) == 3
	})
	if err := HashEtcd(t.Context(), c, w); err != nil {
		t.Error(err)
	}
	stopped := w.Now()
	c.etcd.Stop(2)
	waitFor(t, "a failed sample of the member that is down", func() bool {
		return slices.ContainsFunc(soFar().Etcd, func(e record.Timed[record.EtcdStatus]) bool { return !e.V.OK })
	})
	o.Stop()
	checkStatus(t, read(), stopped)

	// One member and one entrance are unhealthy, permanently.
	c.Server(1).Hook(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "[-]etcd failed", http.StatusInternalServerError)
		return true
	})
	s = SteadyState(t.Context(), c, time.Second)
	all := strings.Join(s.Problems, "; ")
	if s.OK || !strings.Contains(all, "/readyz through node-2: status 500: [-]etcd failed") || !strings.Contains(all, "etcd on node-3: ") ||
		strings.Contains(all, "node-1") || s.Took < time.Second {
		t.Errorf("ill: %+v", s)
	}
}

func checkStatus(t *testing.T, run *record.Run, stopped record.Nanos) {
	t.Helper()
	last, listed, hashed, down := map[string]record.EtcdStatus{}, map[string][]string{}, map[uint32]int{}, 0
	for _, e := range run.Etcd {
		s := e.V
		switch {
		case s.Hash != 0:
			hashed[s.Hash]++
		case s.OK:
			last[s.Node] = s
			if s.Members != nil {
				listed[s.Node] = s.Members
			}
		case s.Node != "node-3" || e.At < stopped || s.Error == "":
			t.Errorf("%+v", s)
		default:
			down++
		}
	}
	if len(hashed) != 1 || down == 0 {
		t.Errorf("hashes %v, %d failed samples of the member that is down", hashed, down)
	}
	members := map[string]bool{}
	for _, n := range []string{"node-1", "node-2", "node-3"} {
		s := last[n]
		members[s.Member] = true
		if s.Cluster != last["node-1"].Cluster || s.Cluster == "" || s.Term == 0 || s.Applied == 0 || s.Version == "" || len(s.Alarms) > 0 {
			t.Errorf("%+v", s)
		}
	}
	for n, ids := range listed {
		if len(ids) != 3 || slices.ContainsFunc(ids, func(id string) bool { return !members[id] }) {
			t.Errorf("%s lists %v, the members are %v", n, ids, members)
		}
	}
	if len(listed) != 3 {
		t.Errorf("lists of members: %v", listed)
	}
}

func TestEtcdProblems(t *testing.T) {
	state := func(node, leader string, term uint64) record.EtcdStatus {
		return record.EtcdStatus{Node: node, OK: true, Cluster: "c", Member: node, Leader: leader, Term: term}
	}
	other := state("b", "a", 2)
	other.Cluster = "d"
	alarmed := state("b", "a", 2)
	alarmed.Alarms = []string{"memberID:1 alarm:NOSPACE"}
	for _, tc := range []struct {
		name   string
		states []record.EtcdStatus
		want   string
	}{
		{"healthy", []record.EtcdStatus{state("a", "a", 2), state("b", "a", 2)}, ""},
		{"none", nil, ""},
		{"down", []record.EtcdStatus{state("a", "a", 2), {Node: "b", Error: "refused"}}, "etcd on b: refused"},
		{"no leader", []record.EtcdStatus{state("a", "a", 2), state("b", "", 2)}, "etcd on b knows no leader"},
		{"an unknown leader", []record.EtcdStatus{state("a", "x", 2)}, "etcd on a follows x, which is not one of the members"},
		{"two leaders", []record.EtcdStatus{state("a", "a", 2), state("b", "b", 3)}, "etcd on b follows b in term 3, on a a in term 2"},
		{"two terms", []record.EtcdStatus{state("a", "a", 2), state("b", "a", 3)}, "etcd on b follows a in term 3, on a a in term 2"},
		{"two clusters", []record.EtcdStatus{state("a", "a", 2), other}, "etcd on b has cluster ID d, on a c"},
		{"alarm", []record.EtcdStatus{state("a", "a", 2), alarmed}, "etcd on b has an alarm: memberID:1 alarm:NOSPACE"},
	} {
		if got := strings.Join(etcdProblems(tc.states), "; "); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestAlarms(t *testing.T) {
	got := alarms([]string{"etcdserver: no leader", "memberID:10 alarm:NOSPACE "})
	if !slices.Equal(got, []string{"memberID:10 alarm:NOSPACE"}) {
		t.Errorf("%q", got)
	}
}

// host is a node whose machine has its own name.
type host struct{ name, host string }

func (h host) Name() string                      { return h.name }
func (h host) HostName() string                  { return h.host }
func (h host) Address() netip.Addr               { return netip.Addr{} }
func (h host) Components() []framework.Component { return nil }

func TestRenewal(t *testing.T) {
	at := time.Now()
	state := func(holder string, renewed time.Duration, version int) lease {
		var l lease
		l.Spec.HolderIdentity, l.Spec.RenewTime, l.Metadata.ResourceVersion = holder, at.Add(renewed), strconv.Itoa(version)
		return l
	}
	coordinated := func(l lease) lease {
		l.Spec.Strategy = "OldestEmulationVersion"
		return l
	}
	var s sighting
	for i, step := range []struct {
		lease lease
		call  record.Nanos
		want  Renewal
	}{
		{state("", 0, 1), 1, Renewal{}},
		{state("node-1_a", time.Second, 2), 2, Renewal{"node-1_a", "node-1", 0, true, false}}, // acquired
		{state("node-1_a", time.Second, 2), 3, Renewal{"node-1_a", "node-1", 0, true, false}},
		{state("node-1_a", 2*time.Second, 3), 4, Renewal{"node-1_a", "node-1", 3, true, false}},
		{state("node-1_a", time.Second, 2), 5, Renewal{"node-1_a", "node-1", 3, true, false}},   // overtaken
		{state("node-1_a", 2*time.Second, 5), 6, Renewal{"node-1_a", "node-1", 3, true, false}}, // changed by another client
		{state("node-2_b", time.Minute, 6), 7, Renewal{"node-2_b", "node-2", 0, true, false}},
		{state("node-2_b", 0, 7), 8, Renewal{"node-2_b", "node-2", 7, true, false}}, // by a clock that was set back
		{state("", 0, 8), 9, Renewal{Held: true}},
		{coordinated(state("node-2_b", 0, 9)), 10, Renewal{"node-2_b", "node-2", 0, true, true}},
	} {
		s.saw(step.lease, framework.HolderNode(step.lease.Spec.HolderIdentity, nil), step.call)
		if s.renewal != step.want {
			t.Errorf("%d: %+v, want %+v", i, s.renewal, step.want)
		}
	}
}
