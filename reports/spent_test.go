package reports

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func TestSpentOn(t *testing.T) {
	run := &record.Run{EndAt: sec(31)}
	for _, p := range []struct {
		at   float64
		name string
	}{
		{0, "baseline"}, {0.5, "wait 4s"}, {4.5, "inject kill on etcd/leader as kill"}, {5, "until api-writable, at most 10E + M"},
		{7, "action ready"}, {8, "heal kill"}, {9, "recovery, limit 14s"}, {12, "wait 12s"}, {24, "heal late (at the end)"}, {30, "final reads"},
	} {
		appendAt(&run.Phases, sec(p.at), record.Phase{Name: p.name})
	}
	want := Spent{Waiting: 18 * time.Second, Work: 9500 * time.Millisecond, Overhead: 3500 * time.Millisecond}
	if got := SpentOn(run); got != want || got.Total() != 31*time.Second {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := SpentOn(&record.Run{}); got.Total() != 0 {
		t.Errorf("an empty record: %+v", got)
	}
}

func TestSpent(t *testing.T) {
	run := Run{Times: []ScenarioTime{
		{"a", "cluster-1", Spent{Waiting: 20 * time.Second, Work: 2 * time.Second, Overhead: time.Second}},
		{"b", "cluster-2", Spent{Waiting: 10 * time.Second, Work: 3 * time.Second}},
	}}
	// Without clusters, only what the records say is known.
	if got := run.Spent(); got != (Spent{30 * time.Second, 5 * time.Second, time.Second}) {
		t.Errorf("%+v", got)
	}
	run.Clusters = []Cluster{{Took: 29 * time.Second}, {Took: 17 * time.Second}}
	if got := run.Spent(); got != (Spent{30 * time.Second, 5 * time.Second, 11 * time.Second}) {
		t.Errorf("with clusters: %+v", got)
	}
	if got, want := timeText(run), "46s on 2 clusters: 65 % waiting, 11 % work, 24 % overhead"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	rows := timeRows(run)
	if n := len(rows); n != 4 || rows[2].Overhead != "10s" || rows[3].Total != "46s" {
		t.Errorf("%+v", rows)
	}
	if timeText(Run{}) != "" || timeRows(Run{}) != nil || clusterFacts(Run{}) != nil {
		t.Error("something is said of nothing")
	}
}

func TestClusterFacts(t *testing.T) {
	facts := clusterFacts(fixtureRun())
	want := []fact{
		{"cluster-1", "3 nodes, balancer builtin, disk none, E = 1s, took 2m12s, 6.2s of that to make it; api-server-killed, another-killed"},
		{"cluster-2", "balancer haproxy, disk fuse, E = 3s, etcd --election-timeout=3000, took 41s, 5.9s of that to make it, problem: the worker ended: signal: killed; etcd-leader-killed"},
	}
	if !slices.Equal(facts, want) {
		t.Errorf("%+v", facts)
	}
	alone := fixtureRun()
	alone.Clusters = alone.Clusters[1:]
	want = []fact{{"cluster-2", "balancer haproxy, disk fuse, etcd --election-timeout=3000, took 41s, 5.9s of that to make it, problem: the worker ended: signal: killed"}}
	if facts := clusterFacts(alone); !slices.Equal(facts, want) {
		t.Errorf("one cluster: %+v", facts)
	}
}
