package scenarios

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/engine"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/judge"
	"github.com/holdfast-ha/holdfast/framework/nearest"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/yamlfile"
)

// The type of a scenario file.
const (
	APIVersion = yamlfile.APIVersion
	Kind       = "Scenario"
)

// Scenario is one experiment and the requirements that it settles.
type Scenario struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	Spec       Spec     `json:"spec"`
	// Missing is what the machine of a run lacks for it, set when the run is
	// planned; empty where nothing is missing.
	Missing string `json:"missing,omitempty" file:"-"`
	// MissingFor is the reason for single requirements, by ID, where it is not Missing.
	MissingFor map[string]string `json:"missingFor,omitempty" file:"-"`
	// ByDesign means that nothing is missing but that the cluster under test is made in
	// another way, so that the scenario makes no sense on it.
	ByDesign bool `json:"byDesign,omitempty" file:"-"`
	// Victim is the number of the node that it is to hit, and Of the name of the scenario
	// that it is a turn of, set by InTurn; 0 and empty for one that is not a turn.
	Victim int    `json:"victim,omitempty" file:"-"`
	Of     string `json:"of,omitempty" file:"-"`

	source *yamlfile.File // nil unless read from a file
}

// Metadata names a scenario.
type Metadata struct {
	// Name is a DNS label, the same as the file's name.
	Name string `json:"name"`
}

// Spec is what a scenario does.
type Spec struct {
	Summary string `json:"summary,omitempty"`
	// Profiles are those that the scenario belongs to: smoke, core, full, observe.
	Profiles []string `json:"profiles,omitempty"`
	// EachNode says that the requirements are about each node: on a cluster with more nodes than
	// the timeline names, the scenario is repeated with each node as the victim.
	EachNode bool `json:"eachNode,omitempty"`
	// MinNodes is how many control-plane nodes it takes, 1 where 0.
	MinNodes int `json:"minNodes,omitempty"`
	// MaxNodes is how many it takes at most, 7 where 0.
	MaxNodes int `json:"maxNodes,omitempty"`
	// Cluster is what the scenario asks of its cluster.
	Cluster      Topology       `json:"cluster,omitzero"`
	Traffic      engine.Traffic `json:"traffic,omitzero"`
	Probes       Probes         `json:"probes,omitzero"`
	Timeline     []engine.Step  `json:"timeline"`
	Requirements []Settles      `json:"requirements"`
}

// Topology is what a scenario asks of its cluster. What it leaves out is as the run
// has it. Scenarios that ask for the same share a cluster.
type Topology struct {
	// Name is that of one of Topologies, whose settings the other fields have then. Of
	// them a file may set only Own and Needs beside it.
	Name string `json:"topology,omitempty"`
	// Needs names the settings of the named topology that the scenario requires; all if empty.
	// The others only let it share a cluster with other scenarios, and are ignored on a cluster
	// that the user described.
	Needs []string `json:"needs,omitempty"`
	// LoadBalancer is the way to spread clients over the API servers.
	LoadBalancer string `json:"loadBalancer,omitempty"`
	// EtcdBalancer is how clients of etcd are spread: affinity or round-robin.
	EtcdBalancer string `json:"etcdBalancer,omitempty"`
	// Disk is what etcd's data pass through: none or fuse.
	Disk string `json:"disk,omitempty"`
	// Own is for a scenario that does not leave its cluster as it found it: no other
	// one runs on it.
	Own bool `json:"own,omitempty"`
	// Election says how elected components are: lease or supervisor, by component.
	Election map[string]string `json:"election,omitempty"`
	// ExtraArgs are arguments of components, by component and by flag without its
	// dashes, on top of the run's own.
	ExtraArgs map[string]map[string]string `json:"extraArgs,omitempty"`
	// RegisterNodes makes control-plane nodes Nodes of the API, whose heartbeats come
	// from themselves.
	RegisterNodes bool `json:"registerNodes,omitempty"`
	// Kubernetes and Etcd are versions, for a scenario that upgrades from them.
	Kubernetes string `json:"kubernetes,omitempty"`
	Etcd       string `json:"etcd,omitempty"`
	// Sysctls are kernel settings of the cluster's machines, on top of the run's own. One
	// that the kernel does not have is left out.
	Sysctls map[string]string `json:"sysctls,omitempty"`
}

// AsTheRun reports whether a scenario asks for nothing but the run's own cluster, or one like it.
func (t Topology) AsTheRun() bool {
	t.Own, t.Name, t.Needs = false, "", nil
	return reflect.ValueOf(t).IsZero()
}

// settings returns the settings that Needs may name.
func (t *Topology) settings() map[string]any {
	return map[string]any{"loadBalancer": &t.LoadBalancer, "etcdBalancer": &t.EtcdBalancer, "disk": &t.Disk, "election": &t.Election}
}

// Needed returns the topology without the settings that Needs does not name.
func (t Topology) Needed() Topology {
	if len(t.Needs) == 0 {
		return t
	}
	for name, setting := range t.settings() {
		if !slices.Contains(t.Needs, name) {
			reflect.ValueOf(setting).Elem().SetZero()
		}
	}
	t.Needs = nil
	return t
}

// Probes are the observers' own requests through each entrance.
type Probes struct {
	// Interval is between two quorum reads of an entrance on a persistent connection, 100 ms
	// where 0; all other probes follow from it (see observe.Config).
	Interval time.Duration `json:"interval,omitempty"`
}

// Settles is a requirement that the scenario gives evidence for, and how.
type Settles struct {
	ID     string            `json:"id"`
	Judge  string            `json:"judge"`
	Bound  string            `json:"bound,omitempty"`
	Fault  string            `json:"fault,omitempty"`
	Params map[string]string `json:"params,omitempty"`
}

// Profiles are the profiles: three by size, each of which settles what the previous ones do, and
// one that breaks nothing, for production clusters.
var Profiles = []string{"smoke", "core", "full", "observe"}

// In reports whether the scenario belongs to a profile.
func (s *Scenario) In(profile string) bool {
	return slices.Contains(s.Spec.Profiles, profile)
}

// NotFor returns why the scenario does not apply to a cluster with that many control-plane nodes;
// empty if it does.
func (s *Scenario) NotFor(nodes int) string {
	switch {
	case s.Missing != "":
		return s.Missing
	case nodes < s.Spec.MinNodes:
		return fmt.Sprintf("the scenario needs %d control-plane nodes or more, the cluster has %d", s.Spec.MinNodes, nodes)
	case s.Spec.MaxNodes != 0 && nodes > s.Spec.MaxNodes:
		return fmt.Sprintf("the scenario allows %d control-plane nodes at most, the cluster has %d", s.Spec.MaxNodes, nodes)
	}
	return ""
}

// Experiment returns the experiment for the engine.
func (s *Scenario) Experiment() engine.Experiment {
	e := engine.Experiment{Name: s.Metadata.Name, Traffic: s.Spec.Traffic, ProbeInterval: s.Spec.Probes.Interval, Victim: s.Victim, Timeline: s.Spec.Timeline}
	for _, r := range s.Spec.Requirements {
		level := "MUST"
		if known, ok := RequirementByID(r.ID); ok {
			level = known.Level
		}
		e.Checks = append(e.Checks, record.Check{Requirement: r.ID, Level: level, Judge: r.Judge, Bound: r.Bound, Fault: r.Fault, Params: r.Params})
	}
	return e
}

// Expected returns the approximate time of the scenario on a cluster with these settings, without
// creating it (see engine.Experiment.Expected).
func (s *Scenario) Expected(settings framework.Settings) time.Duration {
	return s.Experiment().Expected(settings)
}

//go:embed *.yaml
var files embed.FS

var all = sync.OnceValue(func() []*Scenario {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err)
	}
	var list []*Scenario
	for _, e := range entries {
		if e.Name() == "requirements.yaml" || e.Name() == "topologies.yaml" {
			continue
		}
		b, err := files.ReadFile(e.Name())
		if err != nil {
			panic(err)
		}
		s, err := Parse(e.Name(), b)
		if err != nil {
			panic(err) // the files are part of the program and tested with it
		}
		list = append(list, s)
	}
	// Scenarios without faults go first, on the cluster as created.
	slices.SortStableFunc(list, func(a, b *Scenario) int { return min(1, a.faults()) - min(1, b.faults()) })
	return list
})

// faults counts the steps that change the cluster.
func (s *Scenario) faults() int {
	n := 0
	for _, step := range s.Spec.Timeline {
		if step.Inject != nil || step.Action != nil && engine.ChangesNodes(step.Action.Name) {
			n++
		}
	}
	return n
}

// All returns the scenarios of the program, those without a fault first. Callers must not modify
// them.
func All() []*Scenario { return all() }

// Digest returns the SHA-256 digest of the catalogue: its requirements, topologies and scenarios.
func Digest() string { return digest() }

var digest = sync.OnceValue(func() string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err)
	}
	sum := sha256.New()
	for _, e := range entries {
		b, err := files.ReadFile(e.Name())
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(sum, "%s %d\n%s", e.Name(), len(b), b)
	}
	return hex.EncodeToString(sum.Sum(nil))
})

// Option extends what a scenario file may name.
type Option func(*engine.Options)

// WithFaults lets a scenario inject faults in addition to the built-in ones. engine.Run takes
// them, too.
func WithFaults(own ...*fault.Fault) Option {
	return func(o *engine.Options) { o.Faults = append(o.Faults, own...) }
}

// WithJudges lets a scenario name judges in addition to the built-in ones. engine.Run and
// judge.Evaluate take them, too.
func WithJudges(own ...judge.Judge) Option {
	return func(o *engine.Options) { o.Judges = append(o.Judges, own...) }
}

func collect(options []Option) (o engine.Options) {
	for _, option := range options {
		option(&o)
	}
	return o
}

// Load reads a scenario file; - stands for standard input. Errors name file, line, field and the
// allowed values.
func Load(path string, options ...Option) (*Scenario, error) {
	name, data, err := yamlfile.Load(path, "scenario")
	if err != nil {
		return nil, err
	}
	return Parse(name, data, options...)
}

// Parse reads a scenario from memory; name stands for it in errors.
func Parse(name string, data []byte, options ...Option) (*Scenario, error) {
	var s Scenario
	f, err := yamlfile.Decode(name, data, &s, yamlfile.Format{Want: "a " + Kind + " of " + APIVersion, Rules: rules(collect(options)), Typed: true})
	if f == nil {
		return nil, err
	}
	s.source = f
	if err := s.Spec.Cluster.expand(); err != nil {
		f.Problem("spec.cluster", "%v", err)
	}
	if least, most := s.Spec.MinNodes, s.Spec.MaxNodes; most != 0 && least > most {
		f.Problem("spec.minNodes", "%d is more than maxNodes, %d: the scenario applies to no cluster", least, most)
	}
	for i, r := range s.Spec.Requirements {
		path := fmt.Sprintf("spec.requirements[%d].id", i)
		if r.ID == "" || strings.HasPrefix(r.ID, "RUN/") {
			f.Problem(path, "%q: want an ID of the catalogue, or one of your own", r.ID)
		}
		switch known, ok := RequirementByID(r.ID); {
		case ok && known.Invariant():
			f.Problem(path, "%q: every scenario settles it without an entry; want another ID", r.ID)
		case !ok && strings.HasPrefix(r.ID, "HA-"):
			f.Problem(path, "%q is not in the catalogue: similar IDs are %s; an ID of your own must not begin with HA-", r.ID,
				strings.Join(nearest.Names(slices.Collect(maps.Keys(Titles())), r.ID, 3), ", "))
		}
	}
	for _, p := range s.Experiment().Validate(collect(options)) {
		if p.Path == "name" {
			p.Path = "metadata.name"
		} else {
			p.Path = "spec." + p.Path
		}
		f.Problem(p.Path, "%v", p.Err)
	}
	if err := f.Err(); err != nil {
		return nil, err
	}
	return &s, nil
}

// Fits returns an error if the scenario cannot run on a cluster with these control-plane nodes,
// such as for an injection into a node that does not exist.
func (s *Scenario) Fits(nodes []fault.Place) error {
	f := yamlfile.File{Name: "scenario " + s.Metadata.Name}
	if s.source != nil {
		f = *s.source
	}
	for _, p := range s.Experiment().Misplaced(nodes) {
		f.Problem("spec."+p.Path, "%v", p.Err)
	}
	return f.Err()
}

// File returns the name of the scenario's file; empty if there is none.
func (s *Scenario) File() string {
	if s.source == nil {
		return ""
	}
	return s.source.Name
}
