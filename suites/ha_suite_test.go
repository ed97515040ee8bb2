package suites

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/clusters/release"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/scenarios"
)

func TestMain(m *testing.M) {
	local.Main()
	if !local.InSandbox() {
		os.Exit(local.Reexec())
	}
	os.Exit(m.Run())
}

// TestHA runs the scenarios of the profile in HOLDFAST_PROFILE, smoke if unset,
// on a cluster of the default kind.
func TestHA(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a cluster")
	}
	spec := clusters.Default()
	for _, b := range local.Binaries(spec) {
		if _, err := release.Lookup(b.Product, b.Version, release.Options{}); err != nil {
			t.Skipf("run `holdfast fetch %s %s` first: %v", b.Product, b.Version, err)
		}
	}
	profile := os.Getenv("HOLDFAST_PROFILE")
	if profile == "" {
		profile = "smoke"
	}
	chosen, err := Select(scenarios.All(), profile, nil)
	if err != nil {
		t.Fatal(err)
	}
	var cluster *local.Cluster
	// What did not pass is said again at the very end, below Ginkgo's own report.
	broken := map[string][]string{} // by scenario
	dir := t.TempDir()
	Register(&Env{
		Cluster: func(ctx context.Context) (framework.Cluster, error) {
			var err error
			cluster, err = local.Create(ctx, spec, local.Options{Dir: dir})
			return cluster, err
		},
		Close: func(ctx context.Context) error { return cluster.Close(ctx) },
		Dir:   dir, Run: fmt.Sprintf("test-%d", time.Now().Unix()), Harness: "test", Provider: "local",
		Seed: uint64(ginkgo.GinkgoRandomSeed()), Scenarios: chosen, Again: true,
		Progress: func(line string) { fmt.Fprintln(ginkgo.GinkgoWriter, line) },
		Settled: func(scenario string, results []judge.Result, _ time.Duration) {
			broken[scenario] = nil
			for _, r := range results {
				if r.Verdict == judge.Fail || r.Verdict == judge.Inconclusive {
					broken[scenario] = append(broken[scenario], fmt.Sprintf("%s: %s: %s", r.Verdict, r.Requirement, r.Sentence))
				}
			}
		},
	})
	gomega.RegisterFailHandler(ginkgo.Fail)
	ginkgo.RunSpecs(t, "holdfast")
	for scenario, sentences := range broken {
		for _, s := range sentences {
			t.Errorf("%s: %s", scenario, s)
		}
	}
}

func TestSelect(t *testing.T) {
	all := scenarios.All()
	smoke, err := Select(all, "smoke", nil)
	if err != nil || len(smoke) == 0 || len(smoke) >= len(all) {
		t.Errorf("smoke selects %d of %d, %v", len(smoke), len(all), err)
	}
	if one, err := Select(all, "smoke", []string{"quorum-*"}); err != nil || len(one) != 1 {
		t.Errorf("quorum-* selects %d, %v", len(one), err)
	}
	for _, bad := range []string{"nothing", "["} {
		if _, err := Select(all, "smoke", []string{bad}); err == nil {
			t.Errorf("%q selects something", bad)
		}
	}
}
