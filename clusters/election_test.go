package clusters

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestElection(t *testing.T) {
	const head = "apiVersion: holdfast.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec:\n"
	c, err := Parse("f.yaml", []byte(head+`  election: {kube-scheduler: supervisor, kube-controller-manager: lease}
  extraArgs: {kube-scheduler: {leader-elect-lease-duration: 6s, leader-elect-renew-deadline: 4s}}
`))
	if err != nil {
		t.Fatal(err)
	}
	if !c.Spec.Election[framework.Scheduler].Supervised() || c.Spec.Election[framework.ControllerManager].Supervised() {
		t.Errorf("elections %v", c.Spec.Election)
	}
	lease, renew, retry, err := c.Node(0).ElectionTimes(framework.Scheduler)
	if lease != 6*time.Second || renew != 4*time.Second || retry != 2*time.Second || err != nil {
		t.Errorf("times %s, %s, %s, %v", lease, renew, retry, err)
	}
	for file, want := range map[string]string{
		"  election: {kube-scheduler: podmaster}":  `f.yaml:5: spec.election.kube-scheduler is "podmaster": want lease, supervisor`,
		"  election: {kube-apiserver: supervisor}": "spec.election.kube-apiserver is not an elected component",
		"  election: 3": "spec.election is \"3\": want a mapping",
		"  election: {kube-scheduler: supervisor}\n  extraArgs: {kube-scheduler: {leader-elect-lease-duration: 9s}}":                     "renew deadline of 10s must be shorter than the lease of 9s",
		"  election: {kube-scheduler: supervisor}\n  extraArgs: {kube-scheduler: {leader-elect-lease-duration: 15500ms}}":                "whole seconds",
		"  election: {kube-scheduler: supervisor}\n  extraArgs: {kube-scheduler: {leader-elect-retry-period: 6s}}":                       "two retry periods",
		"  election: {kube-scheduler: lease}\n  extraArgs: {kube-scheduler: {leader-elect-lease-duration: 9s}}":                          "",
		"  election: {kube-scheduler: supervisor}\n  nodes: [{}, {extraArgs: {kube-scheduler: {leader-elect-renew-deadline: 20s}}}, {}]": "on node-2: the renew deadline of 20s",
	} {
		_, err := Parse("f.yaml", []byte(head+file+"\n"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
}

func TestElects(t *testing.T) {
	for value, want := range map[string]bool{"": true, "true": true, "1": true, "nonsense": true, "false": false, "f": false, "0": false, "False": false} {
		n := Node{ExtraArgs: ExtraArgs{framework.Scheduler: {"leader-elect": value}}}
		if n.Elects(framework.Scheduler) != want || !n.Elects(framework.ControllerManager) {
			t.Errorf("leader-elect=%s: %t, want %t", value, !want, want)
		}
	}
}
