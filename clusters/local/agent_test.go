package local

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/framework"
)

// An agent that was frozen does nothing that nobody waits for any more, whatever
// it was asked for.
func TestAgentRefusesLateRequests(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{}
	refused := make(chan int, 1)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(50 * time.Millisecond) // frozen
		late := &status{ResponseWriter: w}
		a.ServeHTTP(late, r) // which has nothing else to answer with
		refused <- late.code
	})}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	n := &node{machine: &machine{agent: newAgentClient("node-1", socket)}}
	for name, ask := range map[string]func(context.Context) error{
		"clock": func(ctx context.Context) error {
			return n.machine.agent.exchange(ctx, http.MethodPost, shiftPath, clockRequest{For: time.Minute}, nil)
		},
		"etcd": func(ctx context.Context) error {
			return n.RejoinEtcd(ctx, []framework.EtcdPeer{{Name: "node-1", URLs: []string{"https://127.0.0.1:2380"}}})
		},
		"kill": func(ctx context.Context) error {
			return n.machine.agent.do(ctx, "kill", agentRequest{Component: framework.Etcd})
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if err := ask(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
		if code := <-refused; code != agenthttp.NothingDoneStatus {
			t.Errorf("%s: answered with status %d", name, code)
		}
	}
}

// A successor that answers knows what runs: nobody is told in the meantime that a
// component that continues were down.
func TestSuccessorKnowsWhatRuns(t *testing.T) {
	dir := t.TempDir()
	s := newSleeper(t, dir, &savedState{})
	go s.run(false)
	eventually(t, 10*time.Second, "it runs", running(s))
	saved := s.a.saved(sleeper)
	successor := &agent{cfg: s.a.cfg, supervisors: map[framework.Component]*supervisor{}, state: map[framework.Component]*savedState{sleeper: &saved}}
	successor.cfg.Components = []componentSpec{s.spec}
	if err := successor.supervise(); err != nil {
		t.Fatal(err)
	}
	if p := successor.supervisors[sleeper].process(); p.PID != saved.PID || p.Restarts != 0 {
		t.Errorf("%+v, want process %d", p, saved.PID)
	}
}

// status notes the status of an answer.
type status struct {
	http.ResponseWriter
	code int
}

func (s *status) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}
