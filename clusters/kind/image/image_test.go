package image

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/release"
)

// From nothing to both images, and what is in them.
func TestBuild(t *testing.T) {
	f := newFake(t, sourceBuild)
	images, err := f.ensure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.assertClean()
	node, ok := images.Node("1.99.3")
	if !ok || !strings.HasPrefix(node, "holdfast/kind-node:v1.99.3-") || images.Nodes[0].Source != sourceBuild {
		t.Errorf("images = %+v", images)
	}
	if _, ok := images.Node("1.99.4"); ok {
		t.Error("there is an image of a version that nobody asked for")
	}
	if images.Balancer.Name != BalancerName || images.Balancer.Source != sourceBuild {
		t.Errorf("balancer = %+v", images.Balancer)
	}
	if got := f.asked("debootstrap"); len(got) != 1 || got[0] != "debootstrap bookworm "+DefaultDebianMirror {
		t.Errorf("debootstrap was called: %q", got)
	}
	if got := f.asked("commit"); len(got) != 1 || got[0] != `commit --change ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"] `+f.container()+" "+node {
		t.Errorf("commit was called: %q", got)
	}
	if got := f.asked("pull"); len(got) > 0 {
		t.Errorf("a registry was asked: %q", got)
	}

	base := f.read("loads/0.tar")
	if base.config.Config.StopSignal != "SIGRTMIN+3" || !slices.Contains(base.config.Config.Env, "container=docker") {
		t.Errorf("configuration of the node image = %+v", base.config)
	}
	for name, want := range map[string]string{
		"etc/os-release":               "Debian\n",
		"kind/version":                 "v1.99.3",
		"usr/bin/kubelet":              "-> kubernetes-node-program",
		"usr/local/bin/containerd":     "containerd",
		"opt/cni/bin/ptp":              "ptp " + release.DefaultCNIPlugins,
		"usr/sbin/init":                "-> /usr/lib/systemd/systemd",
		"etc/kubernetes/manifests/":    "",
		"etc/containerd/cri-base.json": `{"hooks":{"createContainer":[{"path":"/kind/bin/mount-product-files.sh"}]},"ociVersion":"1.3.0","process":{"args":["sh"]},"root":{"path":"rootfs"}}`,
		"etc/systemd/system/multi-user.target.wants/kubelet.service":          "-> /etc/systemd/system/kubelet.service",
		"etc/systemd/system/multi-user.target.wants/holdfast-network.service": "-> /etc/systemd/system/holdfast-network.service",
		"usr/lib/systemd/system/sockets.target.wants/dbus.socket":             "-> ../unit",
	} {
		if got, ok := base.files[name]; !ok || got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"usr/local/bin/entrypoint", "kind/bin/mount-product-files.sh", "usr/local/bin/holdfast-network"} {
		if base.modes[name] != 0o755 || !strings.HasPrefix(base.files[name], "#!") {
			t.Errorf("%s has the permissions %o and begins with %.20q", name, base.modes[name], base.files[name])
		}
	}
	for _, name := range []string{"etc/hostname", "etc/resolv.conf", "etc/machine-id", "var/lib/dbus/machine-id", "dev/null", "usr/share/doc/bash/README",
		"etc/systemd/system/timers.target.wants/apt.timer", "usr/lib/systemd/system/multi-user.target.wants/console.service", "usr/lib/systemd/system/sockets.target.wants/systemd-udevd.socket"} {
		if text, ok := base.files[name]; ok {
			t.Errorf("%s is there: %q", name, text)
		}
	}
	for _, service := range enabled {
		if _, ok := base.files["etc/systemd/system/"+service]; !ok {
			t.Errorf("%s is enabled, but not there", service)
		}
	}
	for _, manifest := range []string{"default-cni.yaml", "default-storage.yaml"} {
		if base.files["kind/manifests/"+manifest] == "" {
			t.Errorf("%s is missing, which kind reads", manifest)
		}
	}

	if made := f.read("loads/1.tar"); made.files["usr/local/bin/envoy"] != "program" || made.files["etc/os-release"] == "" || made.config.Config.Labels[balancerLabel] == "" {
		t.Errorf("the balancer's image has %d files and the configuration %+v", len(made.files), made.config)
	}
}

// The images inside the node image are those that kubeadm and containerd ask for.
func TestBuildPutsImagesIn(t *testing.T) {
	f := newFake(t, sourceBuild)
	if _, err := f.ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, call := range f.asked("exec --interactive") {
		if !strings.HasSuffix(call, "ctr --namespace k8s.io images import --label io.cri-containerd.pinned=pinned --no-unpack -") {
			t.Errorf("import was called: %s", call)
		}
	}
	want := map[string]string{
		"registry.k8s.io/kube-apiserver:v1.99.3":          "usr/local/bin/kube-apiserver",
		"registry.k8s.io/kube-controller-manager:v1.99.3": "usr/local/bin/kube-controller-manager",
		"registry.k8s.io/kube-scheduler:v1.99.3":          "usr/local/bin/kube-scheduler",
		"registry.k8s.io/kube-proxy:v1.99.3":              "usr/local/bin/kube-proxy",
		"registry.k8s.io/coredns/coredns:v1.14.6":         "coredns",
		"registry.k8s.io/pause:3.10.2":                    "pause",
		"registry.k8s.io/pause:3.10":                      "pause", // containerd's configuration of kind
		"registry.k8s.io/etcd:3.7.0-0":                    "usr/local/bin/etcd",
	}
	for _, name := range f.list("imports") {
		image := f.read("imports/" + name)
		for _, tag := range image.tags {
			program, ok := want[tag]
			if !ok {
				t.Errorf("there is an image %s", tag)
			}
			delete(want, tag)
			text := image.files[program]
			if target, ok := strings.CutPrefix(text, "-> "); ok {
				text = image.files["usr/local/bin/"+target]
			}
			if text == "" {
				t.Errorf("%s has no %s but %v", tag, program, image.files)
			}
			if image.modes["tmp/"] != 0o1777 || !slices.Contains(image.config.Config.Env, path) {
				t.Errorf("%s has the configuration %+v and a /tmp with %o", tag, image.config, image.modes["tmp/"])
			}
			switch {
			case strings.Contains(tag, "etcd") && text != "etcd v3.7.0":
				t.Errorf("%s has the program %q", tag, text)
			case strings.Contains(tag, "coredns") && text != "coredns v1.14.6":
				t.Errorf("%s has the program %q", tag, text)
			case strings.Contains(tag, "kube-proxy") && (image.files["usr/sbin/nft"] != "nft" || image.files["etc/protocols"] == ""):
				t.Errorf("%s lacks nft or what it needs: %v", tag, image.files)
			case strings.Contains(tag, "pause") && image.config.Config.User != "65535:65535":
				t.Errorf("%s runs as %q", tag, image.config.Config.User)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("missing are %v", want)
	}
}

// What is there is not made again: not in the engine, and not where the engine is
// another one but the cache is the same.
func TestBuildTwice(t *testing.T) {
	f := newFake(t, sourceBuild)
	first, err := f.ensure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.forget()
	again, err := f.ensure(t.Context())
	if err != nil || again.Nodes[0] != first.Nodes[0] || again.Balancer != first.Balancer {
		t.Fatalf("again: %+v, %v; before: %+v", again, err, first)
	}
	for _, verb := range []string{"load", "run", "commit", "debootstrap", "pull"} {
		if calls := f.asked(verb); len(calls) > 0 {
			t.Errorf("again: %q", calls)
		}
	}
	// auto takes what was built before, and asks no registry.
	f.Source = SourceAuto
	if auto, err := f.ensure(t.Context()); err != nil || auto.Nodes[0].Name != first.Nodes[0].Name || len(f.asked("pull")) > 0 {
		t.Errorf("auto: %+v, %v", auto, err)
	}
	f.Source = sourceBuild

	for _, name := range f.list("images") {
		if err := os.Remove(filepath.Join(f.engine, "images", name)); err != nil {
			t.Fatal(err)
		}
	}
	f.forget()
	if _, err := f.ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !f.says("from the cache") || len(f.asked("commit")) > 0 || len(f.asked("debootstrap")) > 0 {
		t.Errorf("the image was not loaded from the cache: %q", f.said)
	}

	// A copy that is damaged is not the end.
	if err := os.WriteFile(f.saved(first.Nodes[0].Name), []byte("damaged"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(f.engine, "images")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(f.engine, "images"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ensure(t.Context()); err != nil || !f.says("building it again") || len(f.asked("commit")) != 1 {
		t.Errorf("from a damaged copy: %v, %q", err, f.said)
	}
}

// Of the copies of one version of Kubernetes the last one stays.
func TestKeepReplaces(t *testing.T) {
	f := newFake(t, sourceBuild)
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tag := range []string{"v1.99.3-aaa", "v1.99.3-rc.1-bbb", "v1.99.30-ccc"} {
		if err := os.WriteFile(f.saved(builtNodes+":"+tag), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f.keep(t.Context(), builtNodes+":v1.99.3-ddd")
	left, err := filepath.Glob(filepath.Join(f.dir, "node-*"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range left {
		left[i] = filepath.Base(left[i])
	}
	if want := []string{"node-v1.99.3-ddd.tar.zst", "node-v1.99.3-rc.1-bbb.tar.zst", "node-v1.99.30-ccc.tar.zst"}; !slices.Equal(left, want) {
		t.Errorf("left are %q, want %q", left, want)
	}
}

func TestAuto(t *testing.T) {
	f := newFake(t, SourceAuto)
	f.put("registry", "")
	images, err := f.ensure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := images.Nodes[0]; n.Name != "docker.io/kindest/node:v1.99.3" || n.Source != sourcePublished || n.Why != "the registry has it" || images.Balancer.Source != sourcePublished {
		t.Errorf("images = %+v", images)
	}
	f.forget()
	images, err = f.ensure(t.Context())
	if err != nil || len(f.asked("pull")) > 0 || images.Nodes[0].Why != "the engine has the published one" {
		t.Errorf("again: %+v, %v, %q", images, err, f.asked("pull"))
	}
	if len(f.asked("load")) > 0 {
		t.Error("something was built")
	}
}

func TestAutoGoesOnToBuild(t *testing.T) {
	f := newFake(t, SourceAuto)
	images, err := f.ensure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := images.Nodes[0]; n.Source != sourceBuild || !strings.Contains(n.Why, "no such host") {
		t.Errorf("node = %+v", n)
	}
	if images.Balancer.Source != sourceBuild {
		t.Errorf("balancer = %+v", images.Balancer)
	}
	if !f.says("building one instead") {
		t.Errorf("said %q", f.said)
	}
}

// A registry that does not answer costs a few seconds, and no more.
func TestAutoWithSilence(t *testing.T) {
	f := newFake(t, SourceAuto)
	f.put("silent", "")
	f.answer = 50 * time.Millisecond
	images, err := f.ensure(t.Context())
	if err != nil || images.Nodes[0].Source != sourceBuild || !strings.Contains(images.Nodes[0].Why, "no registry has answered within 50ms") {
		t.Errorf("images = %+v, %v", images, err)
	}
}

// A pulled balancer image is not replaced, unless a build was requested. Then it loses its name, which is
// reported, and stays. One that was built here is removed.
func TestPublishedBalancerStays(t *testing.T) {
	f := newFake(t, SourceAuto)
	f.put("images/envoyproxy_envoy_v1.36.2", "")
	images, err := f.ensure(t.Context())
	if err != nil || images.Nodes[0].Source != sourceBuild || images.Balancer.Source != sourcePublished {
		t.Errorf("images = %+v, %v", images, err)
	}
	f.Source = sourceBuild
	images, err = f.ensure(t.Context())
	if err != nil || images.Balancer.Source != sourceBuild || len(f.asked("tag")) != 1 {
		t.Errorf("images = %+v, %v", images, err)
	}
	removed := func() (n int) {
		for _, call := range f.asked("image rm") {
			n += strings.Count(call, "sha256:")
		}
		return n
	}
	if said := strings.Join(f.said, "\n"); removed() != 0 || !strings.Contains(said, BalancerName+" is now the balancer that was built here; the image that had this name stays, as sha256:") {
		t.Errorf("%d images were removed; progress:\n%s", removed(), said)
	}
	// Another program makes another image.
	if err := os.WriteFile(f.BalancerProgram, []byte("other"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ensure(t.Context()); err != nil || len(f.asked("tag")) != 2 || removed() != 1 {
		t.Errorf("tag was called: %q, %d images were removed, %v", f.asked("tag"), removed(), err)
	}
	f.assertClean()
}

func TestPublishedOnly(t *testing.T) {
	f := newFake(t, sourcePublished)
	_, err := f.ensure(t.Context())
	if err == nil || !strings.Contains(err.Error(), "docker.io/kindest/node:v1.99.3 is not available") || !strings.Contains(err.Error(), `"build"`) {
		t.Errorf("error = %v", err)
	}
	f.put("registry", "")
	if images, err := f.ensure(t.Context()); err != nil || images.Nodes[0].Source != sourcePublished || images.Balancer.Source != sourcePublished {
		t.Errorf("images = %+v, %v", images, err)
	}
}
