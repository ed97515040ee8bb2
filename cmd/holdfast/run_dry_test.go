package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/clusters/remote"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/engine"
	"github.com/holdfast-ha/holdfast/reports"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// TestPrintScenario: a dry run lists each fault with its parameters, how long it may last, and how
// long once holdfast stops answering.
func TestPrintScenario(t *testing.T) {
	s := &scenarios.Scenario{Metadata: scenarios.Metadata{Name: "mine"}, Spec: scenarios.Spec{Timeline: []engine.Step{
		{Inject: &engine.Inject{Fault: "latency", Target: "node/2", ID: "slow", TTL: "3E", Params: map[string]string{"jitter": "1ms", "delay": "50ms"}}},
		{Inject: &engine.Inject{Fault: "kill", Target: "etcd/leader", ID: "kill", TTL: "2m"}},
		{Heal: "slow, kill"},
	}}}
	settings := framework.Settings{ElectionTimeout: time.Second}
	for _, tc := range []struct {
		leash time.Duration
		want  string
	}{
		{0, "  injects latency on node/2 delay=50ms jitter=1ms (time to live 3s)\n  injects kill on etcd/leader (time to live 2m0s)\n"},
		{remote.Leash, " (time to live 3s; healed 3s after holdfast's last request)\n  injects kill on etcd/leader (time to live 2m0s; healed 15s after holdfast's last request)\n"},
	} {
		var out bytes.Buffer
		if err := printScenario(&out, s, settings, time.Minute, tc.leash); err != nil || !strings.Contains(out.String(), tc.want) {
			t.Errorf("%s: %v\n%s", tc.leash, err, out.String())
		}
	}
	s.Spec.Timeline[0].Inject.TTL = "soon"
	if err := printScenario(&bytes.Buffer{}, s, settings, time.Minute, 0); err == nil {
		t.Error("a broken formula was accepted")
	}
}

// TestLeash: only on a cluster that the run takes over are there agents with a leash.
func TestLeash(t *testing.T) {
	attached := &run.Plan{Attach: true}
	if got := leash(remote.Provider{}, attached); got != 15*time.Second {
		t.Errorf("%s", got)
	}
	if got := leash(local.Provider{}, attached) + leash(remote.Provider{}, &run.Plan{}); got != 0 {
		t.Errorf("without one: %s", got)
	}
}

// TestDryRunFootprint: as JSON, too, a dry run lists what it would have on the nodes of an existing
// cluster, as the text does, and neither has the arguments of power commands. It touches nothing, and
// needs no consent.
func TestDryRunFootprint(t *testing.T) {
	v := newVendor(t)
	inventory, err := os.ReadFile(v.inventory)
	if err != nil {
		t.Fatal(err)
	}
	const power = "ssh: root@cp-1, power: {off: ipmitool -P hunter2 off, on: ipmitool -P hunter2 on, status: ipmitool -P hunter2 status}}"
	v.write(filepath.Base(v.inventory), strings.Replace(string(inventory), "ssh: root@cp-1}", power, 1), 0o600)
	dry := func(more ...string) string {
		var stdout, stderr bytes.Buffer
		args := append([]string{"run", "--inventory", v.inventory, "--scenario", "apiserver-killed", "--dry-run"}, more...)
		if code := execute(args, strings.NewReader(""), &stdout, &stderr); code != exitPass {
			t.Fatalf("exit code %d:\n%s%s", code, stdout.String(), stderr.String())
		}
		return stdout.String()
	}
	text, asJSON := dry(), dry("-o", "json")
	if err := followsSchema("plan", asJSON); err != nil {
		t.Error(err)
	}
	var p run.Plan
	if err := reports.ReadJSON([]byte(asJSON), &p); err != nil {
		t.Fatal(err)
	}
	if all := text + asJSON; strings.Contains(all, "hunter2") || strings.Count(all, "by sh: off: ipmitool [redacted]; on: ipmitool [redacted]") != 2 {
		t.Errorf("the power commands are not without their arguments in:\n%s", all)
	}
	if len(p.Footprint) < 5 || !strings.Contains(p.Footprint[0], "the node agent, as root, on cp-1 (ssh root@cp-1)") {
		t.Errorf("the footprint is %q", p.Footprint)
	}
	for _, line := range p.Footprint {
		if !strings.Contains(text, "with the owner's consent: "+line+"\n") {
			t.Errorf("%q is not in the text", line)
		}
	}
	for _, what := range v.touched() {
		t.Errorf("touched: %s", what)
	}
}
