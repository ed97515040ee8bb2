package reports

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/holdfast-ha/holdfast/framework/judge"
)

// Schema is the published JSON schema of results.json.
//
//go:embed results.schema.json
var Schema []byte

// resultsFile is the name of the file that Load reads.
const resultsFile = "results.json"

// The types below are results.json as it is on disk. Each duration stands
// there twice: in nanoseconds (*_ns) for programs and as a string for people.

type resultsDoc struct {
	Version      int              `json:"version"`
	Verdict      judge.Verdict    `json:"verdict"`
	ExitCode     int              `json:"exit_code"`
	Run          runDoc           `json:"run"`
	Requirements []requirementDoc `json:"requirements"`
	Checks       []requirementDoc `json:"checks"`
	Results      []resultDoc      `json:"results"`
}

type runDoc struct {
	ID       string `json:"id"`
	Provider string `json:"provider"`
	Profile  string `json:"profile,omitempty"`
	// A seed takes all 64 bits; as a number, half of the JSON readers would
	// round it and replay another run.
	Seed       uint64    `json:"seed,string"`
	Started    time.Time `json:"started"`
	Ended      time.Time `json:"ended"`
	DurationNS int64     `json:"duration_ns"`
	Duration   string    `json:"duration"`
	Versions   Versions  `json:"versions"`
	Machine    Machine   `json:"machine"`
	Command    []string  `json:"command"`
	Nodes      []Node    `json:"nodes"`
	Problem    string    `json:"problem,omitempty"`
	// Clusters and Time are missing where they are not known.
	Clusters []clusterDoc `json:"clusters,omitempty"`
	Time     *timeDoc     `json:"time,omitempty"`
}

type boundDoc struct {
	Formula  string           `json:"formula"`
	InputsNS map[string]int64 `json:"inputs_ns"`
	LimitNS  int64            `json:"limit_ns"`
	Limit    string           `json:"limit"`
	Text     string           `json:"text"`
}

type requirementDoc struct {
	ID         string        `json:"id"`
	Level      string        `json:"level"`
	Title      string        `json:"title,omitempty"`
	Verdict    judge.Verdict `json:"verdict"`
	Bound      *boundDoc     `json:"bound"`
	Measured   string        `json:"measured"`
	MeasuredNS *int64        `json:"measured_ns,omitempty"`
	Sentence   string        `json:"sentence"`
	DecidedBy  string        `json:"decided_by"`
	Scenarios  []string      `json:"scenarios"`
}

type resultDoc struct {
	Requirement string        `json:"requirement"`
	Level       string        `json:"level"`
	Scenario    string        `json:"scenario"`
	Judge       string        `json:"judge"`
	Verdict     judge.Verdict `json:"verdict"`
	Bound       *boundDoc     `json:"bound"`
	Measured    string        `json:"measured"`
	MeasuredNS  *int64        `json:"measured_ns,omitempty"`
	Sentence    string        `json:"sentence"`
	Evidence    []string      `json:"evidence"`
	// Times in it are nanoseconds from the start of the scenario's record.
	Exhibit *judge.Exhibit `json:"exhibit,omitempty"`
}

// MarshalJSON writes r in the format of results.json.
func (r *Results) MarshalJSON() ([]byte, error) {
	doc := resultsDoc{
		Version:      FormatVersion,
		Verdict:      r.Verdict,
		ExitCode:     r.ExitCode,
		Run:          encodeRun(r.Run),
		Requirements: encodeRequirements(r.Requirements),
		Checks:       encodeRequirements(r.Checks),
		Results:      make([]resultDoc, 0, len(r.Results)),
	}
	for _, res := range r.Results {
		doc.Results = append(doc.Results, resultDoc{
			Requirement: res.Requirement, Level: res.Level, Scenario: res.Scenario, Judge: res.Judge,
			Verdict: res.Verdict, Bound: encodeBound(res.Bound),
			Measured: res.Measured, MeasuredNS: (*int64)(res.MeasuredNanos),
			Sentence: res.Sentence, Evidence: notNil(res.Evidence), Exhibit: res.Exhibit,
		})
	}
	return json.Marshal(doc)
}

// UnmarshalJSON reads the format of results.json. It refuses what the schema
// refuses.
func (r *Results) UnmarshalJSON(data []byte) error {
	if err := Validate(data); err != nil {
		return err
	}
	var doc resultsDoc
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&doc); err != nil {
		return err
	}
	*r = Results{
		Run:          decodeRun(doc.Run),
		Verdict:      doc.Verdict,
		ExitCode:     doc.ExitCode,
		Requirements: decodeRequirements(doc.Requirements),
		Checks:       decodeRequirements(doc.Checks),
	}
	for _, res := range doc.Results {
		r.Results = append(r.Results, judge.Result{
			Requirement: res.Requirement, Level: res.Level, Scenario: res.Scenario, Judge: res.Judge,
			Verdict: res.Verdict, Bound: decodeBound(res.Bound),
			Measured: res.Measured, MeasuredNanos: (*time.Duration)(res.MeasuredNS),
			Sentence: res.Sentence, Evidence: res.Evidence, Exhibit: res.Exhibit,
		})
	}
	return nil
}

// Load reads the results.json of a results directory. It is strict: a file that
// does not match the schema is refused with the place that is wrong.
func Load(dir string) (*Results, error) {
	path := filepath.Join(dir, resultsFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read results: no %s in %s: name a results directory as holdfast run leaves it, or derive the verdicts again from its record with: holdfast judge %s",
			resultsFile, dir, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	var r Results
	if err := r.UnmarshalJSON(data); err != nil {
		return nil, fmt.Errorf("read results: %s: %w", path, err)
	}
	return &r, nil
}

// Validate tells whether data is a valid results.json, and if not, where it
// breaks the schema.
func Validate(data []byte) error {
	// Told apart first, since every other complaint follows from it.
	var version struct {
		Version *int `json:"version"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return fmt.Errorf("not valid JSON, perhaps cut short: %w", err)
	}
	if version.Version != nil && *version.Version != FormatVersion {
		return fmt.Errorf("format version %d, but this holdfast reads version %d: use the holdfast that wrote it", *version.Version, FormatVersion)
	}
	schema, err := compileSchema()
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("not valid JSON, perhaps cut short: %w", err)
	}
	if err := schema.Validate(value); err != nil {
		return fmt.Errorf("not a results file of holdfast: %s", places(err))
	}
	return nil
}

func compileSchema() (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema))
	if err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", resultsFile, err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("results.schema.json", doc); err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", resultsFile, err)
	}
	return c.Compile("results.schema.json")
}

// places renders a schema violation as "at '/run/seed': ...", one per cause.
func places(err error) string {
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return err.Error()
	}
	var lines []string
	for line := range strings.Lines(invalid.Error()) {
		line = strings.TrimLeft(strings.TrimSpace(line), "- ")
		if strings.HasPrefix(line, "at ") && !strings.HasSuffix(line, "failed") {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return oneLine(invalid.Error())
	}
	return strings.Join(lines, "; ")
}

func encodeRun(run Run) runDoc {
	took := run.Ended.Sub(run.Started)
	return runDoc{
		ID: run.ID, Provider: run.Provider, Profile: run.Profile, Seed: run.Seed,
		Started: run.Started, Ended: run.Ended, DurationNS: int64(took), Duration: human(took),
		Versions: run.Versions, Machine: run.Machine,
		Command: notNil(run.Command), Nodes: notNil(run.Nodes), Problem: run.Problem,
		Clusters: encodeClusters(run.Clusters), Time: encodeTimes(run),
	}
}

func decodeRun(doc runDoc) Run {
	return Run{
		ID: doc.ID, Provider: doc.Provider, Profile: doc.Profile, Seed: doc.Seed,
		Started: doc.Started, Ended: doc.Ended, Versions: doc.Versions, Machine: doc.Machine,
		Command: doc.Command, Nodes: doc.Nodes, Problem: doc.Problem,
		Clusters: decodeClusters(doc.Clusters), Times: decodeTimes(doc.Time),
	}
}

func encodeRequirements(reqs []Requirement) []requirementDoc {
	docs := make([]requirementDoc, 0, len(reqs))
	for _, r := range reqs {
		docs = append(docs, requirementDoc{
			ID: r.ID, Level: r.Level, Title: r.Title, Verdict: r.Verdict, Bound: encodeBound(r.Bound),
			Measured: r.Measured, MeasuredNS: (*int64)(r.MeasuredNanos),
			Sentence: r.Sentence, DecidedBy: r.DecidedBy, Scenarios: notNil(r.Scenarios),
		})
	}
	return docs
}

func decodeRequirements(docs []requirementDoc) []Requirement {
	reqs := make([]Requirement, 0, len(docs))
	for _, d := range docs {
		reqs = append(reqs, Requirement{
			ID: d.ID, Level: d.Level, Title: d.Title, Verdict: d.Verdict, Bound: decodeBound(d.Bound),
			Measured: d.Measured, MeasuredNanos: (*time.Duration)(d.MeasuredNS),
			Sentence: d.Sentence, DecidedBy: d.DecidedBy, Scenarios: d.Scenarios,
		})
	}
	return reqs
}

func encodeBound(b *judge.Bound) *boundDoc {
	if b == nil {
		return nil
	}
	inputs := make(map[string]int64, len(b.Inputs))
	for symbol, d := range b.Inputs {
		inputs[symbol] = int64(d)
	}
	return &boundDoc{Formula: b.Formula, InputsNS: inputs, LimitNS: int64(b.Limit), Limit: human(b.Limit), Text: boundText(b)}
}

func decodeBound(doc *boundDoc) *judge.Bound {
	if doc == nil {
		return nil
	}
	inputs := make(map[string]time.Duration, len(doc.InputsNS))
	for symbol, ns := range doc.InputsNS {
		inputs[symbol] = time.Duration(ns)
	}
	return &judge.Bound{Formula: doc.Formula, Inputs: inputs, Limit: time.Duration(doc.LimitNS)}
}

// notNil keeps empty lists in the JSON as [] rather than null.
func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
