package undo

import (
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/workload/etcdtest"
)

// TestRefused: what cannot be carried out is an error. What a node has no ability for is left to
// others, and a lease that is gone is released. The tests of node agents carry out the rest.
func TestRefused(t *testing.T) {
	t.Parallel()
	c := etcdtest.New(t, 1)
	for says, u := range map[string]framework.Undoing{
		"exactly one action, but sets 0": {Fault: "alarm"},
		"exactly one action, but sets 2": {Fault: "overload", FreeSpace: "a", Delete: []string{"b"}},
		`alarm "LOUD" is unknown`:        {Fault: "alarm", Disarm: &framework.EtcdAlarm{Type: "LOUD"}},
		`"node-9" does not exist`:        {Fault: "remove-member", Node: "node-9", Rejoin: []string{"http://127.0.0.1:1"}},
	} {
		if err := Do(t.Context(), c, u); err == nil || !strings.Contains(err.Error(), "failed to undo "+u.Fault) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	for _, u := range []framework.Undoing{
		{Node: "node-1", Rejoin: []string{"http://127.0.0.1:1"}}, {Restart: map[string]string{"kube-apiserver/node-1": "process 1"}}, {Release: &framework.HeldLease{Key: "none"}},
	} {
		if err := Do(t.Context(), c, u); err != nil {
			t.Error(err)
		}
	}
}
