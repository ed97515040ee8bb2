package reports

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge"
)

// FormatVersion is the version of results.json. Load refuses others.
const FormatVersion = 2

// checkPrefix marks results on the harness itself, RUN/harness, apart from the
// requirements of the catalogue.
const checkPrefix = "RUN/"

// Run says which run the verdicts belong to.
type Run struct {
	// ID identifies the run.
	ID string `json:"id"`
	// Provider is the provider of the cluster, such as local.
	Provider string `json:"provider"`
	// Profile is the profile that selected the scenarios, such as smoke.
	Profile string `json:"profile,omitempty"`
	// Seed replays the run's traffic and schedule of faults. It is a string in JSON, since it
	// takes all 64 bits, which half of the readers would round as a number.
	Seed uint64 `json:"seed,string" jsonschema:"type=string,pattern=^[0-9]+$"`
	// Started and Ended are wall times.
	Started  time.Time `json:"started"`
	Ended    time.Time `json:"ended"`
	Versions Versions  `json:"versions"`
	Machine  Machine   `json:"machine"`
	// Command is the command line that made the run, program included.
	Command []string `json:"command"`
	// Nodes and Versions are those of the run's own cluster.
	Nodes []Node `json:"nodes"`
	// Clusters are all that were made for the run; empty where that is not known.
	Clusters []Cluster `json:"clusters,omitempty"`
	// Times say where the time of each scenario went; empty where that is not known.
	Times []ScenarioTime `json:"times,omitempty"`
	// Problem says why the run stopped early, or what it could not do, such as release its cluster;
	// empty for a run without a problem.
	Problem string `json:"problem,omitempty"`
	// Certificate is what a certification amounts to; nil for other runs.
	Certificate *Certificate `json:"certificate,omitempty"`
	// NotJudged says how many requirements the run did not judge, and why; empty if none.
	// It follows from the catalogue and is not in results.json.
	NotJudged string `json:"-"`
}

// Certificate is the outcome of a certification. It covers its rows alone, and the experiments
// judge others as well.
type Certificate struct {
	Certified bool `json:"certified"`
	// Judgement says the outcome in a sentence.
	Judgement string `json:"judgement"`
	// ExitCode is that of holdfast certify if the run had no problem.
	ExitCode int `json:"exitCode"`
	// Rows are the IDs of the requirements that it covers, invariants included.
	Rows []string `json:"rows"`
	// Open says which of them are not certified, and why: a certificate asks for more than that they
	// pass.
	Open []string `json:"open,omitempty"`
}

// verdict returns the verdict of a certification as that of a run.
func (c *Certificate) verdict() judge.Verdict {
	switch {
	case c.Certified, c.ExitCode == ExitPass:
		return judge.Pass
	case c.ExitCode == ExitFail:
		return judge.Fail
	}
	return judge.Inconclusive
}

// Versions are the versions of what took part in a run.
type Versions struct {
	Kubernetes string `json:"kubernetes"`
	Etcd       string `json:"etcd"`
	Kwok       string `json:"kwok,omitempty"`
	Holdfast   string `json:"holdfast"`
}

// Machine is the machine that the harness ran on.
type Machine struct {
	OS     string `json:"os,omitempty"`
	Arch   string `json:"arch,omitempty"`
	Kernel string `json:"kernel,omitempty"`
	Cores  int    `json:"cores"`
	// MemoryBytes is the machine's memory; 0 where it is not known.
	MemoryBytes uint64 `json:"memoryBytes,omitempty"`
}

// Node is a control-plane node of the cluster under test.
type Node struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	// Versions are component versions by component.
	Versions map[string]string `json:"versions,omitempty"`
}

// Requirement is the verdict on one requirement over all scenarios of a run.
type Requirement struct {
	// ID is that of the catalogue, such as HA-EP-003.
	ID string `json:"id"`
	// Level is MUST, SHOULD or INFO, which is measured and shown and never fails a run.
	Level string `json:"level" jsonschema:"enum=MUST,enum=SHOULD,enum=INFO"`
	// Title is the requirement's text in the catalogue; may be empty.
	Title   string        `json:"title,omitempty"`
	Verdict judge.Verdict `json:"verdict"`
	// Justified means that it does not apply because of the cluster's design, according to all
	// results. Otherwise, what does not apply cannot be tested here.
	Justified bool `json:"justified,omitempty"`
	// Bound, Measured, MeasuredDuration and Sentence are those of the judge and
	// scenario that decided: the worst verdict and, among equals, the measured value
	// closest to or furthest beyond its bound.
	Bound            *judge.Bound   `json:"bound,omitempty"`
	Measured         string         `json:"measured,omitempty"`
	MeasuredDuration *time.Duration `json:"measuredDuration,omitempty"`
	Sentence         string         `json:"sentence"`
	// DecidedBy is that scenario.
	DecidedBy string `json:"decidedBy"`
	// Scenarios are the scenarios that gave a result, in order of name.
	Scenarios []string `json:"scenarios"`
}

// Check reports whether r is a check of the harness itself rather than a requirement of
// the catalogue.
func (r Requirement) Check() bool { return strings.HasPrefix(r.ID, checkPrefix) }

// Results is what results.json holds.
type Results struct {
	// Version is that of this format.
	Version int `json:"version"`
	// Verdict is that of the whole run, and ExitCode the program's exit code for it: 0 if
	// all pass or are not applicable, 1 if a MUST or SHOULD failed, 3 if inconclusive or if the
	// run had a problem. For a certification without one they are the certificate's.
	Verdict  judge.Verdict `json:"verdict"`
	ExitCode int           `json:"exitCode"`
	Run      Run           `json:"run"`
	// Requirements are merged over the scenarios and judges that settle them: any fail, else
	// any inconclusive, else pass; not applicable only where all were.
	Requirements []Requirement `json:"requirements"`
	// Checks are those of the harness itself. They change no other verdict.
	Checks []Requirement `json:"checks"`
	// Results are the verdicts they were merged from, one per check and
	// scenario.
	Results []judge.Result `json:"results"`
}

// New merges the results of a run. Titles are requirement titles by ID and may
// be nil.
func New(run Run, results []judge.Result, titles map[string]string) *Results {
	sorted := slices.Clone(results)
	for i := range sorted {
		sorted[i].Verdict = known(sorted[i].Verdict)
		sorted[i].Level = knownLevel(sorted[i].Level)
	}
	slices.SortStableFunc(sorted, compareResults)
	code := ExitCode(sorted)
	r := &Results{
		Run:          run,
		Version:      FormatVersion,
		Verdict:      overall(code, sorted),
		ExitCode:     code,
		Requirements: Merge(sorted, titles),
		Checks:       Checks(sorted, titles),
		Results:      sorted,
	}
	if c := run.Certificate; c != nil {
		r.Verdict, r.ExitCode = c.verdict(), c.ExitCode
	}
	if run.Problem != "" && r.ExitCode == ExitPass {
		r.ExitCode = ExitInconclusive
		if run.Certificate == nil { // whose rows are settled
			r.Verdict = judge.Inconclusive
		}
	}
	return r
}

// All returns the requirements followed by the checks of the harness, as Print takes
// them.
func (r *Results) All() []Requirement {
	return slices.Concat(r.Requirements, r.Checks)
}

func overall(code int, results []judge.Result) judge.Verdict {
	switch code {
	case ExitFail:
		return judge.Fail
	case ExitInconclusive:
		return judge.Inconclusive
	}
	for _, r := range results {
		if r.Verdict == judge.Pass || r.Verdict == judge.Fail {
			return judge.Pass
		}
	}
	return judge.NotApplicable
}
