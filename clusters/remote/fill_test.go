package remote

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/agent"
	"github.com/holdfast-ha/holdfast/clusters/agenthttp"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
)

// fillNode returns a node with a fake agent that does what it is asked to, unless refuse is set.
func fillNode(t *testing.T, profile Profile, refuse *error, levels ...Level) *node {
	t.Helper()
	mux := http.NewServeMux()
	answer := func(pattern, said string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			if *refuse != nil {
				agenthttp.Error(w, *refuse)
				return
			}
			_ = json.NewEncoder(w).Encode(said)
		})
	}
	answer("GET /volume", "")
	answer("POST /fill", "handle-1")
	answer("POST /wipe", "handle-2")
	for _, verb := range []string{"unfill", "unwipe", "kill", "start", "freeze", "thaw", "crash-loop", "end-crash-loop", "spoil", "unspoil", "rejoin"} {
		answer("POST /"+verb, "")
	}
	socket := filepath.Join(t.TempDir(), "agent.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	c := &Cluster{Observed: &Observed{spec: clusters.Default()}, consent: Consent{Expires: time.Now().Add(time.Hour), Levels: levels},
		broken: broken{groups: groupsOf([]string{"node-1", "node-2", "node-3"}, nil)}}
	n := &node{plain: &plain{spec: clusters.Node{Name: "node-1"}}, Client: agent.NewLocalClient("node-1", socket), cluster: c,
		found: &found{profile: profile, sight: &sight{}, processes: map[framework.Component]process{framework.Etcd: {args: []string{"etcd"}}, framework.APIServer: {}}}}
	t.Cleanup(n.Close)
	return n
}

// TestFillDisk: a member without space counts as broken until it has some again, and one whose
// volume must not be filled does not.
func TestFillDisk(t *testing.T) {
	var refuse error
	n := fillNode(t, Profile{}, &refuse, Processes, Data)
	second := func() error { return n.cluster.breaks("second", []string{"node-2"}, time.Hour) }
	refuse = agenthttp.Unsupported("/var/lib/kubelet is on it as well")
	for _, err := range []error{n.CheckFill(t.Context()), func() error { _, err := n.FillDisk(t.Context(), 0, time.Hour); return err }()} {
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "/var/lib/kubelet is on it as well") {
			t.Errorf("on a shared file system: %v", err)
		}
	}
	if err := second(); err != nil {
		t.Errorf("it counts as broken: %v", err)
	}
	n.cluster.broken.mend("second")

	refuse = nil
	if err := n.CheckFill(t.Context()); err != nil {
		t.Error(err)
	}
	handle, err := n.FillDisk(t.Context(), 0, time.Hour)
	if err != nil || handle != "handle-1" {
		t.Fatalf("%q, %v", handle, err)
	}
	if err := second(); !errors.Is(err, ErrNoConsent) || !strings.Contains(err.Error(), string(QuorumLoss)) {
		t.Errorf("while the volume of node-1 is full, node-2 can be broken as well: %v", err)
	}
	if err := n.EmptyDisk(t.Context(), handle); err != nil {
		t.Fatal(err)
	}
	if err := second(); err != nil {
		t.Errorf("node-1 has space again: %v", err)
	}
}

// TestFillDiskRefused: the level data is required, and a process of etcd's own.
func TestFillDiskRefused(t *testing.T) {
	one := ProfileComponent{Name: framework.Etcd, Command: "k3s", Group: "all"}
	other := one
	other.Name = framework.APIServer
	var refuse error
	for why, n := range map[string]*node{
		`to the level "data"`:                             fillNode(t, Profile{}, &refuse, Processes, Network, Power, QuorumLoss),
		"its etcd shares a process with other components": fillNode(t, Profile{Components: []ProfileComponent{one, other}}, &refuse, Processes, Data),
	} {
		_, fill := n.FillDisk(t.Context(), 0, time.Hour)
		for _, err := range []error{n.CheckFill(t.Context()), fill} {
			if !errors.As(err, new(*fault.MissingAbility)) || !errors.Is(err, framework.ErrNothingDone) || !strings.Contains(err.Error(), why) {
				t.Errorf("%v, want %q", err, why)
			}
		}
	}
}

// TestPromiseOfQuorum: what may cost the quorum takes consent to that and to what it changes.
func TestPromiseOfQuorum(t *testing.T) {
	var refuse error
	for want, levels := range map[bool][][]Level{true: {{Data, QuorumLoss}}, false: {{Data}, {QuorumLoss}}} {
		for _, l := range levels {
			err := fillNode(t, Profile{}, &refuse, l...).cluster.CheckPromise(framework.Undoing{Fault: "add-member", Quorum: true})
			if (err == nil) != want || err != nil && !errors.Is(err, ErrNoConsent) {
				t.Errorf("consent to %s: %v", l, err)
			}
		}
	}
}

// TestHealAfterConsent: faults are healed after the consent has expired.
func TestHealAfterConsent(t *testing.T) {
	var refuse error
	n := fillNode(t, Profile{}, &refuse, Processes, Data)
	handle, err := n.FillDisk(t.Context(), 0, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	n.cluster.consent.Expires = time.Now()
	for what, err := range map[string]error{
		"disk":    n.EmptyDisk(t.Context(), handle),
		"member":  n.RejoinEtcd(t.Context(), nil),
		"process": n.Start(t.Context(), framework.APIServer),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := n.FillDisk(t.Context(), 0, time.Hour); !errors.Is(err, ErrNoConsent) {
		t.Errorf("another fault: %v", err)
	}
	// Nor does what else is broken keep a removed member from joining again.
	if err := n.cluster.broken.add("c", "another", []string{"node-2"}, time.Hour, true); err != nil {
		t.Fatal(err)
	}
	if err := n.RejoinEtcd(t.Context(), nil); err != nil {
		t.Errorf("beside another broken node: %v", err)
	}
}
