package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
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

func lines(data []byte) [][]byte { return bytes.SplitAfter(bytes.TrimSuffix(data, nil), []byte("\n")) }

// resum gives every line the checksum that its place asks for, as someone who
// edits a record on purpose would.
func resum(run string, texts ...string) []byte {
	var out []byte
	sum := seedSum(run)
	for _, text := range texts {
		sum = sum.next([]byte(text))
		out = fmt.Appendf(out, "%s %s\n", sum[:], text)
	}
	return out
}

const metaText = `{"t":0,"k":"meta","d":{"version":2,"run":"r1"}}`

func TestDamage(t *testing.T) {
	data := sample(t)
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
		{"not JSON", resum("r1", metaText, `{"t":5,`), 0, "line 2: not an entry"},
		{"wrong end", resum("r1", metaText, `{"t":5,"k":"end","d":7}`), 0, "line 2: the entry's data does not fit its kind"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run, err := gatherBytes(tt.data)
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
}

func TestEveryLengthCounts(t *testing.T) {
	data := sample(t)
	for n := range data {
		if run, err := gatherBytes(data[:n]); err == nil && (run.Complete || run.Problem == "") {
			t.Fatalf("cut to %d bytes: the record still counts as complete", n)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, tt := range []struct{ name, data, want string }{
		{"empty", "", "line 1: the record is empty"},
		{"another version", string(resum("r1", `{"t":0,"k":"meta","d":{"version":1,"run":"r1","harness":"v9"}}`)), "format version 1, this program reads version 2"},
		{"no meta", string(resum("r1", `{"t":0,"k":"op","d":{}}`)), `the first entry is "op"`},
		{"something else", "hello, world\n", "line 1: the line does not begin"},
		{"endless line", strings.Repeat("x", maxLine+100<<10), "longer than 16 MiB"},
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

func FuzzReader(f *testing.F) {
	data := sample(f)
	f.Add(data)
	f.Add(data[:len(data)/2])
	f.Add(resum("r1", metaText, `{"t":5,"k":"end","d":{}}`))
	f.Add(resum("r1", metaText, `{"t":5,"k":"lease","d":{"renew":"2026-01-01T00:00:00Z"}}`))
	f.Add([]byte("00000000 {}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		run, err := gatherBytes(data)
		if err != nil {
			return
		}
		if run.Complete == (run.Problem != "") {
			t.Fatalf("complete %v, problem %q", run.Complete, run.Problem)
		}
		// What is complete is so only because its last line is.
		if run.Complete && len(data) > 0 {
			if cut, err := gatherBytes(data[:len(data)-1]); err == nil && cut.Complete {
				t.Fatal("complete without its last byte")
			}
		}
	})
}
