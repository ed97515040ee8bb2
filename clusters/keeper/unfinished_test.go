package keeper

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/clusters/internal/scaling"
	"github.com/holdfast-ha/holdfast/framework"
)

// The error of every change that is not complete says what to do next.
func TestUnfinished(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	steps := []framework.Step{{Node: "node-1", Name: "stop etcd"}, {Name: "add to the load balancer"}}
	for name, test := range map[string]struct {
		r    ChangeRequest
		ctx  context.Context
		says string
	}{
		"upgrade":                  {ChangeRequest{Version: "v1.37.1"}, t.Context(), "again to finish, or upgrade each changed node to its old version to undo"},
		"etcd":                     {ChangeRequest{Version: "v3.7.3", Etcd: true}, t.Context(), "again to finish; etcd members do not return"},
		"scale":                    {ChangeRequest{Nodes: 5}, t.Context(), "or with the old number of nodes to undo"},
		"certificates":             {ChangeRequest{Rotate: RotateCertificates}, t.Context(), "nothing has to be undone"},
		"ca":                       {ChangeRequest{Rotate: RotateCA}, t.Context(), "or with --undo to return to the old CAs"},
		"ca back":                  {ChangeRequest{Rotate: RotateCA, Undo: true}, t.Context(), "or without --undo"},
		"save":                     {ChangeRequest{Save: "/s"}, t.Context(), "no snapshot was saved"},
		"restore":                  {ChangeRequest{Restore: "/s"}, ended, "or run the same command again, with --foreign if no etcd member answers"},
		"restore that says itself": {ChangeRequest{Restore: "/s"}, t.Context(), "broken; run the same command again; the last complete step, number 2,"},
		"interrupted":              {ChangeRequest{Rotate: RotateCA}, ended, `the last complete step, number 2, was "add to the load balancer", and the next one may still complete; run`},
	} {
		broken := errors.New("broken")
		if test.r.Restore != "" {
			broken = errors.New("broken; run the same command again")
		}
		err := unfinished(test.ctx, test.r, steps, broken)
		if !errors.Is(err, broken) || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), again) {
			t.Errorf("%s: %v", name, err)
		}
	}
	stays := scaling.Stays("node-4", errors.New("no quorum"))
	if err := unfinished(t.Context(), ChangeRequest{Nodes: 5}, steps, stays); !errors.Is(err, stays) || strings.Contains(err.Error(), again) || !strings.Contains(err.Error(), "remove the node") {
		t.Errorf("a node that stays: %v", err)
	}
	refused := errors.New("no such node")
	if err := unfinished(t.Context(), ChangeRequest{Nodes: 5, Check: true}, nil, refused); err != refused {
		t.Error(err)
	}
}
