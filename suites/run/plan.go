package run

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-ha/holdfast/clusters"
	"github.com/holdfast-ha/holdfast/clusters/system"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/reports"
	"github.com/holdfast-ha/holdfast/scenarios"
)

// PlanFile is the name of the file with the plan of a run in its results directory.
const PlanFile = "plan.json"

// Plan is what a run is to do: workers read it, and so do later commands on
// the results directory.
type Plan struct {
	Run      string    `json:"run"`
	Provider string    `json:"provider"`
	Profile  string    `json:"profile"`
	Seed     uint64    `json:"seed"`
	Harness  string    `json:"harness"`
	Started  time.Time `json:"started"`
	Command  []string  `json:"command"`
	// Intensity is that of the traffic of scenarios which set none; see workload.Config.
	Intensity int `json:"intensity,omitempty"`
	// Cluster is the run's own; those of parts are it with what their scenarios
	// ask for.
	Cluster *clusters.Cluster `json:"cluster"`
	// Attach means that Cluster exists already and stays.
	Attach bool `json:"attach,omitempty"`
	// Footprint lists what the run would have on the nodes of such a cluster, if its owner consents to
	// it: files, units, tables. Only a dry run has it.
	Footprint []string `json:"footprint,omitempty"`
	// Rows are the requirements that the run is to certify, by ID; empty for a run that
	// certifies nothing.
	Rows []string `json:"rows,omitempty"`
	// Parts are started in turn, as many at a time as Parallel says. Expected is about
	// how long that takes.
	Parts     []Part                `json:"parts"`
	Parallel  int                   `json:"parallel"`
	Expected  time.Duration         `json:"expected"`
	Scenarios []*scenarios.Scenario `json:"scenarios"`
	Machine   reports.Machine       `json:"machine"`
	Problem   string                `json:"problem,omitempty"` // why it stopped early, or what it could not do
	Ended     time.Time             `json:"ended,omitzero"`
}

// New returns the plan of a run that starts now, of scenarios on the cluster of a provider or on
// similar ones, with the version of the program. It has no parts yet.
func New(provider clusters.Provider, c *clusters.Cluster, chosen []*scenarios.Scenario, seed uint64, harness string) *Plan {
	now := time.Now()
	return &Plan{Run: now.UTC().Format("20060102T150405Z") + SeedMark(seed), Provider: provider.Name(), Seed: seed,
		Harness: harness, Started: now, Command: os.Args, Cluster: c, Scenarios: chosen, Machine: machine()}
}

// SeedMark is the end of the name of a run with a seed.
func SeedMark(seed uint64) string { return fmt.Sprintf("-%08x", uint32(seed)) }

// Divide spreads the plan's scenarios over clusters of a provider, up to parallel at a time.
func (p *Plan) Divide(provider clusters.Provider, parallel int) (err error) {
	creation := clusters.Creation(provider)
	if p.Attach {
		creation = 0
	}
	parallel = min(parallel, max(len(p.Scenarios), 1)) // more would have nothing to run
	p.Parts, err = Divide(p.Cluster, p.Scenarios, parallel, creation)
	p.Parallel = max(min(parallel, len(p.Parts)), 1)
	p.Expected = slices.Max(append(Ends(p.Parts, p.Parallel), 0))
	return err
}

// Part returns the part with a scenario; the last one if it was repeated. A scenario that applies
// to no cluster of this size is in no part, and neither is any in the plan of a holdfast that ran
// all on one cluster.
func (p *Plan) Part(s *scenarios.Scenario) Part {
	if one := p.partOf(s.Metadata.Name); one != nil {
		return *one
	}
	c, err := Cluster(p.Cluster, s.Spec.Cluster)
	if err != nil {
		c = p.Cluster // an invalid one fails when the plan is made
	}
	return Part{Cluster: c}
}

// partOf is Part for the name of a scenario; nil if no part has it.
func (p *Plan) partOf(scenario string) *Part {
	for i := range slices.Backward(p.Parts) {
		if slices.Contains(p.Parts[i].Scenarios, scenario) {
			return &p.Parts[i]
		}
	}
	return nil
}

// Scenario returns a scenario of the plan.
func (p *Plan) Scenario(name string) (*scenarios.Scenario, error) {
	i := slices.IndexFunc(p.Scenarios, func(s *scenarios.Scenario) bool { return s.Metadata.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("the plan of the run has no scenario %q", name)
	}
	return p.Scenarios[i], nil
}

// Harmless reports whether the plan injects nothing into its cluster, and changes none of its nodes.
func (p *Plan) Harmless() bool {
	return !slices.ContainsFunc(p.Scenarios, func(s *scenarios.Scenario) bool {
		return s.NotFor(p.Part(s).Cluster.Size()) == "" && !s.Experiment().Harmless()
	})
}

// Effects returns the effects of each of the plan's faults, empty for one whose effects are not known.
// Faults with the same effects are listed once.
func (p *Plan) Effects() (all [][]record.Effect) {
	for _, s := range p.Scenarios {
		if s.NotFor(p.Part(s).Cluster.Size()) != "" {
			continue
		}
		for _, step := range s.Spec.Timeline {
			if step.Inject == nil {
				continue
			}
			effects := []record.Effect{}
			if f, err := fault.Find(step.Inject.Fault); err == nil {
				effects = slices.Sorted(slices.Values(f.EffectsWith(step.Inject.Params)))
			}
			all = append(all, effects)
		}
	}
	slices.SortFunc(all, slices.Compare[[]record.Effect])
	return slices.CompactFunc(all, slices.Equal[[]record.Effect])
}

// Refused returns why the run was refused before any of its scenarios ran, or was resumed and refused
// before another one ran; empty if it was not.
func (p *Plan) Refused() string {
	parts := slices.DeleteFunc(slices.Clone(p.Parts), func(one Part) bool { return one.earlier })
	if len(parts) == 0 || slices.ContainsFunc(parts, func(one Part) bool { return !one.refused || one.began }) {
		return ""
	}
	return p.Problem
}

// Save writes the plan to a results directory.
func (p *Plan) Save(dir string) error {
	var text bytes.Buffer
	err := reports.WriteJSON(&text, p)
	if err == nil {
		// Replaced atomically: later commands need it.
		err = system.ReplaceFile(filepath.Join(dir, PlanFile), text.Bytes(), 0o644, false)
	}
	if errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("failed to write the plan of the run: %w; free some space or name another directory with --out", err)
	}
	if err != nil {
		return fmt.Errorf("failed to write the plan of the run: %w", err)
	}
	return nil
}

// ErrNoResults is in the error of a Load for a directory without a holdfast plan.
var ErrNoResults = errors.New("not a results directory of holdfast")

// Load reads the plan in a results directory.
func Load(dir string) (*Plan, error) {
	path := filepath.Join(dir, PlanFile)
	b, err := os.ReadFile(path)
	if why := reports.NotDirectory(dir); why != "" {
		return nil, fmt.Errorf("%s: %w: it %s", dir, ErrNoResults, why)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w: %w; name a directory that holdfast run or holdfast certify wrote with --out", dir, ErrNoResults, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", dir, ErrNoResults, err)
	}
	var p Plan
	if err := reports.ReadJSON(b, &p); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrNoResults, err)
	}
	noCluster := p.Cluster == nil || slices.ContainsFunc(p.Parts, func(one Part) bool { return one.Cluster == nil })
	if noCluster || len(p.Scenarios) == 0 || slices.Contains(p.Scenarios, nil) {
		return nil, fmt.Errorf("%s: %w: no cluster or no scenario in it", path, ErrNoResults)
	}
	return &p, nil
}

// Clusters returns the plan's clusters, and others with the versions that the scenarios upgrade
// them to, since they need the programs of these versions, too.
func (p *Plan) Clusters() (all []*clusters.Cluster) {
	for _, part := range p.Parts {
		all = append(all, part.Cluster)
		for _, name := range part.Scenarios {
			s, err := p.Scenario(name)
			if err != nil {
				continue
			}
			for _, step := range s.Spec.Timeline {
				if step.Action == nil {
					continue
				}
				c := *part.Cluster
				switch step.Action.Name {
				case "upgrade":
					c.Spec.KubernetesVersion = step.Action.To
				case "upgrade-etcd":
					c.Spec.EtcdVersion = step.Action.To
				default: // rotate-ca moves to a stage
					continue
				}
				all = append(all, &c)
			}
		}
	}
	return all
}
