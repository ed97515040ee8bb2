package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// hostIsolated kills an API server, and then isolates a host of etcd that does not lead.
const hostIsolated = `apiVersion: holdfast.dev/v1alpha1
kind: Scenario
metadata: {name: host-isolated}
spec:
  summary: An API server is killed, and then a host of etcd is isolated.
  timeline:
  - wait: 3s
  - inject: {fault: kill, target: apiserver/follower, as: kill}
  - wait: 5s
  - heal: kill
  - wait: 4s
  - inject: {fault: isolate, target: node/follower, as: cut, params: {keep: harness}}
  - wait: 5s
  - heal: cut
  - wait: 2s
  requirements:
  - {id: HA-CL-003, judge: availability, fault: kill, bound: H + M, params: {entrance: balancer}}
  - {id: HA-QR-004, judge: linearizable, fault: cut}
`

// TestClusterExternalEtcd runs against a cluster made by hand whose etcd has hosts of its own.
// Their members are found, administered with the certificates that are there, and hit. All
// components are children of a process named k0s, which starts each again after 5 s: holdfast
// detects those of the control plane as k0s's, and kills one that is to stay down at each start.
func TestClusterExternalEtcd(t *testing.T) {
	cluster, said := byHand(t, `holdfast inventory init --kubeconfig admin.conf
cat >host-isolated.yaml <<'END'
`+hostIsolated+`END
holdfast profile detect node-1 --inventory nodes.yaml
holdfast profile detect etcd-1 --inventory nodes.yaml
holdfast consent --inventory nodes.yaml --level process,network | kubectl apply -f -
holdfast inventory check nodes.yaml
holdfast run --inventory nodes.yaml --scenario etcd-leader-killed -f host-isolated.yaml --out results 2>&1 | tee run.txt
# On a busy machine the cluster may take too long to become steady, and the run then stops.
! grep -q "continue with --resume" run.txt || holdfast run --resume results || true`, "EXTERNAL_ETCD=1", "SUPERVISOR=k0s")
	for _, want := range []string{"profile k0s fits", "profile processes fits", "node node-3 (ssh 10.88.0.13): distribution k0s: kube-apiserver", "node etcd-3 (ssh 10.88.0.16): distribution processes: etcd"} {
		if !strings.Contains(said, want) {
			t.Errorf("the output does not have %q", want)
		}
	}
	results := filepath.Join(cluster, "results")
	if noneFails(t, results)["HA-QR-005"] != judge.Pass {
		t.Error("HA-QR-005 does not pass")
	}
	for scenario, targets := range map[string]map[string]string{
		"etcd-leader-killed": {"kill": "etcd-"}, "host-isolated": {"kill": "node-", "cut": "etcd-"},
	} {
		run, err := record.Read(record.Dir(results, scenario))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range run.Faults {
			if f.V.Phase == record.FaultFailed || !f.V.Proven || !strings.HasPrefix(f.V.Node, targets[f.V.ID]) {
				t.Errorf("%s: %+v", scenario, f.V)
			}
			delete(targets, f.V.ID)
		}
		for id := range targets {
			t.Errorf("%s: %s is not in the record", scenario, id)
		}
	}
	if t.Failed() {
		t.Log(said)
	}
}
