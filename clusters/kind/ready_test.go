package kind

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	kindexec "sigs.k8s.io/kind/pkg/exec"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
)

func TestPodsReady(t *testing.T) {
	c := &Cluster{}
	for _, test := range []struct{ items, says string }{
		{``, "no pods"},
		{`{"metadata":{"name":"p"},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`, ""},
		{`{"metadata":{"name":"p"},"status":{"phase":"Succeeded"}}`, ""},
		{`{"metadata":{"name":"p"},"spec":{"nodeName":"n"},"status":{"phase":"Pending","containerStatuses":[{"name":"c","state":{"waiting":{"reason":"ErrImageNeverPull","message":"gone"}}}]}}`,
			"pod p on n is not ready: Pending; c waits: ErrImageNeverPull gone"},
		{`{"metadata":{"name":"p"},"status":{"phase":"Running","containerStatuses":[{"name":"c","state":{"terminated":{"reason":"Error","exitCode":7}}}]}}`, "exit code 7"},
	} {
		err := c.podsReady([]byte(`{"items":[` + test.items + `]}`))
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%v, want %q", err, test.says)
		}
	}
}

// TestElects: leader election is off for every word that its flag takes for false.
func TestElects(t *testing.T) {
	for value, want := range map[string]bool{"": true, "true": true, "false": false, "f": false, "0": false} {
		args := clusters.ExtraArgs{framework.Scheduler: {"leader-elect": value}}
		c := &Cluster{nodes: []*node{{}, {spec: clusters.Node{ExtraArgs: args}}}}
		if c.elects(framework.Scheduler) != want || !c.elects(framework.ControllerManager) {
			t.Errorf("leader-elect=%s on one node: %t, want %t", value, !want, want)
		}
	}
}

func TestPodRanges(t *testing.T) {
	ranges, err := podRanges([]byte(`{"items":[{"metadata":{"name":"a"},"spec":{"podCIDRs":["10.244.0.0/24"]}},{"metadata":{"name":"b"}}]}`), []string{"a"})
	if err != nil || len(ranges["a"]) != 1 || ranges["a"][0].String() != "10.244.0.0/24" {
		t.Errorf("%v, %v", ranges, err)
	}
	if _, err := podRanges([]byte(`{"items":[{"metadata":{"name":"a"}}]}`), []string{"a"}); err == nil {
		t.Error("a node without addresses for pods will do")
	}
}

func TestExplain(t *testing.T) {
	for words, todo := range map[string]string{
		"write /x: no space left on device":  "free some space",
		"runc: unable to apply caps: EPERM":  "holdfast kind engine",
		"Error: No such image: holdfast/x:1": "holdfast kind image",
	} {
		if err := explain(errors.New(words)); !strings.Contains(err.Error(), todo) || !strings.Contains(err.Error(), words) {
			t.Error(err)
		}
	}
	plain := errors.New("something else")
	if explain(plain) != plain {
		t.Error("an error that says enough is changed")
	}
	err := kindFailed(fmt.Errorf("failed to init node: %w", &kindexec.RunError{Command: []string{"kubeadm"}, Output: []byte("no route\n"), Inner: errors.New("exit status 1")}))
	if !strings.Contains(err.Error(), "exit status 1") {
		t.Error(err)
	}
}
