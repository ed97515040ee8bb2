package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
)

// TestAwaitUnused: an agent whose harness was killed is waited for, a slow login is not cut off, and what
// does not get better has its own error.
func TestAwaitUnused(t *testing.T) {
	unreachable := errors.New("failed to reach node-1")
	for name, tc := range map[string]struct {
		login    time.Duration // of each try
		used     time.Duration // until the agent no longer looks used
		problem  error         // of each try
		want     error
		min, max time.Duration
	}{
		"unused":                {},
		"used by a killed run":  {used: 2 * pingEach, min: 2 * pingEach, max: 2*pingEach + time.Second},
		"used by another run":   {used: time.Hour, want: clusters.ErrUnsafe, min: 3 * pingEach, max: 3*pingEach + 2*time.Second},
		"a slow login":          {login: 12 * time.Second, min: 12 * time.Second, max: 12 * time.Second},
		"no login in ssh's 10s": {login: 10 * time.Second, problem: unreachable, want: unreachable, min: 20 * time.Second, max: 21 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				err := awaitUnused(t.Context(), func(context.Context) error {
					time.Sleep(tc.login)
					if time.Since(began) < tc.used {
						return fmt.Errorf("%w: another run uses the agent", clusters.ErrUnsafe)
					}
					return tc.problem
				})
				if took := time.Since(began); !errors.Is(err, tc.want) || took < tc.min || took > tc.max {
					t.Errorf("after %s: %v, want %v after %s to %s", took, err, tc.want, tc.min, tc.max)
				}
			})
		})
	}
}

// TestHealLimit: an agent that lives and cannot heal something is not waited for without end, and the
// error names what is left.
func TestHealLimit(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /heal", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("null")) })
	mux.HandleFunc("GET /active", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`["links are impaired"]`)) })
	go func() { _ = agenthttp.Serve(t.Context(), l, mux) }()
	client := agent.NewLocalClient("node-1", socket)
	defer client.Close()
	gone, err := heal(t.Context(), time.Second, shell{node: "node-1"}, client)
	if gone || err == nil || !strings.Contains(err.Error(), "a fault is active on node-1 (links are impaired)") || !strings.Contains(err.Error(), "timed out after 1s") {
		t.Errorf("gone: %t, %v", gone, err)
	}
}

// TestTakeOutOther: a run that stalled leaves the agent of the run that has taken over alone.
func TestTakeOutOther(t *testing.T) {
	dir := t.TempDir()
	ran := filepath.Join(dir, "ran")
	ssh := "#!/bin/sh\nfor last; do :; done\ncase \"$last\" in\n*\"echo used\"*) echo used;;\n*) echo \"$last\" >>" + ran + ";;\nesac\n"
	if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte(ssh), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	socket := filepath.Join(dir, "agent.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /heal", func(w http.ResponseWriter, _ *http.Request) {
		agenthttp.Error(w, agenthttp.OtherRun("another run of holdfast uses the agent (process 1 on laptop)"))
	})
	mux.HandleFunc("GET /active", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("[]")) })
	go func() { _ = agenthttp.Serve(t.Context(), l, mux) }()
	n := testNode()
	n.SSH = n.Name
	i := &clusters.Inventory{}
	i.Spec.Nodes = []clusters.InventoryNode{n}
	all, done, err := shells(i)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	client := agent.NewLocalClient(n.Name, socket)
	defer client.Close()
	if err := takeOut(t.Context(), all[n.Name], client); !errors.Is(err, clusters.ErrUnsafe) || !strings.Contains(err.Error(), "process 1 on laptop") {
		t.Error(err)
	}
	if did, err := os.ReadFile(ran); err == nil {
		t.Errorf("it ran %s", did)
	}
}
