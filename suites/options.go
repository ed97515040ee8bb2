package suites

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/onsi/ginkgo/v2/types"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/workload"
	"github.com/holdfast-ha/holdfast/scenarios"
	"github.com/holdfast-ha/holdfast/suites/run"
)

// Options set what a suite runs, and on what. Providers is required; all other fields have useful
// zero values.
type Options struct {
	// Providers are the providers that a user can choose from; the first one is the default.
	Providers []clusters.Provider
	// Provider is the name of the provider that creates the clusters; empty for the default.
	Provider string
	// Cluster describes the cluster under test, clusters.Default() if it is nil. A
	// ClusterFile replaces it.
	Cluster     *clusters.Cluster
	ClusterFile string
	// Attach is an existing cluster that the suite takes over instead, and releases at the end: what
	// the provider's clusters.Attacher describes, such as the name of a kind cluster or, for the
	// provider remote, the file of an inventory.
	Attach string
	// Scenarios are registered in addition to those of the catalogue and those in Files.
	Scenarios []*scenarios.Scenario
	Files     []string
	// Faults and Judges are those that these scenarios may name in addition to the built-in ones.
	Faults []*fault.Fault
	Judges []judge.Judge
	// Profile limits the scenarios to a profile. Without a profile, and if Ginkgo's flags filter
	// nothing, the suite runs its own scenarios or, if it has none, the profile smoke.
	Profile string
	// Out is the results directory, which the suite creates; empty for results/DATE-TIME. If it
	// is not empty, as with --repeat, the suite uses OUT.2 and so on.
	Out string
	// Seed is the seed of traffic and faults; Ginkgo's random seed if it is 0.
	Seed uint64
	// Intensity multiplies the traffic of scenarios; if it is 0, it is 3 for the profile full and
	// 1 for the others.
	Intensity int
	// Harness is the version of the program, for records; the version of the main module
	// if it is empty.
	Harness string
}

// own is the label of scenarios that are not in the catalogue.
const own = "own"

// AddFlags adds the flags of a suite, each of which can also be set by an environment variable:
// --provider (HOLDFAST_PROVIDER), --cluster (HOLDFAST_CLUSTER), --attach (HOLDFAST_ATTACH), --file
// (HOLDFAST_FILE), --profile (HOLDFAST_PROFILE), --out (HOLDFAST_OUT), --seed (HOLDFAST_SEED),
// --intensity (HOLDFAST_INTENSITY). A flag overrides its variable, and both override the field. Call
// it before the flags are parsed, as in TestMain. An error names a variable with an invalid value.
func (o *Options) AddFlags(flags *flag.FlagSet) error {
	var problems []error
	add := func(name, usage string, set func(string) error) {
		variable := "HOLDFAST_" + strings.ToUpper(name)
		flags.Func(name, usage+" (or $"+variable+")", set)
		if v := os.Getenv(variable); v != "" {
			if err := set(v); err != nil {
				problems = append(problems, fmt.Errorf("%s=%s: %w", variable, v, err))
			}
		}
	}
	text := func(into *string) func(string) error {
		return func(v string) error { *into = v; return nil }
	}
	names := framework.Names(o.Providers, clusters.Provider.Name)
	add("provider", "provider of the clusters: "+strings.Join(names, ", "), text(&o.Provider))
	add("cluster", "`file` that describes the cluster under test", text(&o.ClusterFile))
	add("attach", "existing `cluster` to take over: the name of a kind cluster or, with --provider remote, the file of an inventory", text(&o.Attach))
	add("file", "scenario `files` of your own, separated by commas", func(v string) error { o.Files = strings.Split(v, ","); return nil })
	add("profile", "only the scenarios of a profile: "+strings.Join(scenarios.Profiles, ", "), text(&o.Profile))
	add("out", "results `directory`; default results/DATE-TIME", text(&o.Out))
	add("seed", "seed of traffic and faults; default Ginkgo's", func(v string) (err error) {
		o.Seed, err = strconv.ParseUint(v, 10, 64)
		return err
	})
	add("intensity", "multiple of the default traffic; 3 if it is not set and the profile is full", func(v string) (err error) {
		if o.Intensity, err = strconv.Atoi(v); err == nil && (o.Intensity < 1 || o.Intensity > workload.MaxIntensity) {
			err = fmt.Errorf("want 1 to %d", workload.MaxIntensity)
		}
		return err
	})
	return errors.Join(problems...)
}

func (o *Options) provider() (clusters.Provider, error) {
	if len(o.Providers) == 0 {
		return nil, errors.New("the suite has no providers; set Options.Providers")
	}
	names := framework.Names(o.Providers, clusters.Provider.Name)
	i := slices.Index(names, cmp.Or(o.Provider, names[0]))
	if i < 0 {
		return nil, fmt.Errorf("--provider %s: want one of %s", o.Provider, strings.Join(names, ", "))
	}
	return o.Providers[i], nil
}

// cluster returns the description of the cluster under test: of one to create, or of the existing one.
func (o *Options) cluster(ctx context.Context, provider clusters.Provider) (*clusters.Cluster, error) {
	if o.Attach != "" {
		a, ok := provider.(clusters.Attacher)
		switch {
		case !ok:
			return nil, fmt.Errorf("--attach %s: the provider %s creates its clusters and cannot take one over", o.Attach, provider.Name())
		case o.ClusterFile != "" || o.Cluster != nil:
			return nil, fmt.Errorf("--attach %s: a cluster that is taken over keeps its settings; leave out the description of a cluster", o.Attach)
		}
		return a.Describe(ctx, o.Attach)
	}
	c, err := o.described()
	if err != nil {
		return nil, err
	}
	if why := provider.Lacks(c); why != "" {
		return nil, fmt.Errorf("the provider %s cannot create the cluster: %s", provider.Name(), why)
	}
	return c, nil
}

func (o *Options) described() (*clusters.Cluster, error) {
	switch {
	case o.ClusterFile != "":
		return clusters.Load(o.ClusterFile)
	case o.Cluster != nil:
		return o.Cluster, o.Cluster.Validate()
	}
	return clusters.Default(), nil
}

// scenarios returns the suite's own scenarios, then those of the catalogue.
func (o *Options) scenarios() ([]*scenarios.Scenario, error) {
	all := slices.Clone(o.Scenarios)
	if len(o.Files) > 0 {
		files, err := run.Choose("", nil, o.Files, scenarios.WithFaults(o.Faults...), scenarios.WithJudges(o.Judges...))
		if err != nil {
			return nil, err
		}
		all = append(all, files...)
	}
	all = append(all, scenarios.All()...)
	for i, s := range all {
		if slices.ContainsFunc(all[:i], func(o *scenarios.Scenario) bool { return o.Metadata.Name == s.Metadata.Name }) {
			return nil, fmt.Errorf("there are two scenarios named %s; names must differ", s.Metadata.Name)
		}
	}
	return all, nil
}

// chosen returns those of all scenarios from which Ginkgo's flags select: those of the profile or,
// without one and if the flags filter nothing, the suite's own or, if it has none, the profile
// smoke. A label filter would do the same, and skip other specs of the test binary.
func (o *Options) chosen(all []*scenarios.Scenario, config types.SuiteConfig) ([]*scenarios.Scenario, error) {
	filters := len(config.FocusStrings) + len(config.SkipStrings) + len(config.FocusFiles) + len(config.SkipFiles)
	profile := o.Profile
	switch {
	case profile != "" && !slices.Contains(scenarios.Profiles, profile):
		return nil, fmt.Errorf("--profile %s: want one of %s", profile, strings.Join(scenarios.Profiles, ", "))
	case profile != "":
	case config.LabelFilter != "" || filters > 0:
		return all, nil
	case len(o.Scenarios)+len(o.Files) > 0:
		return all[:len(all)-len(scenarios.All())], nil
	default:
		profile = scenarios.Profiles[0]
	}
	return slices.DeleteFunc(slices.Clone(all), func(s *scenarios.Scenario) bool { return !s.In(profile) }), nil
}

func (o *Options) harness() string {
	if o.Harness != "" {
		return o.Harness
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}
