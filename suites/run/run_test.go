package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/clusters/local/localtest"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/scenarios"
)

func TestMain(m *testing.M) {
	clusters.Main(local.Provider{})
	Program{Providers: []clusters.Provider{local.Provider{}, refuser{}, hesitant{}}}.Main()
	os.Exit(m.Run())
}

// silent shows nothing.
type silent struct{}

func (silent) Says(string, string)     {}
func (silent) Begins(string, string)   {}
func (silent) Settled(string, Settled) {}
func (silent) Ended(string)            {}
func (silent) Fewer(int)               {}
func (silent) Close()                  {}

// interrupting interrupts a scenario in the middle.
type interrupting struct {
	silent
	cancel func()
}

func (i interrupting) Begins(string, string) { time.AfterFunc(3*time.Second, i.cancel) }

var shown = Show{Line: func(string, ...any) {}, Board: func(*Plan) (Board, error) { return silent{}, nil }}

const tiny = `
apiVersion: holdfast.dev/v1alpha1
kind: Scenario
metadata: {name: tiny}
spec:
  timeline:
  - action: {name: ready}
  - wait: 5s
  requirements:
  - {id: HA-TOP-002, judge: control-plane-complete}
`

// TestCarryOut runs a scenario on a cluster, and repeats it as if the machine had been overloaded
// the first time.
func TestCarryOut(t *testing.T) {
	spec := clusters.Default()
	spec.SetNodes(1)
	localtest.NeedClusters(t, spec)
	s, err := scenarios.Parse("tiny", []byte(tiny))
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	provider := local.Provider{}
	p := New(provider, spec, []*scenarios.Scenario{s}, 7, "test")
	if err := p.Divide(provider, 1); err != nil {
		t.Fatal(err)
	}
	v, err := p.CarryOut(t.Context(), provider, out, shown)
	if err != nil || p.Problem != "" || len(v.Results) == 0 {
		t.Fatalf("%+v, %v", p, err)
	}
	if one := p.Part(s); one.Made <= 0 || one.Took <= one.Made || one.Judging["tiny"] <= 0 {
		t.Errorf("%+v", one)
	}
	before := len(p.Parts)
	if err := p.again(t.Context(), provider, out, []string{"tiny"}, 1, OverloadedDir, shown); err != nil {
		t.Fatal(err)
	}
	first, err := record.Read(filepath.Join(out, OverloadedDir, "tiny"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := record.Read(record.Dir(out, "tiny"))
	if err != nil || !second.Meta.Started.After(first.Meta.Started.Add(time.Duration(first.EndAt))) {
		t.Fatalf("repeated at %v, after %v, %v", second.Meta.Started, first.Meta.Started, err)
	}
	if one := p.Part(s); len(p.Parts) != before+1 || one.Name != fmt.Sprintf("cluster-%d", before+1) || one.Took <= 0 || !slices.Equal(one.Scenarios, []string{"tiny"}) {
		t.Errorf("%+v", one)
	}
	if v = p.Judge(out); v.records["tiny"].Meta.Started != second.Meta.Started {
		t.Errorf("judged is the record of %v", v.records["tiny"].Meta.Started)
	}
	// A repetition that is interrupted leaves the whole record.
	ctx, cancel := context.WithCancel(t.Context())
	interrupted := Show{Line: shown.Line, Board: func(*Plan) (Board, error) { return interrupting{cancel: cancel}, nil }}
	if err := p.again(ctx, provider, out, []string{"tiny"}, 1, OverloadedDir, interrupted); err == nil {
		t.Error("the repetition was not interrupted")
	}
	if kept, err := record.Read(record.Dir(out, "tiny")); err != nil || !kept.Meta.Started.Equal(second.Meta.Started) || len(p.Unsettled(out)) != 0 {
		t.Errorf("the record is that of %v, want %v: %v", kept.Meta.Started, second.Meta.Started, err)
	}
	// A run with a truncated record, as after SIGKILL, continues with that scenario.
	if left := p.Unsettled(out); len(left) != 0 {
		t.Errorf("unsettled after a whole run: %v", left)
	}
	path := filepath.Join(record.Dir(out, "tiny"), record.FileName)
	if whole, err := os.Stat(path); err != nil || os.Truncate(path, whole.Size()/2) != nil {
		t.Fatalf("%v, %v", whole, err)
	}
	if p, err = Load(out); err != nil {
		t.Fatal(err)
	}
	if left := p.Unsettled(out); !slices.Equal(left, []string{"tiny"}) {
		t.Errorf("unsettled after its record was cut short: %v", left)
	}
	unlock, err := lock(out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Resume(t.Context(), provider, out, shown); !errors.Is(err, ErrBusy) {
		t.Errorf("resumed while another one runs: %v", err)
	}
	unlock()
	if v, err = p.Resume(t.Context(), provider, out, shown); err != nil || p.Problem != "" || len(p.Unsettled(out)) != 0 {
		t.Errorf("resumed: %+v, %v", p, err)
	}
	if third := v.records["tiny"]; third == nil || !third.Meta.Started.After(second.Meta.Started) {
		t.Error("the scenario whose record was cut short was not run again")
	}
	if left, err := filepath.Glob(filepath.Join(out, "data*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

const roles = `
apiVersion: holdfast.dev/v1alpha1
kind: Scenario
metadata: {name: roles}
spec:
  traffic: {off: true}
  timeline:
  - inject: {fault: kill, target: kcm/active, as: active, params: {restart: "true"}}
  - heal: active
  - inject: {fault: kill, target: etcd/leader, as: leader, params: {restart: "true"}}
  - heal: leader
  - wait: R + 2s
  requirements:
  - {id: HA-TOP-002, judge: control-plane-complete}
`

// TestVictims gives each node in turn the roles that faults look for. The instances that lose
// their roles do not exit in the middle of the experiment.
func TestVictims(t *testing.T) {
	spec := clusters.Default()
	localtest.NeedClusters(t, spec)
	s, err := scenarios.Parse("roles", []byte(roles))
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	provider := local.Provider{}
	p := New(provider, spec, InTurn(spec, []*scenarios.Scenario{s}, 3, nil), 7, "test")
	if err := p.Divide(provider, 1); err != nil {
		t.Fatal(err)
	}
	v, err := p.CarryOut(t.Context(), provider, out, shown)
	if err != nil || p.Problem != "" {
		t.Fatalf("%+v, %v", p, err)
	}
	for i, name := range []string{"node-1", "node-2", "node-3"} {
		seen := v.Record(fmt.Sprintf("roles-victim-%d", i+1))
		if seen == nil {
			t.Fatalf("no record for %s", name)
		}
		hit := 0
		for _, f := range seen.Faults {
			if f.V.Phase == record.FaultInjected {
				hit++
				if f.V.Node != name {
					t.Errorf("%s hit %s, not the victim, %s", f.V.ID, f.V.Node, name)
				}
			}
		}
		if hit != 2 {
			t.Errorf("%s: %d faults were injected", name, hit)
		}
		// An instance that lost the lease to the victim would exit at its renew deadline. On an
		// overloaded machine others may lose theirs too.
		if slices.Contains(Starved(v.Results), seen.Meta.Scenario) {
			continue
		}
		pids := map[string]int{}
		for _, one := range seen.Processes {
			if one.V.Component != "kube-controller-manager" || one.V.Node == name {
				continue
			}
			if pid, known := pids[one.V.Node]; known && pid != one.V.PID {
				t.Errorf("with victim %s the controller manager on %s ended: process %d, then %d (%s)", name, one.V.Node, pid, one.V.PID, one.V.LastExit)
			}
			pids[one.V.Node] = one.V.PID
		}
	}
	for _, r := range v.Results {
		if r.Verdict == judge.Fail {
			t.Errorf("%s in %s: %s", r.Requirement, r.Scenario, r.Sentence)
		}
	}
}

// A results directory is locked for one process at a time, until it is unlocked.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		unlock, err := lock(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lock(dir); !errors.Is(err, ErrBusy) {
			t.Errorf("locked twice: %v", err)
		}
		unlock()
	}
	if _, err := lock(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrBusy) {
		t.Errorf("locked a directory that does not exist: %v", err)
	}
}
