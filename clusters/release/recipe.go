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
)

// recipe says how a product is built out of a module.
type recipe struct {
	module string
	// main is the program; without one, the package target of module is.
	main   string
	target string
	// output is the name of the program, links are further names for it.
	output string
	links  []string
	// stamp are the packages whose variables hold the version.
	stamp []string
	// staging tells that the module replaces others by folders of its own
	// repository, which are published as modules v0.MINOR.PATCH.
	staging bool
}

var (
	//go:embed wrappers/kubernetes.go.txt
	kubernetesMain string
	//go:embed wrappers/etcd.go.txt
	etcdMain string
)

func recipeOf(p Product) recipe {
	switch p {
	case Kubernetes:
		return recipe{
			module: "k8s.io/kubernetes", main: kubernetesMain, target: ".",
			output: "kubernetes", links: p.Files(), staging: true,
			// kubectl version reads the second one.
			stamp: []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"},
		}
	case Etcd:
		return recipe{module: "go.etcd.io/etcd/server/v3", main: etcdMain, target: ".", output: "etcd"}
	default:
		return recipe{module: "sigs.k8s.io/kwok", target: "sigs.k8s.io/kwok/cmd/kwok", output: "kwok"}
	}
}

// write makes the wrapper module in dir, for module at version with its own
// files in source.
func (r recipe) write(dir, version, source string) error {
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

// wrapperModule returns the go.mod of a module that builds r.module as its own
// repository would: with its language version and GODEBUG settings, and with
// what it replaces.
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
	if !r.staging {
		return []byte(b.String()), nil
	}
	for _, rep := range up.Replace {
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

// ldflags returns the linker's flags, which stamp the version. They depend on
// nothing but the module, so the same toolchain makes the same binary.
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
	for _, pkg := range r.stamp {
		for _, v := range values {
			flags = append(flags, "-X", pkg+"."+v)
		}
	}
	return strings.Join(flags, " ")
}
