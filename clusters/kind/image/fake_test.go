package image

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/kind/balancer"
	"github.com/holdfast-ha/holdfast/clusters/release"
)

// fake is a builder whose docker and debootstrap are the scripts in testdata/bin,
// and whose binaries are scripts too. Only kind's files are the real ones.
type fake struct {
	*builder
	t      *testing.T
	engine string // the folder of the engine

	mu   sync.Mutex
	said []string
}

func newFake(t *testing.T, source Source) *fake {
	t.Helper()
	dir := t.TempDir()
	f := &fake{t: t, engine: filepath.Join(dir, "engine")}
	for _, name := range []string{"images", "loads", "imports", "tools/usr/sbin", "tools/etc"} {
		if err := os.MkdirAll(filepath.Join(f.engine, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	f.put("arch", runtime.GOARCH)
	f.put("banner", balancer.Banner)
	f.put("tools/usr/sbin/nft", "nft")
	f.put("tools/etc/protocols", "tcp 6")
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	scripts, err := filepath.Abs(filepath.Join("testdata", "bin"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", scripts+":"+os.Getenv("PATH"))
	t.Setenv("FAKE_DOCKER", f.engine)

	f.builder, err = newBuilder(Config{
		DockerHost: "unix:///fake/docker.sock", Kubernetes: []string{"1.99.3"}, Source: source,
		BalancerProgram: program, CacheDir: filepath.Join(dir, "cache"),
		Progress: func(e release.Event) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.said = append(f.said, e.String())
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	products := filepath.Join(dir, "products")
	f.fetch = func(_ context.Context, p release.Product, v string) (release.Entry, error) {
		return f.product(products, p, v)
	}
	// What was fetched once is in the cache.
	f.lookup = func(_ context.Context, p release.Product, v string) (release.Entry, error) {
		if _, err := os.Stat(filepath.Join(products, string(p)+"-"+v)); err != nil {
			return release.Entry{}, release.ErrNotCached
		}
		return f.product(products, p, v)
	}
	f.source = func(context.Context, string, string) (string, error) { return kindSource() }
	f.root, f.ownDirs = true, false
	f.free = func(string) (uint64, error) { return 100 << 30, nil }
	return f
}

// product makes the binaries of a product: one program with several names, or
// several programs.
func (f *fake) product(dir string, p release.Product, version string) (release.Entry, error) {
	e := release.Entry{Product: p, Version: version, Dir: filepath.Join(dir, string(p)+"-"+version)}
	if err := os.MkdirAll(e.Dir, 0o755); err != nil {
		return e, err
	}
	write := func(name, text string) error { return os.WriteFile(filepath.Join(e.Dir, name), []byte(text), 0o755) }
	switch p {
	case release.KubernetesNode, release.Kubernetes:
		program := string(p) + "-program"
		for _, name := range p.Files() {
			if err := os.Symlink(program, filepath.Join(e.Dir, name)); err != nil && !errors.Is(err, os.ErrExist) {
				return e, err
			}
		}
		return e, write(program, "#!/bin/sh\ncat <<END\n"+kubeadmList(version)+"END\n")
	case release.Containerd:
		err := write("ctr", `#!/bin/sh
echo '{"ociVersion":"1.3.0","process":{"args":["sh"],"rlimits":[{"type":"RLIMIT_NOFILE","hard":1024}]},"root":{"path":"rootfs"}}'`)
		return e, errors.Join(err, write("containerd", "containerd"), write("containerd-shim-runc-v2", "shim"))
	}
	for _, name := range p.Files() {
		if err := write(name, name+" "+version); err != nil {
			return e, err
		}
	}
	return e, nil
}

func kubeadmList(version string) string {
	return strings.ReplaceAll(`registry.k8s.io/kube-apiserver:VERSION
registry.k8s.io/kube-controller-manager:VERSION
registry.k8s.io/kube-scheduler:VERSION
registry.k8s.io/kube-proxy:VERSION
registry.k8s.io/coredns/coredns:v1.14.6
registry.k8s.io/pause:3.10.2
registry.k8s.io/etcd:3.7.0-0
`, "VERSION", version)
}

// kindSource is the folder of the kind module that go.mod requires. go takes a good part of a second
// to find it.
var kindSource = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kind").Output()
	return strings.TrimSpace(string(out)), err
})

// put writes a file of the engine.
func (f *fake) put(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.engine, name), []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// asked returns what docker and debootstrap were asked for that begins so.
func (f *fake) asked(prefix string) []string {
	f.t.Helper()
	data, _ := os.ReadFile(filepath.Join(f.engine, "log"))
	var lines []string
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, prefix) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

func (f *fake) forget() {
	f.t.Helper()
	if err := os.RemoveAll(filepath.Join(f.engine, "log")); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fake) says(text string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Contains(strings.Join(f.said, "\n"), text)
}

// list returns the names in a folder of the engine.
func (f *fake) list(folder string) []string {
	f.t.Helper()
	entries, err := os.ReadDir(filepath.Join(f.engine, folder))
	if err != nil {
		f.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// assertClean fails if something half-made is in the engine or in the cache.
func (f *fake) assertClean() {
	f.t.Helper()
	if _, err := os.Stat(filepath.Join(f.engine, "container")); err == nil {
		f.t.Error("the container in which the image was built is still there")
	}
	for _, name := range f.list("images") {
		if strings.Contains(name, "base") || strings.Contains(name, "_new") {
			f.t.Errorf("the image %s is still there", name)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(f.dir, "work-*")); len(left) > 0 {
		f.t.Errorf("left behind: %v", left)
	}
}

// stored is an image in an archive: its configuration, and the files of all layers.
type stored struct {
	tags   []string
	config struct {
		Config struct {
			Env, Entrypoint, Cmd []string
			User, StopSignal     string
			Labels               map[string]string
		}
	}
	files map[string]string // contents, or -> and the target of a link
	modes map[string]int64
}

// read reads an archive that the engine was given; a folder and a number.
func (f *fake) read(name string) stored {
	f.t.Helper()
	data, err := os.ReadFile(filepath.Join(f.engine, name))
	if err != nil {
		f.t.Fatal(err)
	}
	contents, _ := untar(f.t, data)
	var manifests []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := json.Unmarshal([]byte(contents["manifest.json"]), &manifests); err != nil || len(manifests) != 1 {
		f.t.Fatalf("manifests = %s, %v", contents["manifest.json"], err)
	}
	s := stored{tags: manifests[0].RepoTags, files: map[string]string{}, modes: map[string]int64{}}
	if err := json.Unmarshal([]byte(contents[manifests[0].Config]), &s.config); err != nil {
		f.t.Fatal(err)
	}
	for _, layer := range manifests[0].Layers {
		files, modes := untar(f.t, []byte(contents[layer]))
		for name, text := range files {
			s.files[name], s.modes[name] = text, modes[name]
		}
	}
	return s
}

func untar(t *testing.T, data []byte) (contents map[string]string, modes map[string]int64) {
	t.Helper()
	contents, modes = map[string]string{}, map[string]int64{}
	for tr := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return contents, modes
		} else if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(h.Name, "./")
		contents[name], modes[name] = string(text), h.Mode
		if h.Typeflag == tar.TypeSymlink {
			contents[name] = "-> " + h.Linkname
		}
	}
}

// within waits for a condition.
func within(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}
