package record

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func testMeta() Meta {
	return Meta{
		Run: "run-1", Scenario: "etcd-leader-killed", Seed: 7, Harness: "v0",
		Nodes:     []Node{{Name: "node-1", Address: "10.77.0.11", Components: []string{"etcd"}}},
		Entrances: []string{"balancer", "node-1"},
		Settings:  map[string]time.Duration{"E": time.Second},
		Checks:    []Check{{Requirement: "HA-QR-005", Level: "MUST", Judge: "write-gap", Bound: "2E + M", Fault: "kill"}},
	}
}

// writeAll writes one entry of every kind.
func writeAll(t *testing.T, dir string) {
	t.Helper()
	w, err := Create(dir, testMeta())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []struct {
		kind Kind
		v    any
	}{
		{KindPhase, Phase{Name: "baseline"}},
		{KindSteady, Steady{Phase: "before", OK: true}},
		{KindOp, Op{Client: "c1", Entrance: "node-1", API: "kubernetes", Type: OpCreate, Key: "k", Value: "<v&1>", Outcome: OK, Call: 1, Return: 2}},
		{KindProbe, &Probe{Entrance: "balancer", OK: true, Status: 200}},
		{KindEndpoints, Endpoints{Source: "endpoints", Addresses: []string{"10.77.0.11"}}},
		{KindLease, Lease{Name: "kube-scheduler", Holder: "node-1_x"}},
		{KindEtcd, EtcdStatus{Node: "node-1", OK: true, Term: 2}},
		{KindProcess, ProcessState{Node: "node-1", Component: "etcd", PID: 9}},
		{KindFault, Fault{ID: "kill", Phase: FaultInjected, Proven: true}},
		{KindHarness, Harness{Late: time.Millisecond}},
		{KindAction, Action{Component: "kube-scheduler", Node: "node-1", Verb: "create"}},
		{KindBackend, &Backend{Name: "node-1", Up: true}},
		{KindNode, NodeChange{Name: "fourth", Phase: NodeAdded, Node: Node{Name: "node-4"}}},
		{KindStep, Step{Change: "fourth", Node: "node-4", Name: "promote etcd member", Began: 1, Done: 2}},
		{KindSession, &Session{Client: "harness", Member: "8e9e05c52164694d"}},
	} {
		if err := w.Append(e.kind, e.v); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(End{}); err != nil {
		t.Fatal(err)
	}
}

func TestRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "record")
	writeAll(t, dir)
	run, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !run.Complete || run.Problem != "" {
		t.Fatalf("complete %v, problem %q", run.Complete, run.Problem)
	}
	if run.Meta.Version != Version || run.Meta.Started.IsZero() || run.Meta.Checks[0].Bound != "2E + M" {
		t.Errorf("meta: %+v", run.Meta)
	}
	if got := run.Ops[0].V; got.Value != "<v&1>" || got.Call != 1 {
		t.Errorf("op: %+v", got)
	}
	for i, n := range []int{len(run.Ops), len(run.Probes), len(run.Endpoints), len(run.Leases), len(run.Etcd),
		len(run.Processes), len(run.Faults), len(run.Steadies), len(run.Phases), len(run.Harness), len(run.Actions), len(run.Backends), len(run.Nodes)} {
		if n != 1 {
			t.Errorf("list %d holds %d entries, want 1", i, n)
		}
	}
}

func TestCreateNeverOverwrites(t *testing.T) {
	dir := t.TempDir()
	writeAll(t, dir)
	_, err := Create(dir, testMeta())
	if !errors.Is(err, os.ErrExist) || !strings.Contains(err.Error(), FileName) {
		t.Fatalf("error %v", err)
	}
}

func TestCreateNeedsRun(t *testing.T) {
	dir := t.TempDir()
	if _, err := Create(dir, Meta{}); err == nil || !strings.Contains(err.Error(), "names no run") {
		t.Fatalf("error %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, FileName)); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("a file is left: %v", err)
	}
}

func TestConcurrentAppend(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(dir, testMeta())
	if err != nil {
		t.Fatal(err)
	}
	const clients, each = 8, 500
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := range each {
				if err := w.Append(KindOp, Op{Client: fmt.Sprint(c), Value: strings.Repeat("x", i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := w.Close(End{}); err != nil {
		t.Fatal(err)
	}
	run, err := Read(dir)
	if err != nil || !run.Complete || len(run.Ops) != clients*each {
		t.Fatalf("error %v, problem %q, %d operations", err, run.Problem, len(run.Ops))
	}
}

// A harness that is killed loses at most what it appended last.
func TestFlushedWithoutClose(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(dir, testMeta())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close(End{})
	if err := w.Append(KindPhase, Phase{Name: "fault"}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		run, err := Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(run.Phases) == 1 {
			if run.Complete || !strings.Contains(run.Problem, "line 3: the record ends here without an end entry") {
				t.Fatalf("complete %v, problem %q", run.Complete, run.Problem)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the entry is not in the file 10 s after Append")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestWriterErrors(t *testing.T) {
	t.Run("after Close", func(t *testing.T) {
		w, err := Create(t.TempDir(), testMeta())
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.Close(End{}), w.Close(End{})); err != nil {
			t.Fatal(err)
		}
		if err := w.Append(KindPhase, Phase{}); !errors.Is(err, ErrClosed) {
			t.Fatalf("error %v", err)
		}
	})
	t.Run("wrong type", func(t *testing.T) {
		dir := t.TempDir()
		w, err := Create(dir, testMeta())
		if err != nil {
			t.Fatal(err)
		}
		err = w.Append(KindOp, Probe{})
		if err == nil || !strings.Contains(err.Error(), "cannot hold a record.Probe") {
			t.Fatalf("error %v", err)
		}
		if again := w.Close(End{}); again != err {
			t.Fatalf("Close returned %v, want %v", again, err)
		}
		run, err := Read(dir)
		if err != nil || !strings.Contains(run.End.Error, "cannot hold") {
			t.Fatalf("error %v, end %+v: a lost entry must not look like a full run", err, run.End)
		}
	})
	t.Run("disk full from the start", func(t *testing.T) {
		_, err := newWriter(devFull(t), "results/record.jsonl.zst", testMeta())
		checkFull(t, err)
	})
	t.Run("disk full later", func(t *testing.T) {
		out := &failing{after: 1}
		w, err := newWriter(out, "results/record.jsonl.zst", testMeta())
		if err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(10 * time.Second); err == nil && time.Now().Before(deadline); {
			err = w.Append(KindPhase, Phase{Name: "x"})
			time.Sleep(time.Millisecond)
		}
		checkFull(t, err)
		checkFull(t, w.Close(End{}))
	})
}

func devFull(t *testing.T) *os.File {
	t.Helper()
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func checkFull(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "results/record.jsonl.zst") || !strings.Contains(err.Error(), "make room") {
		t.Fatalf("error %v", err)
	}
}

// failing is a file on a disk that fills up after some writes.
type failing struct {
	bytes.Buffer
	after int
}

func (f *failing) Write(p []byte) (int, error) {
	if f.after--; f.after < 0 {
		return 0, syscall.ENOSPC
	}
	return f.Buffer.Write(p)
}
func (f *failing) Sync() error  { return nil }
func (f *failing) Close() error { return nil }

func TestClock(t *testing.T) {
	w, err := Create(t.TempDir(), testMeta())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close(End{})
	before := w.Now()
	since := w.Since(time.Now())
	if after := w.Now(); since < before || since > after {
		t.Errorf("Since gave %d, not between %d and %d", since, before, after)
	}
	if got := w.Since(w.start.Add(time.Second)); got != Nanos(time.Second) {
		t.Errorf("Since gave %d", got)
	}
}

func TestKindsAreComplete(t *testing.T) {
	// Every list of Run is filled by some kind, and no kind is forgotten. Probes fill three,
	// actions and changes of nodes two each.
	n := -4
	for f := range reflect.TypeFor[Run]().Fields() {
		if f.Type.Kind() == reflect.Slice {
			n++
		}
	}
	for _, r := range table {
		if r.typ == nil {
			continue
		}
		if err := new(Run).add(Entry{Kind: r.kind, Data: []byte("{}")}); err != nil {
			t.Error(err)
		}
		n--
	}
	if n != 0 {
		t.Errorf("Run has %d lists too many", n)
	}
}

func kindOf(t *testing.T, v any) Kind {
	t.Helper()
	for _, r := range table {
		if r.holds(v) {
			return r.kind
		}
	}
	t.Fatalf("no kind for %T", v)
	return ""
}
