package release

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"

	"github.com/holdfast-ha/holdfast/framework"
)

// recipe describes how to build a product from a module.
type recipe struct {
	// module is the module to build; empty for a program of holdfast's own, which is main
	// alone.
	module string
	// main is the program of the wrapper module, with name output and additional names links.
	// Without it the packages targets are built; each program has the name of its folder.
	main    string
	output  string
	links   []string
	targets []string
	// tags are build tags.
	tags []string
	// stamp are the packages with version variables like those of
	// k8s.io/component-base/version.
	stamp []string
	// version is a variable that contains only the version.
	version string
}

var (
	//go:embed wrappers/kubernetes.go.txt
	kubernetesMain string
	//go:embed wrappers/kubernetes-node.go.txt
	kubernetesNodeMain string
	//go:embed wrappers/kubernetes-fused.go.txt
	kubernetesFusedMain string
	//go:embed wrappers/etcd.go.txt
	etcdMain string
	//go:embed wrappers/pause.go.txt
	pauseMain string
)

func recipeOf(p Product) recipe {
	// kubectl version reads the second one.
	stamp := []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"}
	switch p {
	case Kubernetes:
		return recipe{module: "k8s.io/kubernetes", main: kubernetesMain, output: "kubernetes", links: p.Files(), stamp: stamp}
	case KubernetesNode:
		return recipe{module: "k8s.io/kubernetes", main: kubernetesNodeMain, output: "kubernetes-node", links: p.Files(), stamp: stamp}
	case KubernetesFused:
		return recipe{module: "k8s.io/kubernetes", main: kubernetesFusedMain, output: "kubernetes-fused", stamp: stamp}
	case Etcd:
		return recipe{module: "go.etcd.io/etcd/server/v3", main: etcdMain, output: "etcd"}
	case Kwok:
		return recipe{module: "sigs.k8s.io/kwok", output: "kwok", targets: []string{"sigs.k8s.io/kwok/cmd/kwok"}}
	case Containerd:
		const module = "github.com/containerd/containerd/v2"
		return recipe{
			module: module, output: "containerd", targets: under(module+"/cmd/", p.Files()),
			// Snapshotters that need C or that nodes do not use.
			tags:    []string{"no_aufs", "no_btrfs", "no_devmapper", "no_zfs"},
			version: module + "/version.Version",
		}
	case CNIPlugins:
		const module = "github.com/containernetworking/plugins"
		return recipe{
			module: module, output: "cni-plugins",
			targets: under(module+"/plugins/", []string{"ipam/host-local", "main/loopback", "main/ptp", "meta/portmap"}),
			version: module + "/pkg/utils/buildversion.BuildVersion",
		}
	case CoreDNS:
		return recipe{module: "github.com/coredns/coredns", output: "coredns", targets: []string{"github.com/coredns/coredns"}}
	default:
		return recipe{main: pauseMain, output: "pause"}
	}
}

func under(folder string, names []string) []string {
	return framework.Names(names, func(name string) string { return folder + name })
}

// packages are the packages that the go command builds.
func (r recipe) packages() []string {
	if r.main != "" {
		return []string{"."}
	}
	return r.targets
}

// write creates the wrapper module in dir, for module at version with its own files in source.
func (r recipe) write(dir, version, source string) error {
	if r.module == "" {
		return r.writeOwn(dir)
	}
	upstream, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		return err
	}
	mod, err := wrapperModule(r, version, upstream)
	if err != nil {
		return fmt.Errorf("go.mod of %s %s: %w", r.module, version, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), mod, 0o644); err != nil {
		return err
	}
	if sums, err := os.ReadFile(filepath.Join(source, "go.sum")); err == nil {
		if err := os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o644); err != nil {
			return err
		}
	}
	if r.main == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(dir, "main.go"), []byte(r.main), 0o644)
}

// writeOwn creates the module of a program of holdfast's own. Its language version is old, so
// that any toolchain can build it.
func (r recipe) writeOwn(dir string) error {
	mod := fmt.Sprintf("module holdfast.local/%s\n\ngo 1.24\n", r.output)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "main.go"), []byte(r.main), 0o644)
}

// wrapperModule returns the go.mod of a module that builds r.module like its own repository
// would: with its language version, GODEBUG settings, and replacements.
func wrapperModule(r recipe, version string, upstream []byte) ([]byte, error) {
	up, err := modfile.Parse("go.mod", upstream, nil)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "module holdfast.local/%s\n\n", r.output)
	if up.Go != nil {
		fmt.Fprintf(&b, "go %s\n\n", up.Go.Version)
	}
	for _, g := range up.Godebug {
		fmt.Fprintf(&b, "godebug %s=%s\n", g.Key, g.Value)
	}
	fmt.Fprintf(&b, "\nrequire %s %s\n\n", r.module, version)
	for _, rep := range up.Replace {
		// Other folders of the repository are modules that are required at their own versions.
		switch {
		case strings.HasPrefix(rep.New.Path, "./staging/"):
			fmt.Fprintf(&b, "replace %s => %s %s\n", rep.Old.Path, rep.Old.Path, stagingVersion(version))
		case !modfile.IsDirectoryPath(rep.New.Path):
			fmt.Fprintf(&b, "replace %s %s => %s %s\n", rep.Old.Path, rep.Old.Version, rep.New.Path, rep.New.Version)
		}
	}
	return []byte(b.String()), nil
}

// stagingVersion is the version under which the staging modules of a
// Kubernetes release are published: v0.37.1 for v1.37.1.
func stagingVersion(version string) string {
	return "v0." + strings.TrimPrefix(version, semver.Major(version)+".")
}

// ldflags returns the linker's flags, which stamp the version. They depend only on the module,
// so the same toolchain builds the same binary.
func (r recipe) ldflags(version string, m module) string {
	flags := []string{"-s", "-w"}
	minor := strings.TrimPrefix(semver.MajorMinor(version), semver.Major(version)+".")
	values := []string{
		"gitVersion=" + version,
		"gitMajor=" + strings.TrimPrefix(semver.Major(version), "v"),
		"gitMinor=" + minor,
		"gitTreeState=clean",
	}
	if m.Origin.Hash != "" {
		values = append(values, "gitCommit="+m.Origin.Hash)
	} else {
		values = append(values, "gitCommit=unknown")
	}
	if !m.Time.IsZero() {
		values = append(values, "buildDate="+m.Time.UTC().Format(time.RFC3339))
	}
	slices.Sort(values)
	if r.version != "" {
		flags = append(flags, "-X", r.version+"="+version)
	}
	for _, pkg := range r.stamp {
		for _, v := range values {
			flags = append(flags, "-X", pkg+"."+v)
		}
	}
	return strings.Join(flags, " ")
}
