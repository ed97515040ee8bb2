package judge

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// recordLines are the lines of a record as docs/record.md describes them.
func recordLines(t *testing.T, run *record.Run) [][]byte {
	t.Helper()
	var entries []record.Entry
	add := func(at record.Nanos, kind record.Kind, v any) {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, record.Entry{At: at, Kind: kind, Data: data})
	}
	addTimed(add, record.KindSteady, run.Steadies)
	addTimed(add, record.KindHarness, run.Harness)
	addTimed(add, record.KindOp, run.Ops)
	addTimed(add, record.KindFault, run.Faults)
	addTimed(add, record.KindEndpoints, run.Endpoints)
	addTimed(add, record.KindEtcd, run.Etcd)
	slices.SortStableFunc(entries, func(a, b record.Entry) int { return cmp.Compare(a.At, b.At) })
	add(run.EndAt, record.KindEnd, record.End{})
	meta, err := json.Marshal(run.Meta)
	if err != nil {
		t.Fatal(err)
	}
	entries = slices.Insert(entries, 0, record.Entry{Kind: record.KindMeta, Data: meta})

	crc := func(b []byte) []byte {
		return fmt.Appendf(nil, "%08x", crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	}
	var lines [][]byte
	sum := crc([]byte(run.Meta.Run))
	for _, e := range entries {
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		sum = crc(slices.Concat(sum, text))
		lines = append(lines, slices.Concat(sum, []byte(" "), text, []byte("\n")))
	}
	return lines
}

func addTimed[T any](add func(record.Nanos, record.Kind, any), kind record.Kind, list []record.Timed[T]) {
	for _, e := range list {
		add(e.At, kind, e.V)
	}
}

// recordFile compresses and seals lines.
func recordFile(t *testing.T, lines ...[]byte) []byte {
	t.Helper()
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(256<<10))
	if err != nil {
		t.Fatal(err)
	}
	data := enc.EncodeAll(bytes.Join(lines, nil), nil)
	sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	data = append(data, 0x5c, 0x2a, 0x4d, 0x18, 4, 0, 0, 0)
	return binary.LittleEndian.AppendUint32(data, sum)
}

// judgeFile evaluates a record's file; nil means that it was refused.
func judgeFile(data []byte) []Result {
	r, err := record.NewReader(bytes.NewReader(data), "r")
	if err != nil {
		return nil
	}
	defer r.Close()
	run, err := record.Gather(r)
	if err != nil {
		return nil
	}
	return Evaluate(run)
}

// whole is a record with a check for every judge, many of which pass.
func whole(run string) *story {
	s := newStory().fault("kill", "kill", "node-2", "kube-apiserver", 10, 50).traffic("node-1", 1, 4)
	for _, at := range []float64{5, 55} {
		s.at(at).endpoints("node-1", "10.77.0.11", "10.77.0.12", "10.77.0.13")
	}
	s.at(25).endpoints("node-1", "10.77.0.11", "10.77.0.13")
	for t := range 5 {
		s.at(float64(t)).etcd("node-1", "m1", 2).etcd("node-2", "m1", 2).etcd("node-3", "m1", 2)
	}
	s.run.Meta.Run = run
	s.run.Meta.Checks = []record.Check{removal}
	for i, name := range Names() {
		s.run.Meta.Checks = append(s.run.Meta.Checks, record.Check{Requirement: fmt.Sprintf("HA-%03d", i), Level: "MUST",
			Judge: name, Bound: "T + I + M", Fault: "kill"})
	}
	return s
}

// Whatever happens to a record's lines or to its file, it earns no pass.
func TestDamagedRecordNeverPasses(t *testing.T) {
	lines := recordLines(t, whole("r1").run)
	other := recordLines(t, whole("r2").run)
	file := recordFile(t, lines...)

	passes := map[string]bool{}
	for _, r := range judgeFile(file) {
		if r.Verdict == Pass {
			passes[r.Judge] = true
		}
	}
	for _, name := range []string{"endpoint-removed", "endpoint-returned", "endpoints-match", "linearizable", "steady-state", "one-leader-per-term", "harness"} {
		if !passes[name] {
			t.Errorf("judge %s does not pass the undamaged record, so this test says nothing of it", name)
		}
	}

	tried := 0
	earnsNothing := func(data []byte, format string, args ...any) {
		t.Helper()
		tried++
		for _, r := range judgeFile(data) {
			if r.Verdict == Pass {
				t.Errorf("%s: %s (%s) passes: %s", fmt.Sprintf(format, args...), r.Requirement, r.Judge, r.Sentence)
			}
		}
	}
	changed := func(change func(lines [][]byte) [][]byte) []byte {
		return recordFile(t, change(slices.Clone(lines))...)
	}
	for i := range lines {
		earnsNothing(recordFile(t, lines[:i]...), "cut off behind line %d", i)
		earnsNothing(changed(func(l [][]byte) [][]byte { return slices.Delete(l, i, i+1) }), "line %d left out", i+1)
		earnsNothing(changed(func(l [][]byte) [][]byte { return slices.Insert(l, i, l[i]) }), "line %d twice", i+1)
		earnsNothing(changed(func(l [][]byte) [][]byte { return slices.Insert(l, i, other[i]) }), "line %d of another record put in", i+1)
		earnsNothing(changed(func(l [][]byte) [][]byte { l[i] = other[i]; return l }), "line %d of another record in its place", i+1)
		if i > 0 { // else it is the other record, and whole
			earnsNothing(changed(func(l [][]byte) [][]byte { return append(l[:i], other[i:]...) }), "from line %d on another record", i+1)
		}
		earnsNothing(changed(func(l [][]byte) [][]byte { return append(l, other[i]) }), "line %d of another record behind the end", i+1)
		earnsNothing(changed(func(l [][]byte) [][]byte {
			l[i] = bytes.Clone(l[i])
			l[i][i*7%len(l[i])] ^= 1 << (i % 8)
			return l
		}), "a bit of line %d flipped", i+1)
		if j := i + 1; j < len(lines) {
			earnsNothing(changed(func(l [][]byte) [][]byte { l[i], l[j] = l[j], l[i]; return l }), "lines %d and %d swapped", i+1, j+1)
		}
	}
	for i := 0; i < len(file); i += 3 {
		flipped := bytes.Clone(file)
		flipped[i] ^= 1 << (i % 8)
		earnsNothing(flipped, "a bit of byte %d of the file flipped", i)
		earnsNothing(file[:i], "the file cut to %d bytes", i)
	}
	earnsNothing(slices.Concat(file, []byte("garbage")), "garbage behind the file")
	earnsNothing(slices.Concat(file, recordFile(t, other...)), "another file behind the file")
	earnsNothing(slices.Concat(file, file), "the file twice")
	earnsNothing(bytes.Join(lines, nil), "not compressed")
	earnsNothing(nil, "an empty file")
	t.Logf("%d damaged records of %d lines, %d bytes", tried, len(lines), len(file))
}
