package remote

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
)

// oldAgent is the agent of an earlier run on a node, which has a fault to heal.
type oldAgent struct {
	mu    sync.Mutex
	asked []string
}

func (a *oldAgent) note(what string) (count int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, what)
	for _, one := range a.asked {
		if one == what {
			count++
		}
	}
	return count
}

// TestHealOld: what an earlier run left is healed by its own agent, before the node is looked at.
func TestHealOld(t *testing.T) {
	for _, tc := range []struct {
		name, used, ago string
		want            []string // requests to the agent
		unsafe          bool
	}{
		{"an agent of an earlier run", "used", "7", []string{"heal", "active", "active"}, false},
		{"an agent that has never run", "unused", "", nil, false},
		{"no agent", "", "", nil, false},
		{"an agent of a run that is not over", "used", "1", nil, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, exe := t.TempDir(), executable(t)
			socket, looked := filepath.Join(dir, "agent"), filepath.Join(dir, "looked")
			connect := filepath.Join(dir, filepath.Base(agent.ConnectPath))
			if err := os.Symlink(exe, connect); err != nil {
				t.Fatal(err)
			}
			ssh := "#!/bin/sh\nfor last; do :; done\ncase \"$last\" in\n" +
				"*\"exec " + agent.ConnectPath + "\"*) exec " + connect + " " + socket + ";;\n" +
				"*\"echo used\"*) echo A banner; echo " + tc.used + ";;\n" +
				"*\"read -r _ asked\"*) echo A banner; echo " + tc.ago + ";;\n" +
				"*SSH_CONNECTION*) : >" + looked + "; exit 1;;\nesac\n"
			if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte(ssh), 0o700); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
			l, err := net.Listen("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			old := &oldAgent{}
			mux := http.NewServeMux()
			mux.HandleFunc("POST /heal", func(w http.ResponseWriter, _ *http.Request) {
				if _, err := os.Stat(looked); err == nil {
					t.Error("the node was looked at before the agent healed it")
				}
				old.note("heal")
				_, _ = w.Write([]byte("null"))
			})
			mux.HandleFunc("GET /active", func(w http.ResponseWriter, _ *http.Request) {
				left := `["a fault"]`
				if old.note("active") > 1 {
					left = "[]"
				}
				_, _ = w.Write([]byte(left))
			})
			go func() { _ = agenthttp.Serve(t.Context(), l, mux) }()
			n := testNode()
			n.SSH = n.Name
			i := &clusters.Inventory{}
			i.Spec.Nodes = []clusters.InventoryNode{n}
			c := &Cluster{Observed: &Observed{access: &access{Inventory: i}}}
			if c.shells, c.done, err = shells(i); err != nil {
				t.Fatal(err)
			}
			defer c.done()
			err = c.takeOver(t.Context(), func(string) {})
			_, unlooked := os.Stat(looked)
			if err == nil || errors.Is(err, clusters.ErrUnsafe) != tc.unsafe || (unlooked != nil) != tc.unsafe {
				t.Errorf("taken over: %v; looked at: %t", err, unlooked == nil)
			}
			old.mu.Lock()
			defer old.mu.Unlock()
			if !slices.Equal(old.asked, tc.want) {
				t.Errorf("the agent was asked to %s, want %s", strings.Join(old.asked, ", "), strings.Join(tc.want, ", "))
			}
		})
	}
}

func executable(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// TestPingedAtOnce: an agent is used from its start, however long installing another one takes.
func TestPingedAtOnce(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	pinged := make(chan struct{}, 100)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ping", func(w http.ResponseWriter, _ *http.Request) {
		pinged <- struct{}{}
		_, _ = w.Write([]byte("null"))
	})
	go func() { _ = agenthttp.Serve(t.Context(), l, mux) }()
	c := &Cluster{}
	for range 2 {
		c.reached = append(c.reached, &node{Client: agent.NewLocalClient("node", socket), cluster: c})
	}
	err = c.putAgents(t.Context(), func(_ context.Context, n *node) error {
		if n == c.reached[0] {
			return nil
		}
		select {
		case <-pinged:
			return nil
		case <-time.After(5 * time.Second):
			return errors.New("the first agent receives no request while another one is installed")
		}
	})
	if err != nil {
		t.Error(err)
	}
	c.stop()
	c.pings.Wait()
}
