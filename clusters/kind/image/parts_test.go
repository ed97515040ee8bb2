package image

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"

	"github.com/holdfast-ha/holdfast/clusters/release"
)

func TestReference(t *testing.T) {
	for _, test := range []struct{ ref, component, version string }{
		{"registry.k8s.io/kube-apiserver:v1.37.1", "kube-apiserver", "v1.37.1"},
		{"registry.k8s.io/coredns/coredns:v1.14.6", "coredns", "v1.14.6"},
		{"registry.k8s.io/etcd:3.7.0-0", "etcd", "v3.7.0"},
		{"registry.k8s.io/etcd:3.7.0-rc.1-0", "etcd", "v3.7.0-rc.1"},
		{"registry.k8s.io/etcd:3.7.0", "etcd", "v3.7.0"},
		{"localhost:5000/pause:3.10.2", "pause", "v3.10.2"},
		{"localhost:5000/pause", "pause", "v"},
	} {
		r := reference(test.ref)
		if r.component() != test.component || r.version() != test.version {
			t.Errorf("%s: component %s, version %s", r, r.component(), r.version())
		}
	}
}

func TestParseImages(t *testing.T) {
	list := kubeadmList("v1.37.1")
	refs, err := parseImages(list)
	if err != nil || len(refs) != len(components) || refs[6] != "registry.k8s.io/etcd:3.7.0-0" {
		t.Errorf("parseImages = %v, %v", refs, err)
	}
	for _, test := range []struct{ list, want string }{
		{"", "names no image of kube-apiserver, kube-controller-manager"},
		{strings.Replace(list, "pause:3.10.2", "pause", 1), "want a name and a tag"},
		{list + "registry.k8s.io/flannel:v1\n", "flannel:v1, which cannot be built here"},
		{list + "registry.k8s.io/etcd:3.7.1-0\n", "each of"},
		{"W1122 could not reach the network\n" + list, "want a name and a tag"},
		{strings.Replace(list, "registry.k8s.io/pause:3.10.2\n", "", 1), "names no image of pause"},
	} {
		if _, err := parseImages(test.list); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("parseImages(%q): %v, want %q", test.list, err, test.want)
		}
	}
}

func FuzzParseImages(f *testing.F) {
	f.Add(kubeadmList("v1.37.1"))
	f.Fuzz(func(t *testing.T, list string) {
		refs, err := parseImages(list)
		if err != nil {
			return
		}
		for _, r := range refs {
			if !slices.Contains(components, r.component()) {
				t.Errorf("%q is an image of %q", r, r.component())
			}
		}
	})
}

// A change of anything makes an image of another name.
func TestNodeName(t *testing.T) {
	entries := func(digest string) binaries {
		return binaries{release.Etcd: {Version: "v3.7.0", Dir: "/cache/entries/" + digest}, release.Pause: {Version: "v1.0.0", Dir: "/cache/entries/0"}}
	}
	refs, err := parseImages(kubeadmList("v1.37.1"))
	if err != nil {
		t.Fatal(err)
	}
	amd64, arm64 := &builder{arch: "amd64"}, &builder{arch: "arm64"}
	name := amd64.nodeName("v1.37.1", entries("a"), refs)
	if again := amd64.nodeName("v1.37.1", entries("a"), slices.Clone(refs)); again != name {
		t.Errorf("the same inputs make %s and %s", name, again)
	}
	other := slices.Clone(refs)
	other[5] = "registry.k8s.io/pause:3.11"
	for what, got := range map[string]string{
		"the version":      amd64.nodeName("v1.37.2", entries("a"), refs),
		"a binary":         amd64.nodeName("v1.37.1", entries("b"), refs),
		"an image":         amd64.nodeName("v1.37.1", entries("a"), other),
		"the architecture": arm64.nodeName("v1.37.1", entries("a"), refs),
	} {
		if got == name {
			t.Errorf("with another of %s it is still %s", what, name)
		}
	}
	if key("a", []string{"b"}) == key([]string{"a", "b"}) || key("a", "b") == key("ab") {
		t.Error("other inputs have the same key")
	}
}

func TestAmendSpec(t *testing.T) {
	got, err := amendSpec([]byte(`{"process":{"rlimits":[{"hard":1024}],"cwd":"/"},"hooks":{"poststop":[],"createContainer":[{"path":"/other"}]},"linux":{"n":9007199254740993}}`))
	want := `{"hooks":{"createContainer":[{"path":"/other"},{"path":"/kind/bin/mount-product-files.sh"}],"poststop":[]},"linux":{"n":9007199254740993},"process":{"cwd":"/"}}`
	if err != nil || string(got) != want {
		t.Errorf("amendSpec = %s, %v\nwant %s", got, err, want)
	}
	for _, bad := range []string{"", "[]", "{}", `{"process":{},"hooks":[]}`, `{"process":{},"hooks":{"createContainer":{}}}`} {
		if _, err := amendSpec([]byte(bad)); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
}

// What is written in Go about kind is what kind's source says.
func TestPinnedKind(t *testing.T) {
	data, err := os.ReadFile("../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := modfile.Parse("go.mod", data, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range mod.Require {
		if r.Mod.Path == "sigs.k8s.io/kind" && r.Mod.Version != kindVersion {
			t.Errorf("kindVersion is %s, but go.mod has %s", kindVersion, r.Mod.Version)
		}
	}
	source, err := kindSource()
	if err != nil {
		t.Fatal(err)
	}
	data, err = os.ReadFile(filepath.Join(source, "pkg/cluster/internal/loadbalancer/const.go"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), `"`+BalancerName+`"`) {
		t.Errorf("kind's balancer is not %s", BalancerName)
	}
	data, err = os.ReadFile(filepath.Join(source, "images/base/Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"systemctl enable kubelet.service", "systemctl enable containerd.service", "systemctl enable undo-mount-hacks.service", "systemctl mask systemd-binfmt.service",
		`CNI_PLUGINS_VERSION="` + release.DefaultCNIPlugins + `"`, "STOPSIGNAL SIGRTMIN+3", `ENTRYPOINT [ "/usr/local/bin/entrypoint", "/sbin/init" ]`,
	} {
		if !strings.Contains(string(data), line) {
			t.Errorf("kind's Dockerfile does not say %q any more: see what it says now", line)
		}
	}
}

func TestPublishedNode(t *testing.T) {
	if got := publishedNode("v1.35.8"); got != "docker.io/kindest/node:v1.35.8" {
		t.Errorf("publishedNode = %s", got)
	}
	if got := publishedNode("v1.37.0"); !strings.HasPrefix(got, "kindest/node:v1.37.0@sha256:") {
		t.Errorf("publishedNode of kind's own default = %s", got)
	}
}

func TestSandboxImage(t *testing.T) {
	source, err := kindSource()
	if err != nil {
		t.Fatal(err)
	}
	files, err := tree(os.DirFS(filepath.Join(source, "images", "base", "files")))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := sandboxImage(files); err != nil || got != "registry.k8s.io/pause:3.10" {
		t.Errorf("sandboxImage = %q, %v", got, err)
	}
	if _, err := sandboxImage(nil); err == nil {
		t.Error("no error without a configuration")
	}
}
