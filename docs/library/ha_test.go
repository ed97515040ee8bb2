package library

import (
	"os"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/framework/engine"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/scenarios"
)

// A test binary is also what the nodes run: Main turns copies of it into them, and
// Reexec puts the tests into the sandbox in which all of it lives and ends.
func TestMain(m *testing.M) {
	local.Main()
	if !local.InSandbox() {
		os.Exit(local.Reexec())
	}
	os.Exit(m.Run())
}

func TestHighAvailability(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a cluster")
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "our control plane")
}

var _ = Describe("our control plane", func() {
	It("keeps its promises when the etcd leader falls silent", func(ctx SpecContext) {
		dir := GinkgoT().TempDir()
		cluster, err := local.Create(ctx, clusters.Default(), local.Options{Dir: dir})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(cluster.Close)

		scenario, err := scenarios.Load("testdata/leader-silent.yaml")
		Expect(err).NotTo(HaveOccurred())
		out := record.Dir(dir, scenario.Metadata.Name)
		Expect(engine.Run(ctx, cluster, scenario.Experiment(), engine.Options{Dir: out})).To(Succeed())

		run, err := record.Read(out)
		Expect(err).NotTo(HaveOccurred())
		for _, verdict := range judge.Evaluate(run) {
			Expect(verdict.Verdict).To(BeElementOf(judge.Pass, judge.NotApplicable), verdict.Sentence)
		}
	})
})
