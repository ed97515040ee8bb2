package ha

import (
	"os"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/local"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/engine"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/scenarios"
)

// A test binary is also what the nodes run: Main turns copies of it into them, and Reexec
// puts the tests into the sandbox in which all of it lives and ends.
func TestMain(m *testing.M) {
	local.Main()
	if !local.InSandbox() {
		os.Exit(local.Reexec())
	}
	os.Exit(m.Run())
}

func TestHighAvailability(t *testing.T) {
	if testing.Short() {
		t.Skip("makes clusters")
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "Acme's control plane")
}

// What Acme brings along.
var (
	faults = []*fault.Fault{Stutter}
	judges = []judge.Judge{KeepsLease}
)

// create makes a cluster of Acme's that is deleted when the spec is over.
func create(ctx SpecContext, described *clusters.Cluster) framework.Cluster {
	GinkgoHelper()
	provider := Provider{}
	Expect(provider.Lacks(described)).To(BeEmpty())
	cluster, err := provider.Create(ctx, described, clusters.Options{Dir: GinkgoT().TempDir()})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(cluster.Close)
	return cluster
}

// settle runs a scenario on a cluster and returns what the judges found: several results may
// be about one requirement. A machine that is overloaded makes verdicts inconclusive; then the
// scenario is run again, twice at most.
func settle(ctx SpecContext, cluster framework.Cluster, file string) []judge.Result {
	GinkgoHelper()
	scenario, err := scenarios.Load(file, scenarios.WithFaults(faults...), scenarios.WithJudges(judges...))
	Expect(err).NotTo(HaveOccurred())

	var results []judge.Result
	for range 3 {
		dir := record.Dir(GinkgoT().TempDir(), scenario.Metadata.Name)
		Expect(engine.Run(ctx, cluster, scenario.Experiment(), engine.Options{
			Dir: dir, Provider: Provider{}.Name(), Faults: faults, Judges: judges,
			Progress: func(line string) { GinkgoWriter.Println(line) },
		})).To(Succeed())

		run, err := record.Read(dir)
		Expect(err).NotTo(HaveOccurred())
		conclusive := true
		results = judge.Evaluate(run, judges...)
		for _, result := range results {
			GinkgoWriter.Printf("%s %s: %s\n", result.Verdict, result.Requirement, result.Sentence)
			conclusive = conclusive && result.Verdict != judge.Inconclusive
		}
		if conclusive {
			break
		}
	}
	return results
}

var _ = Describe("Acme's control plane", func() {
	It("keeps its promises when its hosts pause and the etcd leader falls silent", func(ctx SpecContext) {
		for _, result := range settle(ctx, create(ctx, clusters.Default()), "testdata/pauses.yaml") {
			Expect(result.Verdict).To(BeElementOf(judge.Pass, judge.NotApplicable), result.Sentence)
		}
	})

	// A judge that has never failed is not to be relied on: this cluster breaks the promise.
	It("is caught when leases are shorter than the pauses that they are to outlast", func(ctx SpecContext) {
		hasty := clusters.Default()
		hasty.Spec.ExtraArgs = clusters.ExtraArgs{framework.ControllerManager: {
			"leader-elect-lease-duration": "2s",
			"leader-elect-renew-deadline": "1500ms",
			"leader-elect-retry-period":   "500ms",
		}}
		result := settle(ctx, create(ctx, hasty), "testdata/pauses.yaml")[0]
		Expect(result.Requirement).To(Equal("ACME-001"))
		Expect(result.Verdict).To(Equal(judge.Fail), result.Sentence)
		Expect(result.Sentence).To(ContainSubstring("must keep its lease through the stutter of kube-controller-manager"))
	})
})
