package bundle

import (
	"archive/tar"
	"bytes"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func newKey(t testing.TB) *Key {
	private, _, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	k, err := ParseKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

const testType = "https://example.com/verdicts/v1"

// made returns a bundle of files, by name, signed with a key.
func made(t testing.TB, key *Key, files map[string]string) []byte {
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "bundle.tar")
	if err := Write(file, dir, key, Predicate{"verdicts", testType, map[string]any{"verdict": "pass", "count": 3}}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

var someFiles = map[string]string{
	"plan.json": `{"run": "x"}`, "record/a/record.jsonl.zst": strings.Repeat("a record\n", 200), "record/b/record.jsonl.zst": "another",
	"results.json": "{}", "a/name/that/is/too/long/for/the/first/form/of/a/tar/header/and/takes/a/record/of/its/own/in/the/archive/which/can/be/damaged.txt": "x",
}

func TestRoundTrip(t *testing.T) {
	key := newKey(t)
	data := made(t, key, someFiles)
	b, err := Read(bytes.NewReader(data), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range someFiles {
		if got, err := os.ReadFile(filepath.Join(b.Dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if b.Key.ID != key.ID {
		t.Errorf("signed by %s, want %s", b.Key.ID, key.ID)
	}
	if body, ok := b.Predicate(testType); !ok || !strings.Contains(string(body), `"pass"`) {
		t.Errorf("the predicate is %s, %v", body, ok)
	}
	if again := made(t, key, someFiles); len(again) < len(data)-600 || len(again) > len(data)+600 {
		t.Errorf("the same files make bundles of %d and %d bytes", len(data), len(again))
	}
}

// contents returns where the contents of each file are in a bundle: from, to.
func contents(t *testing.T, data []byte) map[string][2]int {
	all := map[string][2]int{}
	in := bytes.NewReader(data)
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		from := len(data) - in.Len()
		all[h.Name] = [2]int{from, from + int(h.Size)}
	}
}

// Read refuses a bundle with any byte changed, and says where: it names the file that has the byte,
// or the attestation whose signature does not hold then; of a byte of the archive itself at least
// the bundle.
func TestOneByteChanged(t *testing.T) {
	data := made(t, newKey(t), someFiles)
	files := contents(t, data)
	reason := func(i int, err error) {
		said := err.Error()
		for name, at := range files {
			if i >= at[0] && i < at[1] {
				if own := strings.HasPrefix(name, envelopes); !strings.Contains(said, name) && !(own && strings.Contains(said, envelopes)) {
					t.Errorf("byte %d, of %s, is changed, and the reason is %q", i, name, said)
				}
				return
			}
			if strings.Contains(said, name) {
				return // a header of it, or one near it
			}
		}
		if !strings.Contains(said, "bundle") && !strings.Contains(said, "archive") && !strings.Contains(said, "unpack") && !strings.Contains(said, envelopes) {
			t.Errorf("byte %d, of the archive, is changed, and the reason is %q", i, said)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		changed := bytes.Clone(data)
		i := random.IntN(len(changed))
		changed[i] ^= byte(1 + random.IntN(255))
		_, err := Read(bytes.NewReader(changed), t.TempDir())
		if err == nil {
			t.Fatalf("byte %d of %d changed from %#x to %#x, and the bundle is taken", i, len(data), data[i], changed[i])
		}
		reason(i, err)
	}
	for _, cut := range []int{0, 1, 511, 512, len(data) / 2, len(data) - 512, len(data) - 1} {
		if _, err := Read(bytes.NewReader(data[:cut]), t.TempDir()); err == nil {
			t.Errorf("a bundle cut to %d of %d bytes is taken", cut, len(data))
		}
	}
	for _, more := range []string{"\x00", strings.Repeat("\x00", 512), "x"} {
		if _, err := Read(io.MultiReader(bytes.NewReader(data), strings.NewReader(more)), t.TempDir()); err == nil {
			t.Errorf("a bundle with %d bytes added is taken", len(more))
		}
	}
}

// repacked writes the bundle again, as holdfast would, after change has modified its files.
func repacked(t *testing.T, data []byte, change func(map[string]string)) []byte {
	files := map[string]string{}
	r := tar.NewReader(bytes.NewReader(data))
	for {
		h, err := r.Next()
		if err != nil {
			break
		}
		text, _ := io.ReadAll(r)
		files[h.Name] = string(text)
	}
	change(files)
	dir := t.TempDir()
	for name, text := range files {
		os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755)
		os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)
	}
	names, err := filesIn(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := writeArchive(&out, names, func(name string) (io.ReadCloser, int64, error) {
		return io.NopCloser(strings.NewReader(files[name])), int64(len(files[name])), nil
	}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Read refuses a bundle altered with another tool, and gives the reason.
func TestForged(t *testing.T) {
	key, other := newKey(t), newKey(t)
	data := made(t, key, someFiles)
	envelope := envelopes + "verdicts.dsse.json"
	for name, test := range map[string]struct {
		change func(map[string]string)
		want   string
	}{
		"nothing":             {func(map[string]string) {}, ""},
		"a file changed":      {func(f map[string]string) { f["results.json"] = "{ }" }, "results.json was changed after it was signed"},
		"a record removed":    {func(f map[string]string) { delete(f, "record/b/record.jsonl.zst") }, "record/b/record.jsonl.zst is missing from the bundle"},
		"a record added":      {func(f map[string]string) { f["record/c/record.jsonl.zst"] = "c" }, "record/c/record.jsonl.zst was added to the bundle after it was signed"},
		"no attestation":      {func(f map[string]string) { delete(f, envelope) }, "the bundle is not signed"},
		"no key":              {func(f map[string]string) { delete(f, KeyFile) }, "has no " + KeyFile},
		"another key":         {func(f map[string]string) { f[KeyFile] = string(other.PEM) }, "another key signed it"},
		"text before the key": {func(f map[string]string) { f[KeyFile] = "x\n" + f[KeyFile] }, "not written as holdfast writes it"},
		"spaces in the envelope": {func(f map[string]string) { f[envelope] = strings.Replace(f[envelope], ":", ": ", 1) },
			"differs from what holdfast writes"},
		"another statement of the same type": {func(f map[string]string) { f[envelopes+"again.dsse.json"] = f[envelope] }, "there is another statement of type"},
		"the envelope of other files": {func(f map[string]string) {
			files := maps.Clone(someFiles)
			files["plan.json"] = `{"run": "y"}`
			foreign := map[string]string{}
			repacked(t, made(t, key, files), func(f map[string]string) { foreign = maps.Clone(f) })
			f[envelope] = foreign[envelope]
		}, "plan.json was changed after it was signed"},
		"another key's envelope": {func(f map[string]string) {
			foreign := map[string]string{}
			repacked(t, made(t, other, someFiles), func(f map[string]string) { foreign = maps.Clone(f) })
			f[envelope] = foreign[envelope]
		}, "another key signed it"},
	} {
		_, err := Read(bytes.NewReader(repacked(t, data, test.change)), t.TempDir())
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// Files that are not archives, archives that are not bundles, and paths outside the directory.
func TestOtherArchives(t *testing.T) {
	for name, headers := range map[string][]tar.Header{
		"outside":        {{Name: "../x", Typeflag: tar.TypeReg}},
		"absolute":       {{Name: "/x", Typeflag: tar.TypeReg}},
		"a link":         {{Name: "x", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}},
		"a directory":    {{Name: "x/", Typeflag: tar.TypeDir}},
		"twice the same": {{Name: "x", Typeflag: tar.TypeReg}, {Name: "x", Typeflag: tar.TypeReg}},
		"out of order":   {{Name: "y", Typeflag: tar.TypeReg}, {Name: "x", Typeflag: tar.TypeReg}},
		"empty":          {},
	} {
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		for _, h := range headers {
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
		}
		w.Close()
		if _, err := Read(&out, t.TempDir()); err == nil {
			t.Errorf("%s: accepted, though it is not a bundle", name)
		}
	}
}

func TestKeys(t *testing.T) {
	private, public, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	one, err := ParseKey(private)
	if err != nil {
		t.Fatal(err)
	}
	two, err := ParseKey(public)
	if err != nil || one.ID != two.ID || !bytes.Equal(one.PEM, public) {
		t.Errorf("%v, %v, %v", one, two, err)
	}
	if _, err := Sign(two, map[string]string{"x": "y"}, Predicate{"x", testType, map[string]any{}}); err == nil {
		t.Error("a public key signs")
	}
	for _, bad := range []string{"", "x", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		if _, err := ParseKey([]byte(bad)); err == nil {
			t.Errorf("%q is taken as a key", bad)
		}
	}
}

// FuzzRead checks that Read either refuses a bundle or returns one whose digests hold, and that
// it writes nothing outside its directory.
func FuzzRead(f *testing.F) {
	data := made(f, newKey(f), map[string]string{"plan.json": "{}"})
	f.Add(data)
	f.Add(data[:700])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		parent := t.TempDir()
		dir := filepath.Join(parent, "dir")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		_, _ = Read(bytes.NewReader(data), dir)
		if entries, err := os.ReadDir(parent); err != nil || len(entries) != 1 {
			t.Errorf("written outside: %v, %v", entries, err)
		}
	})
}
