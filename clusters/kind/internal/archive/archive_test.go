package archive

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// entries returns the names and contents of a tar stream.
func entries(t *testing.T, data []byte) (names []string, contents map[string][]byte, headers map[string]*tar.Header) {
	t.Helper()
	contents, headers = map[string][]byte{}, map[string]*tar.Header{}
	for tr := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return names, contents, headers
		} else if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		contents[h.Name], headers[h.Name] = text, h
	}
}

func write(t *testing.T, images ...Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, images...); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func example(t *testing.T) []Image {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, []byte("program"), 0o600); err != nil {
		t.Fatal(err)
	}
	// The time of a file on disk must not count.
	if err := os.Chtimes(file, time.Now(), time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	shared := Files([]File{{Name: "etc/shared", Mode: 0o644, Data: []byte("shared")}})
	return []Image{
		{
			Tags: []string{"example.com/a:1", "example.com/a:2"}, Arch: "amd64",
			Config: Config{Entrypoint: []string{"/usr/bin/program"}, User: "65535:65535", StopSignal: "SIGRTMIN+3"},
			Layers: []Layer{shared, Files([]File{
				{Name: "usr/bin/program", Mode: 0o755, Path: file},
				{Name: "usr/bin/other", Link: "program"},
				{Name: "tmp", Mode: fs.ModeDir | fs.ModeSticky | 0o777},
			})},
		},
		{Tags: []string{"example.com/b:1"}, Arch: "amd64", Layers: []Layer{shared}},
	}
}

func TestWrite(t *testing.T) {
	data := write(t, example(t)...)
	_, contents, _ := entries(t, data)
	var manifests []manifest
	if err := json.Unmarshal(contents["manifest.json"], &manifests); err != nil {
		t.Fatal(err)
	}
	if len(manifests) != 2 || !slices.Equal(manifests[0].RepoTags, []string{"example.com/a:1", "example.com/a:2"}) || len(manifests[0].Layers) != 2 {
		t.Fatalf("manifests = %+v", manifests)
	}
	if manifests[0].Layers[0] != manifests[1].Layers[0] {
		t.Error("the layer that both have is there twice")
	}
	for _, m := range manifests {
		config := contents[m.Config]
		if sum := sha256.Sum256(config); m.Config != hex.EncodeToString(sum[:])+".json" {
			t.Errorf("the configuration %s is not named by its digest", m.Config)
		}
		var c struct {
			Architecture, OS string
			Config           Config
			RootFS           struct {
				Type    string
				DiffIDs []string `json:"diff_ids"`
			}
		}
		if err := json.Unmarshal(config, &c); err != nil {
			t.Fatal(err)
		}
		if c.Architecture != "amd64" || c.OS != "linux" || c.RootFS.Type != "layers" {
			t.Errorf("configuration = %s", config)
		}
		for i, layer := range m.Layers {
			sum := sha256.Sum256(contents[layer])
			if want := "sha256:" + hex.EncodeToString(sum[:]); c.RootFS.DiffIDs[i] != want {
				t.Errorf("layer %d has the digest %s, announced is %s", i, want, c.RootFS.DiffIDs[i])
			}
		}
	}
	var c struct{ Config Config }
	if err := json.Unmarshal(contents[manifests[0].Config], &c); err != nil || c.Config.StopSignal != "SIGRTMIN+3" || c.Config.User != "65535:65535" {
		t.Errorf("configuration = %+v, %v", c, err)
	}
}

// The digest stands for the format: where it changes, images that were made before
// are made again, and recipe in clusters/kind/image has to be raised.
func TestWriteIsDeterministic(t *testing.T) {
	const want = "099c38558435cbdcebaa4a6af6866e68f2dda26963dbcec6a4356fccb0bbc650"
	for range 2 {
		sum := sha256.Sum256(write(t, example(t)...))
		if got := hex.EncodeToString(sum[:]); got != want {
			t.Errorf("the archive has the digest %s, want %s", got, want)
		}
	}
}

func TestFiles(t *testing.T) {
	var b bytes.Buffer
	layer := Files([]File{
		{Name: "b", Mode: 0o644, Data: []byte("first")},
		{Name: "a/c", Mode: 0o755, Data: []byte("c")},
		{Name: "a", Mode: fs.ModeDir | 0o755},
		{Name: "b", Mode: 0o600, Data: []byte("second")},
		{Name: "l", Link: "/dev/null"},
		{Name: "t", Mode: fs.ModeDir | fs.ModeSticky | 0o777},
		{Name: "t/u/v/w", Mode: 0o644},
	})
	if err := layer(&b); err != nil {
		t.Fatal(err)
	}
	names, contents, headers := entries(t, b.Bytes())
	if want := []string{"a/", "a/c", "b", "l", "t/", "t/u/", "t/u/v/", "t/u/v/w"}; !slices.Equal(names, want) {
		t.Errorf("entries = %q, want %q", names, want)
	}
	if string(contents["b"]) != "second" || headers["b"].Mode != 0o600 || headers["t/"].Mode != 0o1777 || headers["t/u/"].Mode != 0o755 || headers["l"].Linkname != "/dev/null" {
		t.Errorf("contents = %q, headers = %+v", contents, headers)
	}
	for name, h := range headers {
		if !h.ModTime.Equal(epoch) || h.Uid != 0 || h.Gid != 0 || h.Uname != "" {
			t.Errorf("%s has the time %v and the owner %d:%d %q", name, h.ModTime, h.Uid, h.Gid, h.Uname)
		}
	}

	again, err := Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	want := []File{
		{Name: "a", Mode: fs.ModeDir | 0o755},
		{Name: "a/c", Mode: 0o755, Data: []byte("c")},
		{Name: "b", Mode: 0o600, Data: []byte("second")},
		{Name: "l", Link: "/dev/null"},
		{Name: "t", Mode: fs.ModeDir | fs.ModeSticky | 0o777},
		{Name: "t/u", Mode: fs.ModeDir | 0o755},
		{Name: "t/u/v", Mode: fs.ModeDir | 0o755},
		{Name: "t/u/v/w", Mode: 0o644, Data: []byte{}},
	}
	if !reflect.DeepEqual(again, want) {
		t.Errorf("read again: %+v\nwant %+v", again, want)
	}
}

func TestBadFiles(t *testing.T) {
	for _, test := range []struct {
		file File
		want string
	}{
		{File{Name: "/etc/passwd"}, "below the root"},
		{File{Name: "../etc/passwd"}, "below the root"},
		{File{Name: ""}, "below the root"},
		{File{Name: "a", Path: filepath.Join(t.TempDir(), "missing")}, "put a into an image"},
		{File{Name: "a", Path: t.TempDir()}, "not a regular file"},
	} {
		if err := Files([]File{test.file})(io.Discard); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", test.file, err, test.want)
		}
	}
}

// A layer that changes between the first and the second time is noticed, whichever
// way its size went.
func TestLayerThatChanges(t *testing.T) {
	for _, step := range []int{-1, 1} {
		size := 1024
		layer := func(w io.Writer) error {
			_, err := w.Write(make([]byte, size))
			size += 512 * step
			return err
		}
		if err := Write(io.Discard, Image{Layers: []Layer{layer}}); err == nil {
			t.Errorf("no error for a layer that changed by %d", 512*step)
		}
	}
	if err := Write(io.Discard, Image{Layers: []Layer{TarFile(filepath.Join(t.TempDir(), "missing"))}}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error for a layer that is not there = %v", err)
	}
}
