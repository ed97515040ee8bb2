package release

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/goproxytest"
)

// withProxy makes the go command take modules from testdata/mod and keep them
// in a directory of the test.
func withProxy(t *testing.T) {
	t.Helper()
	proxy := goproxytest.NewTestServer(t, "testdata/mod", "127.0.0.1:0")
	t.Setenv("GOPROXY", proxy.URL)
	t.Setenv("GOSUMDB", "off")
	t.Setenv("GOTOOLCHAIN", "local")
	t.Setenv("GOMODCACHE", t.TempDir())
	t.Setenv("GOFLAGS", "-modcacherw -mod=readonly")
	t.Setenv("NO_PROXY", "127.0.0.1")
}

// events collects what a fetch says.
type events struct {
	mu   sync.Mutex
	text []string
	hook func(Event)
}

func (e *events) add(ev Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.text = append(e.text, ev.Text)
	if e.hook != nil {
		e.hook(ev)
	}
}

func (e *events) contains(s string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.text, func(text string) bool { return strings.Contains(text, s) })
}

// assertNoEntry fails if a fetch left anything that is or could become an
// entry.
func assertNoEntry(t *testing.T, cacheDir string) {
	t.Helper()
	for _, pattern := range []string{"tmp/*", "entries/*", "refs/*/*/*"} {
		if left, _ := filepath.Glob(filepath.Join(cacheDir, pattern)); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestBuildKubernetes(t *testing.T) {
	withProxy(t)
	var ev events
	o := Options{CacheDir: t.TempDir(), Source: SourceBuild, Progress: ev.add}
	e, err := Fetch(t.Context(), Kubernetes, "1.99.3", o)
	if err != nil {
		t.Fatal(err)
	}
	stamp := "v1.99.3 1 99 0123456789012345678901234567890123456789 clean 2026-01-02T03:04:05Z"
	for name, want := range map[string]string{
		"kube-apiserver":          "kube-apiserver " + stamp,
		"kube-controller-manager": "kube-controller-manager " + stamp,
		"kube-scheduler":          "kube-scheduler " + stamp,
		"kubectl":                 "kubectl v1.99.3",
	} {
		if got := run(t, filepath.Join(e.Dir, name)); got != want {
			t.Errorf("%s says %q, want %q", name, got, want)
		}
	}
	if out, err := exec.Command(filepath.Join(e.Dir, "kubernetes")).CombinedOutput(); err == nil {
		t.Errorf("called by its own name the program succeeded: %s", out)
	}
	if !strings.HasPrefix(e.Origin, "k8s.io/kubernetes@v1.99.3 h1:") || e.Source != SourceBuild || e.Go == "" {
		t.Errorf("entry = %+v", e)
	}
	if !ev.contains("linking") {
		t.Errorf("nothing was said of linking: %q", ev.text)
	}

	// The second time it comes from the cache, without a word.
	t.Setenv("GOPROXY", "off")
	ev.text = nil
	again, err := Fetch(t.Context(), Kubernetes, "v1.99.3", o)
	if err != nil || again.Dir != e.Dir {
		t.Fatalf("from the cache: %+v, %v", again, err)
	}
	if len(ev.text) > 0 {
		t.Errorf("said from the cache: %q", ev.text)
	}
}

func TestBuildEtcdAndKwok(t *testing.T) {
	withProxy(t)
	o := Options{CacheDir: t.TempDir()}
	e, err := Fetch(t.Context(), Etcd, "3.99.2", o)
	if err != nil {
		t.Fatal(err)
	}
	if got := run(t, filepath.Join(e.Dir, "etcd"), "--name=x"); got != "etcd v3.99.2 [--name=x]" {
		t.Errorf("etcd says %q", got)
	}
	e, err = Fetch(t.Context(), Kwok, "v0.99.0", o)
	if err != nil {
		t.Fatal(err)
	}
	if got := run(t, filepath.Join(e.Dir, "kwok")); got != "kwok v0.99.0" {
		t.Errorf("kwok says %q", got)
	}
	entries, errs := List(o.CacheDir, true)
	if len(entries) != 2 || len(errs) != 0 {
		t.Errorf("List = %v, %v", entries, errs)
	}
}

func TestBuildWhatANodeRuns(t *testing.T) {
	withProxy(t)
	o := Options{CacheDir: t.TempDir(), Source: SourceBuild}
	stamp := " v1.99.3 1 99 0123456789012345678901234567890123456789 clean 2026-01-02T03:04:05Z"
	for _, test := range []struct {
		product Product
		version string
		say     map[string]string
	}{
		{KubernetesNode, "v1.99.3", map[string]string{
			"kubeadm": "kubeadm" + stamp, "kubelet": "kubelet" + stamp, "kube-proxy": "kube-proxy" + stamp, "kubectl": "kubectl v1.99.3",
		}},
		// Without the build tags it would not have built.
		{Containerd, "v2.99.1", map[string]string{
			"containerd": "containerd v2.99.1 overlayfs", "ctr": "ctr v2.99.1 overlayfs",
			"containerd-shim-runc-v2": "containerd-shim-runc-v2 v2.99.1 overlayfs",
		}},
		{CNIPlugins, "v1.99.1", map[string]string{
			"host-local": "host-local v1.99.1", "loopback": "loopback v1.99.1", "portmap": "portmap v1.99.1", "ptp": "ptp v1.99.1",
		}},
		{CoreDNS, "v1.99.1", map[string]string{"coredns": "coredns v1.99.1"}},
	} {
		e, err := Fetch(t.Context(), test.product, test.version, o)
		if err != nil {
			t.Fatal(err)
		}
		if len(test.say) != len(test.product.Files()) {
			t.Errorf("%s has the files %v", test.product, test.product.Files())
		}
		for name, want := range test.say {
			if got := run(t, filepath.Join(e.Dir, name)); got != want {
				t.Errorf("%s says %q, want %q", name, got, want)
			}
		}
	}
}

// Building pause needs only the toolchain. It stays idle, and exits on a signal.
func TestBuildPause(t *testing.T) {
	withProxy(t)
	t.Setenv("GOPROXY", "off")
	o := Options{CacheDir: t.TempDir()}
	e, err := Fetch(t.Context(), Pause, DefaultPause, o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(e.Dir, "pause"))
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// It warns once the handlers are in place.
	said := bufio.NewReader(stderr)
	if line, err := said.ReadString('\n'); err != nil || !strings.Contains(line, "should be the first process") {
		t.Errorf("it says %q, %v", line, err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if line, err := said.ReadString('\n'); err != nil || !strings.Contains(line, "terminated") {
		t.Errorf("it says %q, %v", line, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("told to end: %v", err)
	}

	var v *VersionError
	if _, err := Fetch(t.Context(), Pause, "v3.10.0", o); !errors.As(err, &v) || !slices.Contains(v.Near, DefaultPause) {
		t.Errorf("error for a version that it has not = %v", err)
	}
}

func TestModule(t *testing.T) {
	withProxy(t)
	dir, err := Module(t.Context(), "k8s.io/client-go", "v0.99.3")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "pkg", "version", "version.go")); err != nil {
		t.Error(err)
	}
	if _, err := Module(t.Context(), "k8s.io/client-go", "v0.99.4"); err == nil || !strings.Contains(err.Error(), "k8s.io/client-go v0.99.4") || !strings.Contains(err.Error(), "GOPROXY") {
		t.Errorf("error for a version that does not exist = %v", err)
	}
}

// The same toolchain makes the same binary, so that an entry's digest means
// something.
func TestBuildIsReproducible(t *testing.T) {
	withProxy(t)
	var digests []string
	for range 2 {
		e, err := Fetch(t.Context(), Kubernetes, "v1.99.3", Options{CacheDir: t.TempDir(), Source: SourceBuild})
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, filepath.Base(e.Dir))
	}
	if digests[0] != digests[1] {
		t.Errorf("two builds gave %s", strings.Join(digests, " and "))
	}
}

func TestBuildFailures(t *testing.T) {
	withProxy(t)
	for _, test := range []struct {
		name    string
		version string
		want    []string
		unknown bool
	}{
		{"unknown version", "v3.99.5", []string{"does not exist", "similar ones are", "v3.99.1", "v3.99.2"}, true},
		{"malformed version", "3.99", []string{"is not a version such as " + EmbeddedEtcd}, true},
		{"toolchain too old", "v3.99.9", []string{"1.999.0", "too old for this version", "GOTOOLCHAIN=auto"}, false},
		{"does not compile", "v3.99.8", []string{"build go.etcd.io/etcd/server/v3 v3.99.8", "etcdmain.Main"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := Options{CacheDir: t.TempDir()}
			_, err := Fetch(t.Context(), Etcd, test.version, o)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
			if errors.As(err, new(*VersionError)) != test.unknown {
				t.Errorf("error is a VersionError: %v, want %v", !test.unknown, test.unknown)
			}
			assertNoEntry(t, o.CacheDir)
		})
	}
}

func TestBuildWithoutProxyIsNoUnknownVersion(t *testing.T) {
	withProxy(t)
	t.Setenv("GOPROXY", "http://127.0.0.1:1")
	_, err := Fetch(t.Context(), Etcd, "v3.99.1", Options{CacheDir: t.TempDir()})
	if err == nil || errors.As(err, new(*VersionError)) || !strings.Contains(err.Error(), "GOPROXY") {
		t.Errorf("error = %v", err)
	}
}

func TestBuildWithoutGo(t *testing.T) {
	if _, err := os.Stat("/usr/local/go/bin/go"); err == nil {
		t.Skip("Go is where it is looked for without PATH")
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Fetch(t.Context(), Etcd, "v3.99.1", Options{CacheDir: t.TempDir()}); !errors.Is(err, errNoGo) {
		t.Errorf("error = %v, want %v", err, errNoGo)
	}
}

func TestInterruptedBuildLeavesNoEntry(t *testing.T) {
	withProxy(t)
	ctx, cancel := context.WithCancel(t.Context())
	ev := events{hook: func(e Event) {
		if strings.HasPrefix(e.Text, "compiling") {
			cancel()
		}
	}}
	o := Options{CacheDir: t.TempDir(), Progress: ev.add}
	_, err := Fetch(ctx, Etcd, "v3.99.1", o)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error = %v", err)
	}
	assertNoEntry(t, o.CacheDir)
	if _, err := Fetch(t.Context(), Etcd, "v3.99.1", o); err != nil {
		t.Errorf("the next fetch: %v", err)
	}
}
