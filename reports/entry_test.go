package reports

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func TestEntryLine(t *testing.T) {
	const ms = record.Nanos(time.Millisecond)
	started := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	seen := map[reflect.Type]bool{}
	for _, tt := range []struct {
		kind record.Kind
		v    any
		want string
	}{
		{record.KindMeta, record.Meta{Scenario: "steady", Run: "r1", Seed: 7, Started: started, Harness: "v1", Provider: "local",
			Nodes: []record.Node{{Name: "node-1", Address: "10.77.0.11"}}, Entrances: []string{"balancer", "node-1"}},
			"scenario steady of run r1, seed 7, started 2026-11-21T08:00:00Z by holdfast v1 on provider local; nodes node-1 (10.77.0.11); entrances balancer, node-1; 0 checks"},
		{record.KindPhase, record.Phase{Name: "baseline"}, "baseline begins"},
		{record.KindOp, record.Op{Client: "c1", Entrance: "node-1", API: "kubernetes", Type: record.OpUpdate, Key: "k", Value: "v2", Expect: "11",
			Revision: "12", Call: 1 * ms, Return: 5 * ms, Outcome: record.OK},
			`c1 through node-1: update of k to "v2" replacing version 11, ok, version 12 (4ms)`},
		{record.KindOp, record.Op{Client: "c1", Entrance: "node-1", API: "etcd", Type: record.OpGet, Consistency: "serializable", Key: "k",
			Call: 1 * ms, Return: 1*ms + 350_400, Outcome: record.OK, Purpose: "stale-read"},
			`c1 through etcd on node-1: get of k (serializable), ok, nothing there (350µs), for stale-read`},
		{record.KindOp, record.Op{Client: "c1", Entrance: "balancer", API: "kubernetes", Type: record.OpGet, Key: "k", Found: true, Value: "v1", Revision: "3", Outcome: record.OK},
			`c1 through balancer: get of k, ok, "v1", version 3 (0s)`},
		{record.KindOp, record.Op{Client: "c1", Entrance: "balancer", API: "kubernetes", Type: record.OpDelete, Key: "k", Return: 5000 * ms, Outcome: record.Unknown, Error: "timed\nout"},
			`c1 through balancer: delete of k, outcome unknown: timed out (5s)`},
		{record.KindProbe, record.Probe{Entrance: "balancer", Kind: record.ProbeWrite, Reused: true, Start: 0, End: 2 * ms, OK: true, Status: 200},
			"write through balancer on a persistent connection, ok (2ms)"},
		{record.KindProbe, record.Probe{Entrance: "balancer", Kind: record.ProbeRead, End: 1000 * ms, Status: 503, Error: "etcd: no leader"},
			"read through balancer on a new connection, failed with status 503: etcd: no leader (1s)"},
		{record.KindAction, record.Action{Component: "kube-scheduler", Node: "node-1", Via: "node-1", Verb: "create", Resource: "pods", Subresource: "binding", Namespace: "default", Name: "p", Code: 201, Received: 1000 * ms, Completed: 1002 * ms},
			"kube-scheduler on node-1 through node-1: create of pods/binding default/p, status 201, received 1.000s (2ms)"},
		{record.KindBackend, record.Backend{Missing: "unsupported"}, "the balancer never reports: unsupported"},
		{record.KindSession, record.Session{Client: "harness", Member: "a1", Start: 1000 * ms, End: 1005 * ms}, "harness through the balancer of etcd, 1.000s to 1.005s: member a1 answered"},
		{record.KindSession, record.Session{Client: "harness", Start: 1000 * ms, End: 1005 * ms, Error: "refused"}, "harness through the balancer of etcd, 1.000s to 1.005s: no member answered: refused"},
		{record.KindBackend, record.Backend{Name: "node-1", Address: "10.0.0.1:6443", Up: true, Since: 1000 * ms, Check: "ok"}, "node-1 (10.0.0.1:6443) is up since 1.000s, last check: ok"},
		{record.KindNode, record.NodeChange{Name: "fourth", Phase: record.NodeAdded, Node: record.Node{Name: "node-4", Address: "10.0.0.4"}, Called: 1000 * ms, Effect: 4000 * ms},
			"node-4 (10.0.0.4) is added as fourth, called at 1.000s, in effect at 4.000s"},
		{record.KindNode, record.NodeChange{Phase: record.NodeFailed, Called: 1000 * ms, Error: "no quorum"}, "a change of nodes failed, called at 1.000s: no quorum"},
		{record.KindNode, record.NodeChange{Name: "second", Action: "upgrade", Phase: record.NodeChanged, Node: record.Node{Name: "node-2"}, From: "v1.36.3", To: "v1.37.1", Called: 1000 * ms, Effect: 4000 * ms},
			"upgrade of node-2 as second from v1.36.3 to v1.37.1, called at 1.000s, in effect at 4.000s"},
		{record.KindNode, record.NodeChange{Action: "reconfigure", Phase: record.NodeChanged, Node: record.Node{Name: "node-2"}, Interrupted: 2, Called: 1000 * ms, Effect: 4000 * ms},
			"reconfigure of node-2, interrupted after step 2, called at 1.000s, in effect at 4.000s"},
		{record.KindStep, record.Step{Change: "second", Node: "node-2", Name: "restart kube-apiserver", Proof: "it answers v1.37.1", Began: 1000 * ms, Done: 1500 * ms},
			"restart kube-apiserver on node-2 of second: it answers v1.37.1 (500ms)"},
		{record.KindObject, record.Object{Kind: record.ObjectDeployment, Name: "web", Via: "node-1", Revision: "9", Part: "web",
			Deployment: &record.DeploymentState{Wanted: 3, Generation: 4, Observed: 3, Replicas: 2, Ready: 1}},
			"Deployment web: 3 wanted, 2 there, 1 ready, generation 4 (3 looked at), version 9, through node-1"},
		{record.KindObject, record.Object{Kind: record.ObjectPod, Name: "web-1", UID: "u1", Via: "node-1", Revision: "9", Part: "web",
			Pod: &record.PodState{Controller: "ReplicaSet/web", Node: "worker-1", Phase: "Running", Ready: true}},
			"Pod web-1: Running on worker-1, ready, of ReplicaSet/web, version 9, through node-1"},
		{record.KindObject, record.Object{Kind: record.ObjectPod, Name: "web-1", UID: "u1", Via: "node-1", Revision: "9", Gone: true,
			Pod: &record.PodState{Phase: "Pending", Deleting: true, Restarts: 2}},
			"Pod web-1: Pending, being deleted, 2 restarts, gone, version 9, through node-1"},
		{record.KindObject, record.Object{Kind: record.ObjectSlice, Name: "web-x", Via: "node-1", Revision: "9", Slice: &record.SliceState{Ready: []string{"u1", "u2"}}},
			"EndpointSlice web-x: 2 pods ready, version 9, through node-1"},
		{record.KindObject, record.Object{Kind: record.ObjectNode, Name: "worker-1", Via: "node-1", Revision: "9", Node: &record.NodeState{Ready: "Unknown"}},
			"Node worker-1: Ready is Unknown, version 9, through node-1"},
		{record.KindObject, record.Object{Kind: record.ObjectHeartbeat, Name: "worker-1", Via: "node-1", Revision: "9", Heartbeat: &record.HeartbeatState{Renewed: started}},
			"Lease worker-1: renewed 08:00:00.000, version 9, through node-1"},
		{record.KindEndpoints, record.Endpoints{Source: "endpoints", Via: "node-1", Revision: "9", Sample: true}, "endpoints through node-1: none (reading, version 9)"},
		{record.KindLease, record.Lease{Name: "kube-scheduler", Via: "node-1", Holder: "node-2_x", Renew: started, Transitions: 3, Revision: "9"},
			"kube-scheduler: held by node-2_x, renewed 08:00:00.000, 3 transitions, version 9, through node-1"},
		{record.KindEtcd, record.EtcdStatus{Node: "node-1", OK: true, Member: "a1", Leader: "b2", Term: 3, RaftIndex: 40, Revision: 30, Alarms: []string{"NOSPACE"}},
			"node-1: member a1, leader b2, term 3, raft index 40, revision 30, alarms NOSPACE"},
		{record.KindEtcd, record.EtcdStatus{Node: "node-1", OK: true, Member: "a1", Learner: true, Hash: 255, HashRevision: 7},
			"node-1: member a1, a learner, no leader, term 0, raft index 0, revision 0, hash 000000ff at revision 7"},
		{record.KindEtcd, record.EtcdStatus{Node: "node-1", Error: "connection refused"}, "node-1: no answer: connection refused"},
		{record.KindProcess, record.ProcessState{Node: "node-1", Component: "etcd", PID: 9, State: "S", Restarts: 1, LastExit: "signal: killed"},
			"etcd on node-1: process 9, state S, 1 restarts, last exit: signal: killed"},
		{record.KindProcess, record.ProcessState{Node: "node-1", Component: "etcd"}, "etcd on node-1: no process, 0 restarts"},
		{record.KindFault, record.Fault{ID: "kill", Name: "kill", Target: "etcd/leader", Node: "node-2", Component: "etcd", Phase: record.FaultInjected,
			Called: 12000 * ms, Effect: 12003 * ms, Proven: true, Proof: "process 9 is gone"},
			"kill: kill of etcd/leader = etcd node-2 injected, called at 12.000s, effect at 12.003s, proven: process 9 is gone"},
		{record.KindFault, record.Fault{ID: "kill", Name: "kill", Target: "etcd", Phase: record.FaultFailed, Error: "no such process"},
			"kill: kill of etcd failed, called at 0.000s, error: no such process"},
		{record.KindSteady, record.Steady{Phase: "before", OK: true, Took: 3 * time.Second, Limit: 20 * time.Second}, "before: the steady state held after 3s (limit 20s)"},
		{record.KindSteady, record.Steady{Phase: "after", Took: 20 * time.Second, Limit: 20 * time.Second, Problems: []string{"a", "b"}},
			"after: the steady state did not hold in 20s (limit 20s): a; b"},
		{record.KindHarness, record.Harness{Late: 1234567, Queue: 1.25, Busy: 0.7}, "timers up to 1.2ms late, 1.2 tasks per CPU, 70 % of CPU time used"},
		{record.KindHarness, record.Harness{Busy: 0.1, Throttled: 0.5}, "timers up to 0s late, 0.0 tasks per CPU, 10 % of CPU time used, a CPU quota used up in 50 % of its periods"},
		{record.KindList, record.List{Client: "c1", Entrance: "node-1", API: "kubernetes", Collection: "registers", Group: "a", Match: record.MatchNotOlderThan, Asked: "5", Limit: 2,
			Pages: []record.Page{{Revision: "9"}, {}}, Items: make([]record.Item, 3), Return: 2 * ms, Outcome: record.OK},
			"c1 through node-1: list of registers, group a (not-older-than 5, pages of 2), ok, 3 items in 2 pages, version 9 (2ms)"},
		{record.KindList, record.List{Client: "c1", Entrance: "node-1", API: "kubernetes", Collection: "registers", Match: record.MatchExact, Asked: "5", Status: 410, Error: "gone", Outcome: record.Refused},
			"c1 through node-1: list of registers (exact 5), refused with status 410: gone (0s)"},
		{record.KindWatch, record.Watch{ID: "w2", Phase: record.WatchOpened, Client: "c1", Entrance: "node-1", API: "kubernetes", Collection: "registers", Group: "a", From: "5", Bookmarks: true, Resumes: "w1", Seen: 3 * ms},
			"w2 of c1 through node-1: opened, on registers, group a from version 5, with bookmarks, resumes w1 (3ms)"},
		{record.KindWatch, record.Watch{ID: "w2", Phase: record.WatchEnded, Client: "c1", Entrance: "node-1", API: "etcd", Status: 410, Compacted: "7", Error: "too old"},
			"w2 of c1 through etcd on node-1: ended with status 410, compacted up to 7: too old"},
		{record.KindEvent, record.Event{Watch: "w2", Type: record.EventModified, Key: "k", Value: "v", Revision: "8", Batch: 2, PreviousValue: "u", PreviousRevision: "6"},
			`w2: modified k to "v", version 8, response 2, before it "u" of version 6`},
		{record.KindEvent, record.Event{Watch: "w2", Type: record.EventBookmark, Revision: "8", InitialEnd: true}, "w2: bookmark, version 8, the initial events end"},
		{record.KindEvent, record.Event{Watch: "w2", Type: record.EventDeleted, Key: "k", Revision: "8"}, "w2: deleted k, version 8"},
		{record.KindEnd, record.End{}, "the run ended as planned"},
		{record.KindEnd, record.End{Error: "interrupted"}, "the run stopped early: interrupted"},
	} {
		seen[reflect.TypeOf(tt.v)] = true
		got := EntryLine(record.Entry{At: 12345 * ms, Kind: tt.kind}, tt.v)
		at, kind, words := got[:9], strings.TrimSpace(got[11:20]), got[22:]
		if at != "   12.345" || kind != string(tt.kind) || words != tt.want {
			t.Errorf("%s:\n got %q\nwant %q", tt.kind, got, tt.want)
		}
	}
	for _, kind := range record.Kinds() {
		v, err := record.Entry{Kind: kind, Data: []byte("{}")}.Value()
		if err != nil || !seen[reflect.TypeOf(v)] {
			t.Errorf("entries of kind %s are not tested: %v", kind, err)
		}
	}
}
