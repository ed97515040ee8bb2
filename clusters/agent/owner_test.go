package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/framework"
)

// as sends a request of another run than this one to the agent.
func (n *testNode) as(run, method, path string, r request) error {
	n.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", n.config.Socket)
	}}}
	text, err := json.Marshal(r)
	must(n.t, err)
	req, err := http.NewRequestWithContext(n.t.Context(), method, "http://agent/"+path, strings.NewReader(string(text)))
	must(n.t, err)
	req.Header.Set(agenthttp.RunHeader, run)
	resp, err := client.Do(req)
	must(n.t, err)
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	must(n.t, err)
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%d %s", resp.StatusCode, said)
	}
	return nil
}

// TestOtherRun: an agent with a leash serves one run at a time. Another one may read, and end what it
// began, but does not reach the faults of the first.
func TestOtherRun(t *testing.T) {
	t.Parallel()
	n := newNode(t, scheduler)
	n.config.Leash, n.config.Run = time.Minute, "the installer"
	freeze := request{Component: scheduler, For: time.Hour}
	n.up()
	// An agent that has just started is its installer's, also after a restart.
	err := n.Freeze(t.Context(), scheduler, time.Hour)
	var other agenthttp.OtherRun
	if !errors.As(err, &other) || !errors.Is(err, framework.ErrNothingDone) || !strings.Contains(err.Error(), "another run of holdfast uses the agent (the installer)") {
		t.Errorf("a request of another run: %v", err)
	}
	n.kill()
	n.config.Run = agenthttp.Run()
	n.up()
	n.runs(scheduler)
	must(t, n.Freeze(t.Context(), scheduler, time.Hour))
	for path, method := range map[string]string{"active": http.MethodGet, "process": http.MethodPost, "restore": http.MethodPost, "thaw": http.MethodPost} {
		must(t, n.as("second", method, path, freeze))
	}
	for _, run := range []string{"second", ""} { // one of an older version has no name
		for _, path := range []string{"freeze", "heal", "kill", "impair"} {
			if err := n.as(run, http.MethodPost, path, freeze); err == nil || !strings.Contains(err.Error(), agenthttp.Run()) {
				t.Errorf("a request of %q to %s: %v", run, path, err)
			}
		}
	}
	if left, err := n.Active(t.Context()); err != nil || len(left) != 1 {
		t.Errorf("another run has changed the faults of the first: %v, %v", left, err)
	}
	// The first run stalls. Another one takes over, which asked all the time.
	began := time.Now()
	eventually(t, "another run may have everything healed", func() bool { return n.as("second", http.MethodPost, "heal", request{}) == nil })
	if took := time.Since(began); took < UsedFor-time.Second {
		t.Errorf("it could after %s", took)
	}
	eventually(t, "nothing is active", func() bool {
		left, err := n.Active(t.Context())
		return err == nil && len(left) == 0
	})
	if ago, err := n.Lapsed(t.Context()); err != nil || ago == 0 {
		t.Errorf("the first run is not told that its fault is over: %v", err)
	}
	if err := n.Freeze(t.Context(), scheduler, time.Hour); !errors.As(err, &other) || !strings.Contains(err.Error(), "(second)") {
		t.Errorf("the first run returns: %v", err)
	}
	must(t, n.as("second", http.MethodPost, "freeze", freeze))
	must(t, n.Thaw(t.Context(), scheduler))
	if err := n.HealAll(t.Context()); !errors.As(err, &other) {
		t.Errorf("the first run ends everything: %v", err)
	}
	if left, err := n.Active(t.Context()); err != nil || len(left) != 1 {
		t.Errorf("the first run has changed the faults of the second: %v, %v", left, err)
	}
	must(t, n.as("second", http.MethodPost, "thaw", freeze))
}

// TestOtherRunIdle: the requests of another run keep no faults active.
func TestOtherRunIdle(t *testing.T) {
	t.Parallel()
	n := newNode(t, scheduler)
	n.config.Leash, n.config.Run = 3*time.Second, agenthttp.Run()
	n.up()
	n.runs(scheduler)
	must(t, n.Freeze(t.Context(), scheduler, time.Hour))
	began := time.Now()
	for time.Since(began) < 5*time.Second {
		must(t, n.as("second", http.MethodGet, "ping", request{}))
		time.Sleep(100 * time.Millisecond)
	}
	if left, err := n.Active(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("%v is active, %v", left, err)
	}
}

// TestOtherRunWithoutLeash: where runs know each other, each may reach the agent.
func TestOtherRunWithoutLeash(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.up()
	for _, run := range []string{"first", "second"} {
		must(t, n.as(run, http.MethodPost, "heal", request{}))
	}
}
