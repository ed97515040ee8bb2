package engine

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// unready answers /readyz with an error.
func unready(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path == "/readyz" {
		apitest.Fail(w, http.StatusInternalServerError, "InternalError", "etcd failed")
	}
	return r.URL.Path == "/readyz"
}

// TestUnhealthyBaseline: an experiment without faults shows what is wrong with a cluster that is
// unhealthy from the start, without adding traffic; one with faults ends there.
func TestUnhealthyBaseline(t *testing.T) {
	for _, tc := range []struct {
		name  string
		steps []Step
		want  []string
	}{
		{"harmless", []Step{{Action: &Action{Name: "ready"}}, {Wait: "1s"}}, []string{"baseline", "action ready", "wait 1s", "final reads"}},
		{"with a fault", []Step{{Action: &Action{Name: "ready"}}, kill("a", "node-1")}, []string{"baseline"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFake(t)
				c.Server(1).Hook(unready)
				run, err := carryOut(t.Context(), t, c, Options{baseline: 2 * time.Second}, tc.steps...)
				if err != nil || !run.Complete || run.End.Error != "" {
					t.Fatal(err, run.Problem, run.End)
				}
				if got := phases(run); !slices.Equal(got, tc.want) {
					t.Errorf("phases %q, want %q", got, tc.want)
				}
				if s := run.Steadies; len(s) != 1 || s[0].V.OK || !contains(s[0].V.Problems, "/readyz") {
					t.Errorf("steady states %+v", s)
				}
				if harmless := len(tc.want) > 1; harmless != (len(run.Probes) > 0) || harmless != (len(run.Ops) > 0) || len(run.Faults) > 0 || c.nodes[0].killed > 0 {
					t.Errorf("%d probes, %d operations, faults %q", len(run.Probes), len(run.Ops), faults(run))
				}
				for _, o := range run.Ops {
					if o.V.Purpose != "ready" {
						t.Errorf("traffic: %+v", o.V)
					}
				}
			})
		})
	}
}

// full is a cluster with the alarm NOSPACE: it takes no writes.
func full(t *testing.T) framework.Cluster {
	c := newStacked(t)
	for i := range 3 {
		c.Server(i).Hook(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodGet {
				return false
			}
			_, _ = io.Copy(io.Discard, r.Body)
			apitest.Fail(w, http.StatusInternalServerError, "InternalError", "etcdserver: mvcc: database space exceeded")
			return true
		})
	}
	member, err := client.NewEtcd(c, "node-1")
	if err != nil {
		t.Fatal(err)
	}
	defer member.Close()
	request := &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: 1, Alarm: pb.AlarmType_NOSPACE}
	if _, err := pb.NewMaintenanceClient(member.ActiveConnection()).Alarm(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestUnhealthyWithoutWrites: an experiment without faults needs no write to find out what is wrong
// with a cluster.
func TestUnhealthyWithoutWrites(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		cluster func(*testing.T) framework.Cluster
		probes  bool
		want    judge.Verdict
		says    string
	}{
		{"an alarm", full, true, judge.Fail, "alarm:NOSPACE"},
		{"no entrance", func(t *testing.T) framework.Cluster { return noWay{newStacked(t)} }, false, judge.Inconclusive, "the baseline was unhealthy: cluster apitest has no entrance"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			run, err := carryOut(t.Context(), t, tc.cluster(t), Options{baseline: 2 * time.Second}, Step{Wait: "2s"})
			if err != nil || !run.Complete || run.End.Error != "" {
				t.Fatal(err, run.Problem, run.End)
			}
			if got := phases(run); !slices.Equal(got, []string{"baseline", "wait 2s", "final reads"}) {
				t.Errorf("phases %q", got)
			}
			if len(run.Etcd) == 0 || (len(run.Probes) > 0) != tc.probes {
				t.Errorf("%d statuses of etcd members, %d probes", len(run.Etcd), len(run.Probes))
			}
			for i := range run.Harness { // the machine may be busy with other tests
				run.Harness[i].V = record.Harness{}
			}
			if r := judge.Evaluate(run)[0]; r.Verdict != tc.want || !strings.Contains(r.Sentence, tc.says) {
				t.Errorf("%s: %s", r.Verdict, r.Sentence)
			}
		})
	}
}

// closing is a cluster whose etcd members can be reached until the baseline is checked.
type closing struct {
	*stackedCluster
	reached atomic.Int32
}

func (c *closing) EtcdConfig(node string) (clientv3.Config, error) {
	if c.reached.Add(1) > 3 {
		return clientv3.Config{}, errors.New("access is denied")
	}
	return c.stackedCluster.EtcdConfig(node)
}

// TestObserversDoNotStart: a healthy cluster that cannot be observed is an error of the run; of an
// unhealthy one the record has the baseline.
func TestObserversDoNotStart(t *testing.T) {
	t.Parallel()
	for _, healthy := range []bool{true, false} {
		t.Run(fmt.Sprintf("healthy %t", healthy), func(t *testing.T) {
			t.Parallel()
			c := &closing{stackedCluster: newStacked(t)}
			if !healthy {
				c.Server(1).Hook(unready)
			}
			run, err := carryOut(t.Context(), t, c, Options{baseline: 2 * time.Second}, Step{Wait: "1s"})
			if (err != nil) != healthy || (run.End.Error != "") != healthy || !run.Complete {
				t.Fatal(err, run.Problem, run.End)
			}
			if healthy && !strings.Contains(run.End.Error, "failed to start the observers") {
				t.Error(run.End.Error)
			}
			if s := run.Steadies; len(s) != 1 || s[0].V.OK != healthy || !slices.Equal(phases(run), []string{"baseline"}) {
				t.Errorf("steady states %+v, phases %q", s, phases(run))
			}
		})
	}
}
