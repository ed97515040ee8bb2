package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func sample(t testing.TB) []byte {
	t.Helper()
	var out failing
	out.after = 1 << 30
	w, err := newWriter(&out, "r", testMeta())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if err := w.Append(KindOp, Op{Client: "c", Key: "k", Value: fmt.Sprint("v", i), Outcome: OK}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(End{}); err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(out.Bytes())
}

func gatherBytes(data []byte) (*Run, error) {
	r, err := NewReader(bytes.NewReader(data), "r")
	if err != nil {
		return nil, err
	}
	return Gather(r)
}

// pack makes a whole and sealed file of lines.
func pack(t testing.TB, plain []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	p, err := newPacker(&out)
	if err == nil {
		_, err = p.Write(plain)
	}
	if err := errors.Join(err, p.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// unpack returns the lines of a file.
func unpack(t testing.TB, data []byte) []byte {
	t.Helper()
	u, err := newUnpacker(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer u.dec.Close()
	plain, err := io.ReadAll(u)
	if err := errors.Join(err, u.checkSeal()); err != nil {
		t.Fatal(err)
	}
	return plain
}

func lines(data []byte) [][]byte { return bytes.SplitAfter(bytes.TrimSuffix(data, nil), []byte("\n")) }

// resum gives every line the checksum for its place, as someone who edits a record on purpose
// would.
func resum(run string, texts ...string) []byte {
	var out []byte
	sum := seedSum(run)
	for _, text := range texts {
		sum = sum.next([]byte(text))
		out = fmt.Appendf(out, "%s %s\n", sum[:], text)
	}
	return out
}

const metaText = `{"t":0,"k":"meta","d":{"version":3,"run":"r1"}}`

func TestDamage(t *testing.T) {
	data := unpack(t, sample(t))
	ls := lines(data) // meta, 4 operations, end, ""
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	other := lines(resum("run-2", metaText, `{"t":1,"k":"op","d":{"client":"x"}}`))

	for _, tt := range []struct {
		name    string
		data    []byte
		ops     int
		problem string
	}{
		{"last line cut", data[:len(data)-3], 4, "line 6: the line is cut off after"},
		{"newline missing", data[:len(data)-1], 4, "line 6: the line is cut off after"},
		{"no end", join(ls[:5]...), 4, "line 6: the record ends here without an end entry"},
		{"meta only", ls[0], 0, "line 2: the record ends here without an end entry"},
		{"two lines swapped", join(ls[0], ls[1], ls[3], ls[2], ls[4], ls[5]), 1, "line 3: the checksum is"},
		{"a line left out", join(ls[0], ls[1], ls[3], ls[4], ls[5]), 1, "line 3: the checksum is"},
		{"a line twice", join(ls[0], ls[1], ls[1], ls[2]), 1, "line 3: the checksum is"},
		{"a line of another record", join(ls[0], ls[1], other[1], ls[2]), 1, "line 3: the checksum is"},
		{"something after the end", join(data, ls[1]), 4, "line 7: there is an entry after the end entry"},
		{"empty line", join(ls[0], []byte("\n"), ls[1]), 0, "line 2: the line does not begin with a checksum"},
		{"binary", join(ls[0], bytes.Repeat([]byte{0}, 100), []byte("\n")), 0, "line 2: the line does not begin with a checksum"},
		{"run renamed", bytes.Replace(data, []byte("run-1"), []byte("run-2"), 1), 0, "line 1: the checksum is"},
		{"value changed", bytes.Replace(data, []byte(`"v2"`), []byte(`"v9"`), 1), 2, "line 4: the checksum is"},
		{"unknown kind", resum("r1", metaText, `{"t":1,"k":"mood","d":{}}`), 0, `line 2: entries of kind "mood" are unknown`},
		{"second meta", resum("r1", metaText, metaText), 0, "line 2: there is a second meta entry"},
		{"time goes back", resum("r1", metaText, `{"t":5,"k":"op","d":{}}`, `{"t":4,"k":"op","d":{}}`), 1, "line 3: time goes back from 5 to 4"},
		{"no data", resum("r1", metaText, `{"t":5,"k":"op"}`), 0, "line 2: the entry holds no data"},
		{"wrong data", resum("r1", metaText, `{"t":5,"k":"op","d":{"call":"soon"}}`), 0, "line 2: the entry's data does not fit its kind"},
		{"an object without its state", resum("r1", metaText, `{"t":5,"k":"op","d":{}}`, `{"t":5,"k":"object","d":{"kind":"Pod","name":"pod-1","uid":"u","node":{"ready":"True"}}}`), 1,
			`line 3: the Pod "pod-1" has no state`},
		{"not JSON", resum("r1", metaText, `{"t":5,`), 0, "line 2: not an entry"},
		{"wrong end", resum("r1", metaText, `{"t":5,"k":"end","d":7}`), 0, "line 2: the entry's data does not fit its kind"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run, err := gatherBytes(pack(t, tt.data))
			if err != nil {
				t.Fatal(err)
			}
			if run.Complete || !strings.HasPrefix(run.Problem, tt.problem) || len(run.Ops) != tt.ops {
				t.Fatalf("complete %v, %d operations (want %d), problem %q (want %q)",
					run.Complete, len(run.Ops), tt.ops, run.Problem, tt.problem)
			}
		})
	}
}

func TestEveryBitCounts(t *testing.T) {
	data := sample(t)
	for i := range data {
		for bit := range 8 {
			flipped := bytes.Clone(data)
			flipped[i] ^= 1 << bit
			if run, err := gatherBytes(flipped); err == nil && run.Complete {
				t.Fatalf("bit %d of byte %d flipped: the record still counts as complete", bit, i)
			}
		}
	}
	// The checksums of the lines detect what the compression cannot.
	plain := unpack(t, data)
	for i := range plain {
		flipped := bytes.Clone(plain)
		flipped[i] ^= 1 << (i % 8)
		if run, err := gatherBytes(pack(t, flipped)); err == nil && run.Complete {
			t.Fatalf("byte %d of the lines changed: the record still counts as complete", i)
		}
	}
}

func TestEveryLengthCounts(t *testing.T) {
	data := sample(t)
	for n := range data {
		if run, err := gatherBytes(data[:n]); err == nil && (run.Complete || run.Problem == "") {
			t.Fatalf("cut to %d bytes: the record still counts as complete", n)
		}
	}
	plain := unpack(t, data)
	for n := range plain {
		if run, err := gatherBytes(pack(t, plain[:n])); err == nil && (run.Complete || run.Problem == "") {
			t.Fatalf("the lines cut to %d bytes: the record still counts as complete", n)
		}
	}
}

// A file's content other than lines, and files that only look like a record.
func TestDamagedFile(t *testing.T) {
	data := sample(t)
	plain := unpack(t, data)
	frame := data[:len(data)-sealLen]
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	for _, tt := range []struct {
		name    string
		data    []byte
		ops     int
		problem string
	}{
		{"no seal", frame, 4, "line 6: the file does not end with a seal"},
		{"half a seal", data[:len(data)-5], 4, "line 6: the file does not end with a seal"},
		{"seal of another file", join(frame, sealOf(7)), 4, "line 6: the seal does not match the file's bytes"},
		{"cut inside the frame", data[:len(data)/2], -1, ""},
		{"garbage after the end", join(data, []byte("garbage, and more of it")), 4, "line 7: this is not a file of holdfast"},
		{"one byte after the end", join(data, []byte{0}), 4, "line 6: the file does not end with a seal"},
		{"zeros after the end", join(data, make([]byte, 4096)), 4, "line 7: "},
		{"an empty skippable frame after the end", join(data, []byte("\x50\x2a\x4d\x18\x00\x00\x00\x00")), 4, "line 6: the file does not end with a seal"},
		{"an empty record after the end", join(data, pack(t, nil)), 4, "line 6: the seal does not match"},
		{"the same record after the end", join(data, data), 4, "line 7: there is an entry after the end entry"},
		{"lines of another compression level", zstdOf(t, plain, zstd.SpeedBestCompression), 4, "line 6: the file does not end with a seal"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run, err := gatherBytes(tt.data)
			if err != nil {
				if tt.ops < 0 {
					return
				}
				t.Fatal(err)
			}
			if run.Complete || !strings.HasPrefix(run.Problem, tt.problem) || tt.ops >= 0 && len(run.Ops) != tt.ops {
				t.Fatalf("complete %v, %d operations (want %d), problem %q (want %q)",
					run.Complete, len(run.Ops), tt.ops, run.Problem, tt.problem)
			}
		})
	}
}

func zstdOf(t testing.TB, plain []byte, level zstd.EncoderLevel, more ...zstd.EOption) []byte {
	t.Helper()
	enc, err := zstd.NewWriter(nil, append(more, zstd.WithEncoderLevel(level))...)
	if err != nil {
		t.Fatal(err)
	}
	return enc.EncodeAll(plain, nil)
}

// Small files that expand a lot do not fill the memory.
func TestBombs(t *testing.T) {
	var bomb bytes.Buffer
	enc, err := zstd.NewWriter(&bomb, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window))
	if err != nil {
		t.Fatal(err)
	}
	first := resum("r1", metaText)
	if _, err := enc.Write(first); err != nil {
		t.Fatal(err)
	}
	chunk := bytes.Repeat([]byte{' '}, 1<<20)
	for range 256 {
		if _, err := enc.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	if err := enc.Close(); err != nil {
		t.Fatal(err)
	}
	wide := zstdOf(t, append(bytes.Clone(first), make([]byte, 32<<20)...), zstd.SpeedFastest, zstd.WithWindowSize(32<<20))
	for _, tt := range []struct {
		name string
		data []byte
		want string
	}{
		{"256 MiB without a line feed", bomb.Bytes(), "line 2: the line is longer than 16 MiB"},
		{"a window of 32 MiB", wide, "line 1: the compressed data is damaged: window size exceeded"},
		{"a window of 1 TiB", []byte("\x28\xb5\x2f\xfd\x04\xf0" + strings.Repeat("x", 100)), "line 1: the compressed data is damaged: window size exceeded"},
		{"16 EiB in one segment", []byte("\x28\xb5\x2f\xfd\xe4" + strings.Repeat("\xff", 100)), "line 1: the compressed data is damaged"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			run, err := gatherBytes(tt.data)
			runtime.ReadMemStats(&after)
			said := ""
			if err != nil {
				said = err.Error()
			} else {
				said = run.Problem
			}
			if !strings.Contains(said, tt.want) {
				t.Errorf("it says %q, want %q", said, tt.want)
			}
			// In all, and a line of 16 MiB grows by doubling.
			if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 100 {
				t.Errorf("%d KiB of file took %d MiB", len(tt.data)>>10, used)
			}
		})
	}
}

// A record of many lines that all fit is not gathered without a limit.
func TestGatherLimit(t *testing.T) {
	for _, tt := range []struct {
		limit    int64
		complete bool
	}{{500, false}, {10000, true}} {
		r, err := NewReader(bytes.NewReader(sample(t)), "r")
		if err != nil {
			t.Fatal(err)
		}
		run, err := gather(r, tt.limit)
		if err != nil {
			t.Fatal(err)
		}
		if run.Complete != tt.complete || tt.complete != (run.Problem == "") {
			t.Errorf("limit %d: complete %v, problem %q", tt.limit, run.Complete, run.Problem)
		}
	}
}

func TestRefused(t *testing.T) {
	packed := func(plain []byte) string { return string(pack(t, plain)) }
	for _, tt := range []struct{ name, data, want string }{
		{"empty", "", "line 1: the record is empty"},
		{"no lines", string(pack(t, nil)), "line 1: the record is empty"},
		{"not compressed", string(resum("r1", metaText)), "line 1: this is not a file of holdfast: it is not compressed with zstd"},
		{"one byte", "\x28", "line 1: the record is empty"},
		{"another version", packed(resum("r1", `{"t":0,"k":"meta","d":{"version":1,"run":"r1","harness":"v9"}}`)), "format version 1, this program reads version 3"},
		{"no meta", packed(resum("r1", `{"t":0,"k":"op","d":{}}`)), `the first entry is "op"`},
		{"something else", packed([]byte("hello, world\n")), "line 1: the line does not begin"},
		{"endless line", packed(bytes.Repeat([]byte("x"), maxLine+100<<10)), "longer than 16 MiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := gatherBytes([]byte(tt.data))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want %q", err, tt.want)
			}
		})
	}
	_, err := Read(filepath.Join(t.TempDir(), "nothing"))
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), FileName) {
		t.Fatalf("error %v", err)
	}
}

func TestNextKeepsItsError(t *testing.T) {
	r, err := NewReader(bytes.NewReader(sample(t)), "r")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for ; err == nil; n++ {
		_, err = r.Next()
	}
	if _, again := r.Next(); n != 6 || !errors.Is(err, io.EOF) || again != err {
		t.Fatalf("%d calls, then %v, then %v", n, err, again)
	}
}

// A packed record has the same entries, in a smaller file that is sealed as the first one was; what
// is not whole is refused.
func TestPack(t *testing.T) {
	texts := make([]string, 3000)
	for i := range texts {
		texts[i] = fmt.Sprintf(`{"t":%d,"k":"harness","d":{"late":%d}}`, i*1000, i*i%7919)
	}
	data := pack(t, resum("r", texts...))
	var out bytes.Buffer
	if err := Pack(&out, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	want := bytes.TrimSuffix(resum("r", texts...), []byte("\n"))
	packed := bytes.Split(bytes.TrimSuffix(unpack(t, out.Bytes()), []byte("\n")), []byte("\n"))
	for i, line := range bytes.Split(want, []byte("\n")) {
		if i > 0 && i < len(texts)-1 {
			line = line[sumLen+1:]
		}
		if !bytes.Equal(line, packed[i]) {
			t.Fatalf("line %d: %s, want %s", i+1, packed[i], line)
		}
	}
	if len(packed) != len(texts) || out.Len() >= len(data) {
		t.Errorf("%d lines of %d bytes were packed into %d of %d", len(texts), len(data), len(packed), out.Len())
	}
	again := bytes.Clone(out.Bytes())
	out.Reset()
	if err := Pack(&out, bytes.NewReader(again)); err != nil || !bytes.Equal(out.Bytes(), again) {
		t.Errorf("packed again: %d bytes instead of %d, %v", out.Len(), len(again), err)
	}
	out.Reset()
	if err := Pack(&out, bytes.NewReader(sample(t))); err != nil {
		t.Error(err)
	} else if run, err := gatherBytes(out.Bytes()); err != nil || !run.Complete || len(run.Ops) != 4 {
		t.Errorf("%+v, %v", run, err)
	}
	if file := repacked(t, out.Bytes()); !bytes.Equal(unpack(t, file), unpack(t, out.Bytes())) {
		t.Errorf("its entries were packed into %s", unpack(t, file))
	}
	changed := bytes.Clone(data)
	changed[len(changed)-1]++
	for name, bad := range map[string][]byte{"cut off": data[:len(data)-20], "without a seal": data[:len(data)-sealLen], "a byte changed": changed, "empty": nil} {
		if err := Pack(io.Discard, bytes.NewReader(bad)); err == nil {
			t.Errorf("%s: packed", name)
		}
	}
}

// repacked packs the entries of a file.
func repacked(t *testing.T, file []byte) []byte {
	r, err := NewReader(bytes.NewReader(file), "r")
	if err != nil {
		t.Fatal(err)
	}
	var entries []Entry
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	var out bytes.Buffer
	if err := PackEntries(&out, r.Meta(), entries); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestPackedDamage: the checksum of its last line proves a packed record, and without it nothing of
// the record can be used.
func TestPackedDamage(t *testing.T) {
	var out bytes.Buffer
	if err := Pack(&out, bytes.NewReader(sample(t))); err != nil {
		t.Fatal(err)
	}
	data := unpack(t, out.Bytes())
	ls := lines(data) // meta, 4 operations, end, ""
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	for name, tt := range map[string]struct {
		data    []byte
		problem string
	}{
		"a value changed":            {bytes.Replace(data, []byte(`"v2"`), []byte(`"v9"`), 1), "line 6: the checksum is"},
		"two lines swapped":          {join(ls[0], ls[1], ls[3], ls[2], ls[4], ls[5]), "line 4: time goes back"},
		"a line left out":            {join(ls[0], ls[1], ls[3], ls[4], ls[5]), "line 5: the checksum is"},
		"no end":                     {join(ls[:5]...), "line 6: the record ends here without an end entry"},
		"the end has no checksum":    {join(join(ls[:5]...), ls[5][sumLen+1:]), "line 6: the end entry has no checksum"},
		"cut off in an entry":        {data[:len(ls[0])+len(ls[1])+20], "line 3: the line is cut off"},
		"a first line without proof": {data[sumLen+1:], ""},
	} {
		run, err := gatherBytes(pack(t, tt.data))
		switch {
		case tt.problem == "":
			if err == nil || !strings.Contains(err.Error(), "line 1: the line does not begin with a checksum") {
				t.Errorf("%s: %v", name, err)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case run.Complete || len(run.Ops) > 0 || !strings.Contains(run.Problem, tt.problem):
			t.Errorf("%s: %d operations, %q", name, len(run.Ops), run.Problem)
		}
	}
}
