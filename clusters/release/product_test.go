package release

import (
	"slices"
	"strings"
	"testing"

	etcdversion "go.etcd.io/etcd/api/v3/version"
	"golang.org/x/mod/semver"
)

func TestEmbeddedEtcdIsTheOneInGoMod(t *testing.T) {
	if want := "v" + etcdversion.Version; EmbeddedEtcd != want {
		t.Errorf("EmbeddedEtcd is %s, but go.mod has %s", EmbeddedEtcd, want)
	}
}

func TestProducts(t *testing.T) {
	for _, p := range Products() {
		if got, err := ParseProduct(string(p)); got != p || err != nil {
			t.Errorf("ParseProduct(%s) = %s, %v", p, got, err)
		}
		if v, err := ParseVersion(p, p.Default()); v != p.Default() || err != nil {
			t.Errorf("the default version of %s is %q: %v", p, p.Default(), err)
		}
		if len(p.Files()) == 0 {
			t.Errorf("%s has no files", p)
		}
	}
	if _, err := ParseProduct("kubernets"); err == nil || !strings.Contains(err.Error(), "kubernetes, kubernetes-node, kubernetes-fused, etcd") {
		t.Errorf("error for a product that there is not = %v", err)
	}
}

func TestParseVersion(t *testing.T) {
	for in, want := range map[string]string{
		"1.37.1": "v1.37.1", "v1.37.1": "v1.37.1", "1.38.0-rc.1": "v1.38.0-rc.1",
		"": "", "v": "", "1.37": "", "latest": "", "vv1.37.1": "", "1.37.1+x": "", "1.37.1/../..": "", "01.2.3": "",
	} {
		got, err := ParseVersion(Kubernetes, in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("ParseVersion(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
}

func FuzzParseVersion(f *testing.F) {
	f.Add("v1.37.1")
	f.Add("1.38.0-rc.1")
	f.Fuzz(func(t *testing.T, in string) {
		v, err := ParseVersion(Kubernetes, in)
		if err != nil {
			return
		}
		// Versions become parts of paths and URLs.
		if !semver.IsValid(v) || strings.ContainsAny(v, "/\\ \n") || strings.Contains(v, "..") {
			t.Errorf("ParseVersion(%q) = %q", in, v)
		}
	})
}

func TestNear(t *testing.T) {
	all := []string{"v1.35.4", "v1.35.8", "v1.36.1", "v1.36.3", "v1.37.0", "v1.37.1", "v1.38.0-rc.0", "v2.0.0", "junk"}
	for _, test := range []struct {
		want string
		n    int
		near []string
	}{
		{"v1.37.9", 3, []string{"v1.36.3", "v1.37.0", "v1.37.1"}},
		{"v1.36.2", 3, []string{"v1.35.8", "v1.36.1", "v1.36.3"}},
		{"v1.38.0-rc.1", 2, []string{"v1.37.1", "v1.38.0-rc.0"}},
		{"v9.0.0", 1, []string{"v2.0.0"}},
	} {
		if got := near(all, test.want, test.n); !slices.Equal(got, test.near) {
			t.Errorf("near(%s, %d) = %v, want %v", test.want, test.n, got, test.near)
		}
	}
}

func TestWrapperModule(t *testing.T) {
	upstream := `module k8s.io/kubernetes

go 1.26.0

godebug default=go1.26

require k8s.io/api v0.0.0

replace (
	example.com/fork => example.com/other v1.2.3
	example.com/local => ./third_party/local
	k8s.io/api => ./staging/src/k8s.io/api
)
`
	got, err := wrapperModule(recipeOf(Kubernetes), "v1.37.1", []byte(upstream))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"go 1.26.0\n", "godebug default=go1.26\n", "require k8s.io/kubernetes v1.37.1\n",
		"replace k8s.io/api => k8s.io/api v0.37.1\n",
		"replace example.com/fork  => example.com/other v1.2.3\n",
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if strings.Contains(string(got), "./") {
		t.Errorf("a folder is left in\n%s", got)
	}
	if got := stagingVersion("v1.38.0-rc.1"); got != "v0.38.0-rc.1" {
		t.Errorf("stagingVersion = %s", got)
	}
	if _, err := wrapperModule(recipeOf(Kubernetes), "v1.37.1", []byte("nonsense")); err == nil {
		t.Error("no error for a go.mod that is none")
	}
}
