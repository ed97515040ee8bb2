package observe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// audited is a node with an audit log.
type audited struct {
	name, address string
	log           []byte
	framework.Node
}

func (a audited) Name() string        { return a.name }
func (a audited) Address() netip.Addr { return netip.MustParseAddr(a.address) }
func (a audited) Components() []framework.Component {
	return []framework.Component{framework.AddonManager}
}

func (a audited) FollowAudit(ctx context.Context, entry func([]byte)) error {
	for line := range bytes.Lines(a.log) {
		entry(bytes.TrimSuffix(line, []byte("\n")))
	}
	<-ctx.Done()
	return nil
}

// etcdHost is a host of an external etcd.
type etcdHost struct{ audited }

func (etcdHost) Components() []framework.Component { return []framework.Component{framework.Etcd} }

// TestEtcdHosts: they have no audit log to follow, and no client of their own.
func TestEtcdHosts(t *testing.T) {
	nodes := []framework.Node{audited{name: "node-1", address: "10.77.0.11"}, audited{name: "node-2", address: "10.77.0.12"}, etcdHost{audited{name: "etcd-1", address: "10.77.0.21"}}}
	o := &Observers{cfg: Config{Cluster: nodesOnly{nodes: nodes}}.withDefaults()}
	loops, err := o.actions(t.Context())
	if err != nil || len(loops) != 2 || o.servers() != 2 {
		t.Errorf("%d audit logs, %d API servers, %v", len(loops), o.servers(), err)
	}
}

// TestActions takes entries of a real audit log.
func TestActions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, err := os.ReadFile("testdata/audit.log")
		if err != nil {
			t.Fatal(err)
		}
		w, read := recording(t)
		nodes := []framework.Node{audited{name: "node-1", address: "10.77.0.11", log: log}, audited{name: "node-2", address: "10.77.0.12"}}
		o := &Observers{cfg: Config{Cluster: nodesOnly{nodes: nodes}}.withDefaults(), w: w}
		loops, err := o.actions(t.Context())
		if err != nil || len(loops) != 2 {
			t.Fatal(loops, err)
		}
		time.Sleep(time.Second) // the record has begun at 0
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		for _, loop := range loops {
			o.running.Go(func() { loop(ctx) })
		}
		o.running.Wait()
		run := read()
		var got []string
		for _, a := range run.Actions {
			v := a.V
			if v.Via != "node-1" || v.Completed < v.Received || v.Completed > v.Received+record.Nanos(time.Second) {
				t.Errorf("action %+v", v)
			}
			got = append(got, strings.TrimSpace(fmt.Sprintf("%s on %s: %s %s/%s %s/%s %d %t", v.Component, v.Node, v.Verb, v.Resource, v.Subresource, v.Namespace, v.Name, v.Code, v.Election)))
		}
		want := []string{
			"kube-controller-manager on node-2: update coordination.k8s.io/leases/ kube-system/kube-controller-manager 200 true",
			"kube-scheduler on node-2: create coordination.k8s.io/leases/ kube-system/kube-scheduler 201 true",
			"kube-scheduler on node-2: create events/ kube-system/kube-scheduler.18ea13b0fd900438 201 false",
			"kube-controller-manager on node-2: create serviceaccounts/token kube-system/namespace-controller 201 false",
			"kube-controller-manager on node-2: patch networking.k8s.io/servicecidrs/status /kubernetes 200 false",
			"kube-controller-manager on node-2: patch nodes/ /worker-2 200 false",
		}
		if !slices.Equal(got, want) {
			t.Errorf("actions\n%s", strings.Join(got, "\n"))
		}
		// The entry that the log was read, and the read of a lease that did not exist yet.
		if len(run.Asked) != 2 || run.Asked[0].V.Component != "" || run.Asked[1].V.Verb != "get" || run.Asked[1].V.Code != 404 {
			t.Errorf("asked: %+v", run.Asked)
		}
	})
}

// TestLeaseReads shows that reads of a component's own lease are recorded, and no others.
func TestLeaseReads(t *testing.T) {
	f := newAuditFilter("node-1", nil, []string{"kube-scheduler"})
	for _, tt := range []struct {
		verb, resource, name string
		want                 bool
	}{
		{"get", "leases", "kube-scheduler", true},
		{"watch", "leases", "kube-scheduler", false},
		{"get", "leases", "node-1", false},
		{"get", "configmaps", "kube-scheduler", false},
	} {
		entry := fmt.Appendf(nil, `{"stage":"ResponseComplete","verb":"%s","user":{"username":"system:kube-scheduler"},"responseStatus":{"code":200},
			"objectRef":{"resource":%q,"namespace":"kube-system","name":%q,"apiGroup":"coordination.k8s.io"}}`, tt.verb, tt.resource, tt.name)
		a, got := f.action(entry, func(time.Time) record.Nanos { return 0 })
		if got != tt.want || got && (a.Verb != "get" || !a.Election) {
			t.Errorf("%+v: recorded %t, as %+v", tt, got, a)
		}
	}
}

// TestCandidacy shows that what an instance writes to be elected is not an action.
func TestCandidacy(t *testing.T) {
	f := newAuditFilter("node-1", nil, []string{"kube-scheduler"})
	for resource, want := range map[string]bool{"leasecandidates": false, "leases": true} {
		entry := fmt.Appendf(nil, `{"stage":"ResponseComplete","verb":"update","user":{"username":"system:kube-scheduler"},
			"userAgent":"kube-scheduler/v1.37.1 (linux/amd64) kubernetes/abc/leader-election","responseStatus":{"code":200},
			"objectRef":{"resource":%q,"namespace":"kube-system","name":"node-1_x","apiGroup":"coordination.k8s.io"}}`, resource)
		if _, got := f.action(entry, func(time.Time) record.Nanos { return 0 }); got != want {
			t.Errorf("%s: taken for an action: %t", resource, got)
		}
	}
}

// teller is a cluster whose balancer a test sets.
type teller struct {
	framework.Cluster
	mu     sync.Mutex
	states []framework.Backend
	err    error
}

func (b *teller) Backends(context.Context) ([]framework.Backend, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.states), b.err
}

func TestBackends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, read := recording(t)
		b := &teller{}
		o := &Observers{cfg: Config{Cluster: b, StatusInterval: 5 * time.Millisecond}, w: w}
		loops, err := o.backends(t.Context())
		if err != nil || len(loops) != 1 {
			t.Fatal(loops, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.Sleep(time.Second) // the record has begun at 0
		began := time.Now()
		for i, step := range []struct {
			up    bool
			since time.Duration
			err   error
			left  bool // out of what the balancer reports
			whole bool // recorded as a whole
		}{
			{up: true},
			{up: true, since: time.Second}, // reported to the second: no change
			{since: time.Minute},
			{since: 2 * time.Minute}, // up and down again in between
			{err: errors.New("refused")},
			{err: errors.New("reset")}, // the same silence
			{since: 2 * time.Minute},
			{left: true},
			{since: 2 * time.Minute}, // recorded again, though it is the same
			{since: 2 * time.Minute, whole: true},
		} {
			b.mu.Lock()
			b.states, b.err = []framework.Backend{{Name: "node-1", Up: step.up, Since: began.Add(step.since)}}, step.err
			if step.left {
				b.states = nil
			}
			b.mu.Unlock()
			if i == 0 {
				o.running.Go(func() { loops[0](ctx) })
			}
			if step.whole {
				o.ListBackends(ctx)
			}
			time.Sleep(100 * time.Millisecond)
		}
		cancel()
		o.running.Wait()
		var got []string
		for _, e := range read().Backends {
			got = append(got, fmt.Sprint(e.V.Name, e.V.Up, e.V.Error))
			if e.V.Error == "" && (e.V.Asked <= 0 || e.V.Asked > e.At) {
				t.Errorf("the balancer was queried at %d for what was recorded at %d", e.V.Asked, e.At)
			}
		}
		if want := []string{"node-1true", "node-1false", "node-1false", "falserefused", "node-1false", "node-1false", "node-1false"}; !slices.Equal(got, want) {
			t.Errorf("entries %q, want %q", got, want)
		}
	})
}

// TestBackendsUntold: a balancer that cannot report is queried once.
func TestBackendsUntold(t *testing.T) {
	w, read := recording(t)
	o := &Observers{cfg: Config{Cluster: &teller{err: fmt.Errorf("no state page: %w", errors.ErrUnsupported)}, StatusInterval: time.Millisecond}, w: w}
	loops, err := o.backends(t.Context())
	if err != nil || len(loops) != 1 {
		t.Fatal(loops, err)
	}
	loops[0](t.Context())
	o.ListBackends(t.Context())
	if all := read().Backends; len(all) != 1 || !strings.HasPrefix(all[0].V.Missing, "no state page") {
		t.Errorf("entries %+v", all)
	}
}

const metrics = `# TYPE etcd_disk_wal_fsync_duration_seconds histogram
etcd_disk_wal_fsync_duration_seconds_bucket{le="0.001"} %d
etcd_disk_wal_fsync_duration_seconds_bucket{le="0.002"} %d
etcd_disk_wal_fsync_duration_seconds_bucket{le="+Inf"} %d
etcd_disk_wal_fsync_duration_seconds_sum %g
etcd_disk_wal_fsync_duration_seconds_count %d
etcd_disk_wal_write_bytes_total 1.23e+06
`

func TestHistograms(t *testing.T) {
	read := func(a, b, all int, sum float64) *dto.Histogram {
		t.Helper()
		fsync, commit, err := histograms(strings.NewReader(fmt.Sprintf(metrics, a, b, all, sum, all)))
		if err != nil || commit != nil {
			t.Fatal(commit, err)
		}
		return fsync
	}
	first := read(10, 12, 12, 0.012)
	for _, tt := range []struct {
		name string
		h    *dto.Histogram
		want *record.Latency
	}{
		{"nothing new", first, nil},
		{"one slow", read(20, 23, 23, 0.0230), &record.Latency{Count: 11, Mean: time.Millisecond, P99: 2 * time.Millisecond, Max: 2 * time.Millisecond}},
		{"one of many slow", read(1009, 1012, 1012, 1.012), &record.Latency{Count: 1000, Mean: time.Millisecond, P99: time.Millisecond, Max: 2 * time.Millisecond}},
		{"beyond the last bound", read(11, 13, 14, 1.012), &record.Latency{Count: 2, Mean: 500 * time.Millisecond, P99: -1, Max: -1}},
		{"started again", read(2, 2, 2, 0.001), &record.Latency{Count: 2, Mean: 500 * time.Microsecond, P99: time.Millisecond, Max: time.Millisecond}},
	} {
		got := latency(tt.h, first)
		if (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
	if l := latency(first, nil); l != nil {
		t.Errorf("since nothing: %+v", l)
	}
	if _, _, err := histograms(strings.NewReader(fsyncMetric + "_sum none\n")); err == nil {
		t.Error("a value that is no number is taken")
	}
}

func TestClockCheck(t *testing.T) {
	c := newClockCheck()
	wall, monotonic := c.wall, c.monotonic
	for _, step := range []struct{ wall, monotonic, jump time.Duration }{
		{time.Second, time.Second, 0},
		{2*time.Second + time.Millisecond, 2 * time.Second, 0},
		{time.Minute, 3 * time.Second, 57*time.Second - time.Millisecond}, // slept, or was set
		{time.Minute + time.Second, 4 * time.Second, 0},
		{time.Minute, 5 * time.Second, -2 * time.Second},
	} {
		if got := c.compare(wall.Add(step.wall), monotonic.Add(step.monotonic)); got != step.jump {
			t.Errorf("%+v: jump %s", step, got)
		}
	}
}

func TestWhoseAction(t *testing.T) {
	f := newAuditFilter("node-1", []framework.Node{audited{name: "node-1", address: "10.77.0.11"}, audited{name: "node-2", address: "10.77.0.12"}}, []string{"kube-scheduler"})
	entry := func(verb, ip, resource, agent string) string {
		return fmt.Sprintf(`{"stage":"ResponseComplete","verb":%q,"user":{"username":"x"},"sourceIPs":[%s],"userAgent":%q,"objectRef":{%s}}`, verb, ip, agent, resource)
	}
	const scheduler, pods = "kube-scheduler/v1.37.1 (linux/amd64) kubernetes/abc/scheduler", `"resource":"pods","subresource":"binding"`
	for _, tt := range []struct {
		name, entry string
		ok          bool
		node        string
	}{
		{"its own node", entry("create", `"::1"`, pods, scheduler), true, "node-1"},
		{"another node", entry("create", `"10.77.0.12"`, pods, scheduler), true, "node-2"},
		{"claimed addresses come first", entry("create", `"10.77.0.11","10.77.0.12"`, pods, scheduler), true, "node-2"},
		{"through a balancer", entry("create", `"10.77.0.10"`, pods, scheduler), true, ""},
		{"a read", entry("get", `"::1"`, pods, scheduler), false, ""},
		{"a connection to a pod", entry("connect", `"::1"`, pods, scheduler), false, ""},
		{"a review", entry("create", `"::1"`, `"resource":"subjectaccessreviews","apiGroup":"authorization.k8s.io"`, scheduler), false, ""},
		{"somebody else's change of its lease", entry("delete", `"::1"`, `"resource":"leases","name":"kube-scheduler"`, "kubectl/v1"), false, ""},
		{"one that begins like it", entry("create", `"::1"`, pods, "kube-scheduler-2/v1"), false, ""},
		{"no JSON", `{"kube-scheduler`, false, ""},
	} {
		a, ok := f.action([]byte(tt.entry), func(time.Time) record.Nanos { return 0 })
		if ok != tt.ok || a.Node != tt.node {
			t.Errorf("%s: %t, %+v", tt.name, ok, a)
		}
	}
}

// TestWhoseActionAfterChanges shows that the nodes of a request and of a holder are known when nodes
// have joined and left, whichever API server they used.
func TestWhoseActionAfterChanges(t *testing.T) {
	all := []framework.Node{audited{name: "node-1", address: "10.77.0.11"}, audited{name: "node-2", address: "10.77.0.12"}}
	f := newAuditFilter("node-1", all, []string{"kube-scheduler"})
	f.current = func() []framework.Node {
		return []framework.Node{all[0], audited{name: "node-4", address: "10.77.0.14"}}
	}
	for ip, want := range map[string]string{"10.77.0.11": "node-1", "10.77.0.12": "node-2", "10.77.0.14": "node-4", "10.77.0.10": ""} {
		if got := f.node([]string{ip}); got != want {
			t.Errorf("a request from %s is of %q, want %q", ip, got, want)
		}
	}
	hosts := nodesOnly{nodes: []framework.Node{host{"node-1", "cp1.example"}, host{name: "node-4"}}}
	o := &Observers{cfg: Config{Cluster: hosts}, only: hosts.nodes[1]}
	if got := o.holderNode(t.Context(), nil, "kube-scheduler", "cp1.example_x"); got != "node-1" {
		t.Errorf("seen through the entrance of a node that joined, the holder is on %q", got)
	}
}

// BenchmarkAuditEntry is what an entry of somebody else's costs, which most are.
func BenchmarkAuditEntry(b *testing.B) {
	log, err := os.ReadFile("testdata/audit.log")
	if err != nil {
		b.Fatal(err)
	}
	for line := range bytes.Lines(log) {
		if !bytes.Contains(line, []byte("holdfast-kwok")) {
			continue
		}
		f := newAuditFilter("node-1", nil, []string{"kube-controller-manager", "kube-scheduler"})
		b.SetBytes(int64(len(line)))
		for b.Loop() {
			f.action(line, func(time.Time) record.Nanos { return 0 })
		}
	}
}

// The record has none of what an entry of an audit log says about a Secret, a token or a request's
// query.
func TestActionsHaveNoSecrets(t *testing.T) {
	const marker = "hunter2marker"
	entry := `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","stage":"ResponseComplete","verb":"create",` +
		`"requestURI":"/api/v1/namespaces/default/secrets?token=` + marker + `","user":{"username":"system:kube-controller-manager","extra":{"x":["` + marker + `"]}},` +
		`"sourceIPs":["10.77.0.11"],"userAgent":"kube-controller-manager/v1 ` + marker + `","objectRef":{"resource":"secrets","namespace":"default","name":"planted"},` +
		`"responseStatus":{"code":201,"message":"` + marker + `"},"requestObject":{"kind":"Secret","data":{"password":"` + marker + `"}},` +
		`"responseObject":{"data":{"password":"` + marker + `"}},"annotations":{"x":"` + marker + `"},` +
		`"requestReceivedTimestamp":"2026-11-26T08:00:00.000000Z","stageTimestamp":"2026-11-26T08:00:00.010000Z"}`
	f := newAuditFilter("node-1", []framework.Node{audited{name: "node-1", address: "10.77.0.11"}}, elected())
	a, ok := f.action([]byte(entry), func(at time.Time) record.Nanos { return record.Nanos(at.UnixNano()) })
	if !ok || a.Name != "planted" || a.Resource != "secrets" {
		t.Fatalf("%+v, %t", a, ok)
	}
	if text := fmt.Sprintf("%+v", a); strings.Contains(text, marker) {
		t.Errorf("the action has a secret: %s", text)
	}
}
