package record

import (
	"bytes"
	"reflect"
	"testing"
)

// No bytes crash the reader, and a record that it considers complete is so only because of its
// last byte.
func FuzzReader(f *testing.F) {
	data := sample(f)
	f.Add(data)
	f.Add(data[:len(data)/2])
	f.Add(pack(f, resum("r1", metaText, `{"t":5,"k":"end","d":{}}`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		run, err := gatherBytes(data)
		if err != nil {
			return
		}
		if run.Complete == (run.Problem != "") {
			t.Fatalf("complete %v, problem %q", run.Complete, run.Problem)
		}
		if run.Complete {
			if cut, err := gatherBytes(data[:len(data)-1]); err == nil && cut.Complete {
				t.Fatal("complete without its last byte")
			}
		}
	})
}

// No lines crash the reader, however well they are compressed and sealed.
func FuzzLines(f *testing.F) {
	f.Add(unpack(f, sample(f)))
	f.Add(resum("r1", metaText, `{"t":5,"k":"lease","d":{"renew":"2026-01-01T00:00:00Z"}}`))
	f.Add(resum("r1", metaText, `{"t":5,"k":"end","d":{}}`))
	f.Add(resum("r1", metaText, `{"t":5,"k":"object","d":{"kind":"Pod","name":"pod-1","uid":"u"}}`, `{"t":5,"k":"end","d":{}}`))
	f.Add([]byte("00000000 {}\n"))
	f.Fuzz(func(t *testing.T, plain []byte) {
		run, err := gatherBytes(pack(t, plain))
		if err != nil {
			return
		}
		if run.Complete == (run.Problem != "") {
			t.Fatalf("complete %v, problem %q", run.Complete, run.Problem)
		}
	})
}

// A record that was changed in any way is never a complete one with other entries.
// Changes are made to the file, or to its lines, which are compressed and sealed
// again as if nothing had happened to them.
func FuzzMutation(f *testing.F) {
	data := sample(f)
	plain := unpack(f, data)
	other := unpack(f, sample(f))
	want, err := gatherBytes(data)
	if err != nil {
		f.Fatal(err)
	}
	for kind := range uint8(mutations) {
		f.Add(true, kind, uint16(100), uint16(200), []byte{1})
		f.Add(false, kind, uint16(300), uint16(50), []byte("x"))
	}
	f.Fuzz(func(t *testing.T, lines bool, kind uint8, at, length uint16, with []byte) {
		var got *Run
		var err error
		if lines {
			got, err = gatherBytes(pack(t, mutate(plain, other, kind, at, length, with)))
		} else {
			got, err = gatherBytes(mutate(data, other, kind, at, length, with))
		}
		if err == nil && got.Complete && !reflect.DeepEqual(got, want) {
			t.Fatalf("a changed record counts as complete:\n%+v\nwas\n%+v", got, want)
		}
	})
}

const mutations = 8

// mutate changes data at a place; every number is valid.
func mutate(data, other []byte, kind uint8, at, length uint16, with []byte) []byte {
	begin := int(at) % len(data)
	end := min(begin+int(length), len(data))
	cut := data[begin:end]
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	switch kind % mutations {
	case 0: // overwritten
		out := bytes.Clone(data)
		copy(out[begin:], with)
		return out
	case 1: // bits flipped
		out := bytes.Clone(data)
		for i, b := range with {
			out[(begin+i)%len(out)] ^= b
		}
		return out
	case 2: // cut off
		return data[:begin]
	case 3: // left out
		return join(data[:begin], data[end:])
	case 4: // repeated
		return join(data[:end], cut, data[end:])
	case 5: // moved to the end
		return join(data[:begin], data[end:], cut)
	case 6: // put in
		return join(data[:begin], with, data[begin:])
	}
	// of another record
	from := int(length) % len(other)
	return join(data[:begin], other[from:min(from+len(cut), len(other))], data[min(end, len(data)):])
}
