package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// Both kinds of archives are served out of the same bytes.
const serverArchive, nodeArchive = "/v1.99.3/kubernetes-server-linux-", "/v1.99.3/kubernetes-node-linux-"

// mirror is a mirror of release archives in the test.
type mirror struct {
	*httptest.Server
	archive []byte
	sum     string
	mu      sync.Mutex
	ranges  []string      // Range headers of the requests for the archive
	cutAt   int           // break the next download off there
	hold    chan struct{} // answer for the archive only when it is closed
}

func newMirror(t *testing.T, archive []byte) *mirror {
	sum := sha512.Sum512(archive)
	m := &mirror{archive: archive, sum: hex.EncodeToString(sum[:])}
	m.Server = httptest.NewServer(http.HandlerFunc(m.serve))
	t.Cleanup(m.Close)
	t.Setenv("NO_PROXY", "127.0.0.1")
	return m
}

func (m *mirror) serve(w http.ResponseWriter, r *http.Request) {
	server, node := serverArchive+runtime.GOARCH+".tar.gz", nodeArchive+runtime.GOARCH+".tar.gz"
	switch r.URL.Path {
	case server + ".sha512", node + ".sha512":
		fmt.Fprintf(w, "%s  kubernetes.tar.gz\n", m.sum)
	case server, node:
		m.mu.Lock()
		m.ranges = append(m.ranges, r.Header.Get("Range"))
		cut, hold := m.cutAt, m.hold
		m.cutAt = 0
		m.mu.Unlock()
		if hold != nil {
			<-hold
		}
		if cut > 0 {
			w.Header().Set("Content-Length", fmt.Sprint(len(m.archive)))
			_, _ = w.Write(m.archive[:cut])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(m.archive))
	default:
		http.NotFound(w, r)
	}
}

func (m *mirror) requests() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.ranges...)
}

// makeArchive makes a server archive with the given programs.
func makeArchive(t *testing.T, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	tw := tar.NewWriter(zw)
	add := func(name, text string) {
		h := &tar.Header{Name: name, Mode: 0o755, Size: int64(len(text)), Typeflag: tar.TypeReg}
		if err := tw.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	// Neither of these may end up in an entry.
	add("kubernetes/LICENSES", "text")
	add("kubernetes/other/kubectl", "#!/bin/sh\necho wrong one\n")
	add("../kubectl", "#!/bin/sh\necho wrong one\n")
	for _, name := range names {
		add("kubernetes/server/bin/"+name, "#!/bin/sh\necho "+name+" "+strings.Repeat("x", 1<<16)+"\n")
		add("kubernetes/node/bin/"+name, "#!/bin/sh\necho node "+name+"\n")
	}
	if err := errors.Join(tw.Close(), zw.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestArchive(t *testing.T) {
	m := newMirror(t, makeArchive(t, append(Kubernetes.Files(), "kubeadm")...))
	o := Options{CacheDir: t.TempDir(), Mirror: m.URL + "/", Source: SourceArchive}
	e, err := Fetch(t.Context(), Kubernetes, "1.99.3", o)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Kubernetes.Files() {
		if got := run(t, filepath.Join(e.Dir, name)); !strings.HasPrefix(got, name+" x") {
			t.Errorf("%s says %.40q", name, got)
		}
	}
	if len(e.Files) != len(Kubernetes.Files()) {
		t.Errorf("the entry holds %v", e.Files)
	}
	if left, _ := os.ReadDir(filepath.Join(o.CacheDir, "downloads")); len(left) > 0 {
		t.Errorf("the archive is still there: %v", left)
	}
}

// What nodes run comes from another archive, and from another folder of it.
func TestArchiveOfNodes(t *testing.T) {
	m := newMirror(t, makeArchive(t, KubernetesNode.Files()...))
	e, err := Fetch(t.Context(), KubernetesNode, "1.99.3", Options{CacheDir: t.TempDir(), Mirror: m.URL, Source: SourceArchive})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range KubernetesNode.Files() {
		if got := run(t, filepath.Join(e.Dir, name)); got != "node "+name {
			t.Errorf("%s says %.40q", name, got)
		}
	}
	if !strings.Contains(e.Origin, nodeArchive) {
		t.Errorf("origin = %s", e.Origin)
	}
}

// Products without an archive are not looked for on the mirror.
func TestArchiveOfOthers(t *testing.T) {
	for _, p := range Products() {
		if _, _, ok := p.archive(); ok {
			continue
		}
		_, err := Fetch(t.Context(), p, p.Default(), Options{CacheDir: t.TempDir(), Source: SourceArchive})
		if err == nil || !strings.Contains(err.Error(), string(p)+" "+p.Default()+" has no release archives: use --source build") {
			t.Errorf("%s: %v", p, err)
		}
	}
}

func TestArchiveMirrorFromEnvironment(t *testing.T) {
	m := newMirror(t, makeArchive(t, Kubernetes.Files()...))
	t.Setenv(MirrorVariable, m.URL)
	if _, err := Fetch(t.Context(), Kubernetes, "v1.99.3", Options{CacheDir: t.TempDir(), Source: SourceArchive}); err != nil {
		t.Error(err)
	}
}

// A wrong checksum is never passed over by going on to another source.
func TestArchiveChecksumDiffers(t *testing.T) {
	m := newMirror(t, makeArchive(t, Kubernetes.Files()...))
	m.sum = strings.Repeat("0", 128)
	o := Options{CacheDir: t.TempDir(), Mirror: m.URL}
	_, err := Fetch(t.Context(), Kubernetes, "v1.99.3", o)
	if !errors.Is(err, errChecksum) || !strings.Contains(err.Error(), m.URL) {
		t.Errorf("error = %v", err)
	}
	assertNoEntry(t, o.CacheDir)
	if left, _ := os.ReadDir(filepath.Join(o.CacheDir, "downloads")); len(left) > 0 {
		t.Errorf("the archive was kept: %v", left)
	}
}

func TestArchiveBad(t *testing.T) {
	whole := makeArchive(t, Kubernetes.Files()...)
	for _, test := range []struct {
		name    string
		archive []byte
		version string
		want    string
	}{
		{"program missing", makeArchive(t, "kubectl", "kube-scheduler"), "v1.99.3", "kube-apiserver, kube-controller-manager is not in it"},
		{"truncated", whole[:len(whole)/2], "v1.99.3", "unexpected EOF"},
		{"no archive", []byte("hello"), "v1.99.3", "unpack"},
		{"not on the mirror", whole, "v1.99.4", "404"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newMirror(t, test.archive)
			o := Options{CacheDir: t.TempDir(), Mirror: m.URL, Source: SourceArchive}
			_, err := Fetch(t.Context(), Kubernetes, test.version, o)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want %q in it", err, test.want)
			}
			assertNoEntry(t, o.CacheDir)
		})
	}
}

func TestArchiveResumes(t *testing.T) {
	m := newMirror(t, makeArchive(t, Kubernetes.Files()...))
	m.cutAt = len(m.archive) / 2
	o := Options{CacheDir: t.TempDir(), Mirror: m.URL, Source: SourceArchive}
	if _, err := Fetch(t.Context(), Kubernetes, "v1.99.3", o); err == nil {
		t.Fatal("no error from a download that broke off")
	}
	assertNoEntry(t, o.CacheDir)
	if _, err := Fetch(t.Context(), Kubernetes, "v1.99.3", o); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("bytes=%d-", len(m.archive)/2)
	if got := m.requests(); len(got) != 2 || got[1] != want {
		t.Errorf("ranges asked for: %q, want %q last", got, want)
	}
}

func TestArchiveUnreachableGoesOnToBuild(t *testing.T) {
	withProxy(t)
	var ev events
	o := Options{CacheDir: t.TempDir(), Mirror: "http://127.0.0.1:1", Progress: ev.add}
	e, err := Fetch(t.Context(), Kubernetes, "v1.99.3", o)
	if err != nil {
		t.Fatal(err)
	}
	if e.Source != SourceBuild || !ev.contains("connection refused") || !ev.contains("trying to build it instead") {
		t.Errorf("source %s; said %q", e.Source, ev.text)
	}
}

func TestSecondFetchWaits(t *testing.T) {
	m := newMirror(t, makeArchive(t, Kubernetes.Files()...))
	m.hold = make(chan struct{})
	o := Options{CacheDir: t.TempDir(), Mirror: m.URL, Source: SourceArchive}
	errs := make(chan error)
	go func() {
		_, err := Fetch(t.Context(), Kubernetes, "v1.99.3", o)
		errs <- err
	}()
	for len(m.requests()) == 0 { // until the first one holds the lock
		time.Sleep(time.Millisecond)
	}
	var once sync.Once
	ev := events{hook: func(e Event) {
		if strings.Contains(e.Text, "another process") {
			once.Do(func() { close(m.hold) })
		}
	}}
	second := o
	second.Progress = ev.add
	if _, err := Fetch(t.Context(), Kubernetes, "v1.99.3", second); err != nil {
		t.Error(err)
	}
	if err := <-errs; err != nil {
		t.Error(err)
	}
	if got := m.requests(); len(got) != 1 {
		t.Errorf("%d downloads, want 1", len(got))
	}
	if !ev.contains("waiting") {
		t.Errorf("the second one said %q", ev.text)
	}
}

func TestWaitingEndsWithContext(t *testing.T) {
	o := Options{CacheDir: t.TempDir()}
	f, err := newFetch(Etcd, "v3.99.1", o)
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := f.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	o.Progress = func(Event) { cancel() }
	if _, err := Fetch(ctx, Etcd, "v3.99.1", o); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v", err)
	}
}

func TestRedirectToPlainHTTPIsRefused(t *testing.T) {
	client := newHTTPClient()
	from := httptest.NewRequest(http.MethodGet, "https://mirror.example/a", nil)
	to := httptest.NewRequest(http.MethodGet, "http://mirror.example/a", nil)
	if err := client.CheckRedirect(to, []*http.Request{from}); err == nil {
		t.Error("a redirect from https to http was followed")
	}
	if err := client.CheckRedirect(from, []*http.Request{to}); err != nil {
		t.Errorf("a redirect from http to https: %v", err)
	}
}
