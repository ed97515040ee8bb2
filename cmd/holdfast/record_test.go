package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// mkrecord writes a record: mkrecord DIR whole|cut|changed|old|running [PLAN]. An old one has the
// format before this one, and is of the release v0.9.0. The fault is at 600 ms or later. With a
// plan the record belongs to that run, and has the checks of its first scenario.
func mkrecord(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: mkrecord DIR whole|cut|changed|old|running [PLAN]")
	}
	dir := ts.MkAbs(args[0])
	meta := record.Meta{Run: "r1", Scenario: filepath.Base(dir), Seed: 7}
	if args[1] == "old" {
		meta.Harness = "v0.9.0"
	}
	if len(args) == 3 {
		p, err := run.Load(filepath.Dir(ts.MkAbs(args[2])))
		ts.Check(err)
		meta.Run, meta.Checks = p.Run, p.Scenarios[0].Experiment().Checks
	}
	w, err := record.Create(dir, meta)
	ts.Check(err)
	ts.Check(w.Append(record.KindPhase, record.Phase{Name: "baseline"}))
	op := record.Op{Client: "c1", Entrance: "node-1", API: "kubernetes", Type: record.OpCreate, Key: "k1", Value: "<v1>", Revision: "5", Return: 2e6, Outcome: record.OK}
	ts.Check(w.Append(record.KindOp, op))
	op.Client, op.Entrance, op.Key = "c2", "balancer", "k2"
	ts.Check(w.Append(record.KindOp, op))
	time.Sleep(600 * time.Millisecond)
	ts.Check(w.Append(record.KindFault, record.Fault{ID: "kill", Name: "kill", Target: "etcd/leader", Node: "node-1", Phase: record.FaultInjected, Proven: true, Proof: "gone"}))
	if args[1] == "running" {
		for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			if run, err := record.Read(dir); err == nil && len(run.Faults) > 0 {
				break // it is complete
			}
		}
		ts.Defer(func() { _ = w.Close(record.End{}) })
		return
	}
	ts.Check(w.Close(record.End{}))
	path := filepath.Join(dir, record.FileName)
	data, err := os.ReadFile(path)
	ts.Check(err)
	switch args[1] {
	case "cut":
		data = data[:len(data)-30]
	case "changed":
		data[len(data)-1] ^= 1
	case "old":
		data = inOldFormat(ts, data)
	}
	ts.Check(os.WriteFile(path, data, 0o644))
}

// inOldFormat returns the file of a record as if its format were the one before.
func inOldFormat(ts *testscript.TestScript, data []byte) []byte {
	in, err := zstd.NewReader(bytes.NewReader(data))
	ts.Check(err)
	defer in.Close()
	lines, err := io.ReadAll(in)
	ts.Check(err)
	before := fmt.Appendf(nil, `"version":%d,`, record.Version)
	if !bytes.Contains(lines, before) {
		ts.Fatalf("the record does not begin with its version: %s", lines[:min(len(lines), 200)])
	}
	out, err := zstd.NewWriter(nil)
	ts.Check(err)
	defer out.Close()
	return out.EncodeAll(bytes.Replace(lines, before, fmt.Appendf(nil, `"version":%d,`, record.Version-1), 1), nil)
}

// Following prints a record that grows, until it ends.
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	w, err := record.Create(dir, record.Meta{Run: "r1"})
	if err != nil {
		t.Fatal(err)
	}
	in, out := io.Pipe()
	printed := make(chan error, 1)
	go func() {
		p := recordPrinter{filter: &record.Filter{}, follow: true}
		printed <- p.print(t.Context(), dir, out)
		out.Close()
	}()
	lines := bufio.NewScanner(in)
	next := func(want string) {
		t.Helper()
		if !lines.Scan() || !strings.Contains(lines.Text(), want) {
			t.Fatalf("printed %q, want %q", lines.Text(), want)
		}
	}
	next("of run r1")
	for i := range 5 { // each is printed before the next is written
		if err := w.Append(record.KindPhase, record.Phase{Name: fmt.Sprint("phase-", i)}); err != nil {
			t.Fatal(err)
		}
		next(fmt.Sprint("phase-", i, " begins"))
	}
	if err := w.Close(record.End{}); err != nil {
		t.Fatal(err)
	}
	next("ended as planned")
	if err := <-printed; err != nil || lines.Scan() {
		t.Fatalf("error %v, and then %q", err, lines.Text())
	}
}

// Following exits without an error when the user interrupts it.
func TestFollowInterrupted(t *testing.T) {
	dir := t.TempDir()
	w, err := record.Create(dir, record.Meta{Run: "r1"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close(record.End{})
	ctx, stop := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, stop)
	p := recordPrinter{filter: &record.Filter{}, follow: true}
	if err := p.print(ctx, dir, io.Discard); err != nil {
		t.Fatal(err)
	}
}
