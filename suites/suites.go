// Package suites runs scenarios as Ginkgo specs: one spec per scenario, in an ordered container
// per cluster, which is created before the container's first spec and deleted after its last one.
//
//	ginkgo ./suites                                                # profile smoke
//	ginkgo -v --procs=2 --label-filter='core && QR' ./suites
//	ginkgo --dry-run -v --label-filter='HA-QR-005 || (core && LE)' ./suites
//	ginkgo --focus etcd-leader-killed ./suites -- --provider kind --out results/mine
//	go test ./suites -timeout 60m -args --profile core --seed 7
//
// Ginkgo's own flags work as usual. Flags of the suite (see Options.AddFlags), behind "--" or
// "-args", or environment variables set what is under test. The results directory contains the same
// layout as that of `holdfast run`, also with several processes.
//
// A spec fails with one failure per failed requirement; its text is the judge's sentence. A
// scenario that is inconclusive or not applicable is skipped, with the reason. If any is
// inconclusive, the suite fails in its last node, which names them.
//
// The machine must meet the requirements of `holdfast doctor`. Binaries that are not in the cache
// are fetched before the first spec.
package suites

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/reports"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// Main runs the tests of a suite and returns their exit code. It does not return in copies of the
// program that a provider or a suite started (nodes, sandboxes, workers). It is for TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(suites.Main(m, options)) }
func Main(m *testing.M, o *Options) int {
	clusters.Main(o.Providers...)
	run.Program{Providers: o.Providers, Faults: o.Faults, Judges: o.Judges}.Main()
	dieWithParent()
	return m.Run()
}

// RunSpecs registers a spec for each scenario that the options choose, and runs all Ginkgo specs of
// the test binary. The suite must not have its own BeforeSuite node, since Ginkgo allows one and
// this function adds it.
func RunSpecs(t *testing.T, o *Options, description string) {
	t.Helper()
	config, _ := ginkgo.GinkgoConfiguration()
	s, err := newSuite(t.Context(), o, config)
	if err != nil {
		t.Fatal(err)
	}
	gomega.RegisterFailHandler(ginkgo.Fail)
	s.register()
	s.plan.Parts, s.idle = s.parts(s.all, 1), nil
	if err := s.choose(ginkgo.PreviewSpecs(description, config), config.ParallelTotal); err != nil {
		t.Fatal(err)
	}
	ginkgo.RunSpecs(t, description, config)
}

// suite is the state that the specs share.
type suite struct {
	options  *Options
	provider clusters.Provider
	all      []*scenarios.Scenario // the registered ones
	plan     *run.Plan             // of those that run
	idle     []run.Part            // of the others, which Ginkgo skips
	dir      string                // results directory, once it exists
}

func newSuite(ctx context.Context, o *Options, config types.SuiteConfig) (*suite, error) {
	provider, err := o.provider()
	if err != nil {
		return nil, err
	}
	spec, err := o.cluster(ctx, provider)
	if err != nil {
		return nil, err
	}
	all, err := o.scenarios()
	if err == nil {
		all, err = o.chosen(all, config)
	}
	if err != nil {
		return nil, err
	}
	all = run.Here(provider, spec, all)
	switch {
	case o.Attach != "":
		all = run.AsItIs(ctx, provider, spec, all)
	case o.ClusterFile != "" || o.Cluster != nil:
		all = run.AsDescribed(spec, all)
	}
	all = run.InTurn(spec, all, 1, (*scenarios.Scenario).MissesNodes)
	s := &suite{options: o, provider: provider, all: all}
	s.plan = run.New(provider, spec, s.all, cmp.Or(o.Seed, uint64(ginkgo.GinkgoRandomSeed())), o.harness())
	s.plan.Attach = o.Attach != ""
	s.plan.Profile, s.plan.Intensity = o.Profile, cmp.Or(o.Intensity, run.Intensity(o.Profile))
	// An error names a scenario that asks for an impossible cluster.
	_, err = run.Divide(spec, s.all, 1, 0)
	return s, err
}

// parts divides scenarios into parts for up to parallel clusters at a time. The result is the
// same in all processes of a suite.
func (s *suite) parts(some []*scenarios.Scenario, parallel int) []run.Part {
	creation := clusters.Creation(s.provider)
	if s.plan.Attach {
		parallel, creation = 1, 0
	}
	parts, _ := run.Divide(s.plan.Cluster, some, parallel, creation) // newSuite has tried it
	return parts
}

// choose plans what Ginkgo will run according to its preview.
func (s *suite) choose(preview ginkgo.Report, parallel int) error {
	runs := map[string]bool{}
	for _, spec := range preview.SpecReports {
		if spec.LeafNodeType == types.NodeTypeIt && !spec.State.Is(types.SpecStateSkipped|types.SpecStatePending) {
			runs[spec.LeafNodeText] = true
		}
	}
	var chosen, rest []*scenarios.Scenario
	for _, one := range s.all {
		if runs[one.Metadata.Name] {
			chosen = append(chosen, one)
		} else {
			rest = append(rest, one)
		}
	}
	s.plan.Scenarios, s.plan.Parts, s.idle = chosen, s.parts(chosen, parallel), s.parts(rest, 1)
	if len(runs) == 0 && preview.SuiteConfig.FailOnEmpty {
		return fmt.Errorf("no scenario and no other spec matches the filters")
	}
	return nil
}

// register declares the specs. Ginkgo builds the tree twice: for the preview and to run.
func (s *suite) register() {
	ginkgo.SynchronizedBeforeSuite(s.prepare, s.join)
	ginkgo.ReportAfterSuite("verdicts", s.report)
	ginkgo.Describe("control plane", func() {
		for i := range s.plan.Parts {
			s.container(&s.plan.Parts[i])
		}
		for i := range s.idle {
			s.container(&s.idle[i])
		}
		for _, one := range s.all {
			if why := s.notFor(one); why != "" {
				ginkgo.It(one.Metadata.Name, s.labels(one), func() { ginkgo.Skip("not applicable: " + why) })
			}
		}
	})
}

// notFor returns why a scenario does not apply to its cluster; empty if it does.
func (s *suite) notFor(one *scenarios.Scenario) string {
	c, err := run.Cluster(s.plan.Cluster, one.Spec.Cluster)
	if err != nil {
		return err.Error()
	}
	return one.NotFor(c.Size())
}

// patience is how long Ginkgo waits for a spec that was interrupted or timed out: active faults are
// healed first, some of which takes a minute and a half.
const patience = ginkgo.GracePeriod(2 * time.Minute)

// container declares the specs that share a cluster.
func (s *suite) container(part *run.Part) {
	ginkgo.Describe(topology(part.Cluster), ginkgo.Ordered, ginkgo.ContinueOnFailure, func() {
		on := &onCluster{suite: s, part: part}
		ginkgo.BeforeAll(on.create, patience)
		for _, name := range part.Scenarios {
			i := slices.IndexFunc(s.all, func(one *scenarios.Scenario) bool { return one.Metadata.Name == name })
			ginkgo.It(name, s.labels(s.all[i]), patience, func(ctx ginkgo.SpecContext) { on.spec(ctx, name) })
		}
	})
}

// topology describes a cluster in the text of its container.
func topology(c *clusters.Cluster) string {
	words := []string{"of " + reports.Plural(len(c.Spec.Nodes), "node"), "balancer " + string(c.Spec.LoadBalancer.Kind)}
	if c.Spec.EtcdBalancer != "" {
		words = append(words, "etcd balancer "+string(c.Spec.EtcdBalancer))
	}
	if c.Spec.Disk != clusters.DiskNone {
		words = append(words, "disk "+string(c.Spec.Disk))
	}
	return strings.Join(append(words, run.ArgumentLines(c.Spec.ExtraArgs)...), ", ")
}
